// reduce.c - x -> its sum over leading dims down to the last i0: the gradient of what was broadcast. After it: columns.h.
#include "device/cpu/columns.h"

PPL_VEC v16 group_sum(const void *x, int64_t r, int rows, int64_t c, int64_t i, int n, int32_t dtype) {
    v16 sum = v16_get(x, dtype, r * c + i, n);
    for (int q = 1; q < rows; q++) sum = v16_add(sum, v16_get(x, dtype, (r + q) * c + i, n));
    return sum;
}

PPL_VEC void reduce(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                    int32_t dtype) {
    (void)worker;
    const void *x = call->in[0];
    int64_t c = ppl_type_elements(&spec->out[0]), rows = ppl_type_elements(&spec->in[0]) / c;
    for (int64_t from = first; from < last; from += COLUMNS_TILE) {
        _Alignas(64) float t[COLUMNS_TILE];
        int64_t width = last - from < COLUMNS_TILE ? last - from : COLUMNS_TILE;
        for (int64_t r = 0; r < rows; r += COLUMNS_GROUP) {
            int group = rows - r < COLUMNS_GROUP ? (int)(rows - r) : COLUMNS_GROUP;
            int64_t k = 0;
            if (group == COLUMNS_GROUP)
                for (; k + 16 <= width; k += 16)
                    columns_add(t + k, group_sum(x, r, COLUMNS_GROUP, c, from + k, 16, dtype), r == 0);
            for (; k < width; k += 16)
                columns_add(t + k, group_sum(x, r, group, c, from + k, lanes_left(k, width), dtype), r == 0);
        }
        for (int64_t k = 0; k < width; k += 16)
            plain_put_sum(spec, call, 0, from + k, v16_load(t + k), lanes_left(k, width));
    }
}
PLAIN_DTYPES(reduce)

// Down to one number: 16 lanes in f64 over all of x.
PPL_VEC double total(const void *x, int64_t n, int32_t dtype) {
    d16 sum = d16_zero();
    for (int64_t i = 0; i < n; i += 16) sum = d16_add(sum, v16_widen(v16_get(x, dtype, i, lanes_left(i, n))));
    return d16_sum(sum);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), columns = ppl_type_elements(&spec->out[0]);
    int32_t dtype = spec->in[0].dtype;
    if (columns == 1) {
        double sum = dtype == PPL_BF16 ? total(call->in[0], n, PPL_BF16) : total(call->in[0], n, PPL_F32);
        plain_put_sum(spec, call, 0, 0, v16_set((float)sum), 1);
    } else {
        COLUMNS_RUN(spec, call, n / columns, columns, dtype, reduce);
    }
    return PPL_OK;
}

PLAIN_KERNEL(reduce, plain_prepare, run);
