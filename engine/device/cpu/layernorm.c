// layernorm.c - x (rows, C), w, b -> y = (x - mean) rstd w + b, stats (rows, 2) = mean, rstd = 1 / sqrt(var + eps) (Ba,
// Kiros and Hinton, "Layer normalization", 2016). A row is read from memory once; its three passes find it in cache.
#include "device/cpu/plain.h"
#include <math.h>

PPL_VEC v16 deviation(const void *x, int64_t i, int n, v16 mean, v16 sum, int32_t dtype) {
    v16 d = v16_first(v16_sub(v16_get(x, dtype, i, n), mean), n);
    return v16_fma(d, d, sum);
}

PPL_VEC void normalize(const ppl_call *call, int64_t at, int64_t i, int n, v16 mean, v16 rstd, int32_t dtype) {
    v16 normal = v16_mul(v16_sub(v16_get(call->in[0], dtype, at + i, n), mean), rstd);
    v16 y = v16_fma(normal, v16_get(call->in[1], dtype, i, n), v16_get(call->in[2], dtype, i, n));
    v16_put(call->out[0], dtype, at + i, y, n);
}

PPL_VEC void norm(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)worker;
    int64_t c = ppl_last_dim(&spec->in[0]);
    float *stats = call->out[1];
    for (int64_t r = first; r < last; r++) {
        const void *x = call->in[0];
        int64_t at = r * c, i = 0;
        v16 sum = v16_set(0.0f), squares = v16_set(0.0f);
        for (; i + 16 <= c; i += 16) sum = v16_add(sum, v16_get(x, dtype, at + i, 16));
        if (i < c) sum = v16_add(sum, v16_get(x, dtype, at + i, (int)(c - i)));
        float mean = v16_sum(sum) / (float)c;
        v16 m = v16_set(mean);
        for (i = 0; i + 16 <= c; i += 16) squares = deviation(x, at + i, 16, m, squares, dtype);
        if (i < c) squares = deviation(x, at + i, (int)(c - i), m, squares, dtype);
        float rstd = (float)(1 / sqrt((double)(v16_sum(squares) / (float)c) + spec->attrs.f[0]));
        stats[2 * r] = mean, stats[2 * r + 1] = rstd;
        v16 s = v16_set(rstd);
        for (i = 0; i + 16 <= c; i += 16) normalize(call, at, i, 16, m, s, dtype);
        if (i < c) normalize(call, at, i, (int)(c - i), m, s, dtype);
    }
}
PLAIN_DTYPES(norm)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    PLAIN_ROWS(spec, call, ppl_rows(x), ppl_last_dim(x), x->dtype, norm);
    return PPL_OK;
}

PLAIN_KERNEL(layernorm, plain_prepare, run);
