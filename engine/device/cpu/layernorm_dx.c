// layernorm_dx.c - dy, x (rows, C), w, stats -> dx = rstd (g - mean(g) - normal mean(g normal)), with g = dy w and
// normal = (x - mean) rstd. Before it: layernorm.c's statistics.
#include "device/cpu/plain.h"

typedef struct row {
    int64_t at; // of its first number
    v16 mean, rstd;
    v16 sum_g, sum_gn; // 16 partial sums each, then the means
} row;

PPL_VEC v16 gradient(const ppl_call *call, int64_t at, int64_t i, int n, int32_t dtype) {
    return v16_mul(v16_get(call->in[0], dtype, at + i, n), v16_get(call->in[2], dtype, i, n));
}
PPL_VEC v16 normal(const ppl_call *call, const row *r, int64_t i, int n, int32_t dtype) {
    return v16_mul(v16_sub(v16_get(call->in[1], dtype, r->at + i, n), r->mean), r->rstd);
}

PPL_VEC void gather(const ppl_call *call, row *r, int64_t i, int n, int32_t dtype) {
    v16 g = gradient(call, r->at, i, n, dtype); // 0 in lanes beyond the row
    r->sum_g = v16_add(r->sum_g, g);
    r->sum_gn = v16_fma(g, normal(call, r, i, n, dtype), r->sum_gn);
}

PPL_VEC void spread(const ppl_call *call, const row *r, int64_t i, int n, int32_t dtype) {
    v16 g = gradient(call, r->at, i, n, dtype);
    v16 dx = v16_fnma(normal(call, r, i, n, dtype), r->sum_gn, v16_sub(g, r->sum_g));
    v16_put(call->out[0], dtype, r->at + i, v16_mul(r->rstd, dx), n);
}

PPL_VEC void norm_dx(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                     int32_t dtype) {
    (void)worker;
    int64_t c = ppl_last_dim(&spec->in[0]);
    const float *stats = call->in[3];
    for (int64_t k = first; k < last; k++) {
        row r = {k * c, v16_set(stats[2 * k]), v16_set(stats[2 * k + 1]), v16_set(0.0f), v16_set(0.0f)};
        int64_t i = 0;
        for (; i + 16 <= c; i += 16) gather(call, &r, i, 16, dtype);
        if (i < c) gather(call, &r, i, (int)(c - i), dtype);
        r.sum_g = v16_set(v16_sum(r.sum_g) / (float)c);
        r.sum_gn = v16_set(v16_sum(r.sum_gn) / (float)c);
        for (i = 0; i + 16 <= c; i += 16) spread(call, &r, i, 16, dtype);
        if (i < c) spread(call, &r, i, (int)(c - i), dtype);
    }
}
PLAIN_DTYPES(norm_dx)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *dy = &spec->in[0];
    PLAIN_ROWS(spec, call, ppl_rows(dy), ppl_last_dim(dy), dy->dtype, norm_dx);
    return PPL_OK;
}

PLAIN_KERNEL(layernorm_dx, plain_prepare, run);
