// layernorm_dw.c - dy, x (rows, C), stats -> dw (C) = the sum over rows of dy (x - mean) rstd, db (C) = of dy. After it:
// columns.h.
#include "device/cpu/columns.h"

typedef struct tile {
    _Alignas(64) float dw[COLUMNS_TILE], db[COLUMNS_TILE];
} tile;

// `rows` (1 to 4) rows from r on, columns i .. i + n - 1, into the tile's place k.
PPL_VEC void add_rows(const ppl_call *call, tile *t, int64_t k, int64_t r, int rows, int64_t c, int64_t i, int n,
                      int32_t dtype) {
    const float *stats = call->in[2];
    v16 dw = v16_set(0.0f), db = dw;
    for (int q = 0; q < rows; q++) {
        int64_t at = (r + q) * c + i;
        v16 dy = v16_get(call->in[0], dtype, at, n), x = v16_get(call->in[1], dtype, at, n);
        v16 normal = v16_mul(v16_sub(x, v16_set(stats[2 * (r + q)])), v16_set(stats[2 * (r + q) + 1]));
        dw = q ? v16_fma(dy, normal, dw) : v16_mul(dy, normal);
        db = q ? v16_add(db, dy) : dy;
    }
    columns_add(t->dw + k, dw, r == 0);
    columns_add(t->db + k, db, r == 0);
}

PPL_VEC void norm_dw(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                     int32_t dtype) {
    (void)worker;
    int64_t c = ppl_last_dim(&spec->in[0]), rows = ppl_rows(&spec->in[0]);
    for (int64_t from = first; from < last; from += COLUMNS_TILE) {
        tile t;
        int64_t width = last - from < COLUMNS_TILE ? last - from : COLUMNS_TILE;
        for (int64_t r = 0; r < rows; r += COLUMNS_GROUP) {
            int group = rows - r < COLUMNS_GROUP ? (int)(rows - r) : COLUMNS_GROUP;
            int64_t k = 0;
            if (group == COLUMNS_GROUP)
                for (; k + 16 <= width; k += 16) add_rows(call, &t, k, r, COLUMNS_GROUP, c, from + k, 16, dtype);
            for (; k < width; k += 16) add_rows(call, &t, k, r, group, c, from + k, lanes_left(k, width), dtype);
        }
        for (int64_t k = 0; k < width; k += 16) {
            plain_put_sum(spec, call, 0, from + k, v16_load(t.dw + k), lanes_left(k, width));
            plain_put_sum(spec, call, 1, from + k, v16_load(t.db + k), lanes_left(k, width));
        }
    }
}
PLAIN_DTYPES(norm_dw)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *dy = &spec->in[0];
    COLUMNS_RUN(spec, call, ppl_rows(dy), ppl_last_dim(dy), dy->dtype, norm_dw);
    return PPL_OK;
}

PLAIN_KERNEL(layernorm_dw, plain_prepare, run);
