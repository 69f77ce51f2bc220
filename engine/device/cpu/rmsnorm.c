// rmsnorm.c - x (rows, C), w -> y = x rstd w, stats (rows) = rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich, "Root
// mean square layer normalization", 2019).
#include "device/cpu/plain.h"
#include <math.h>

PPL_VEC v16 square(const void *x, int64_t i, int n, v16 sum, int32_t dtype) {
    v16 v = v16_get(x, dtype, i, n);
    return v16_fma(v, v, sum);
}

PPL_VEC void normalize(const ppl_call *call, int64_t at, int64_t i, int n, v16 rstd, int32_t dtype) {
    v16 normal = v16_mul(v16_get(call->in[0], dtype, at + i, n), rstd);
    v16_put(call->out[0], dtype, at + i, v16_mul(normal, v16_get(call->in[1], dtype, i, n)), n);
}

PPL_VEC void norm(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)worker;
    int64_t c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = first; r < last; r++) {
        int64_t at = r * c, i = 0;
        v16 squares = v16_set(0.0f);
        for (; i + 16 <= c; i += 16) squares = square(call->in[0], at + i, 16, squares, dtype);
        if (i < c) squares = square(call->in[0], at + i, (int)(c - i), squares, dtype);
        float rstd = (float)(1 / sqrt((double)(v16_sum(squares) / (float)c) + spec->attrs.f[0]));
        ((float *)call->out[1])[r] = rstd;
        v16 s = v16_set(rstd);
        for (i = 0; i + 16 <= c; i += 16) normalize(call, at, i, 16, s, dtype);
        if (i < c) normalize(call, at, i, (int)(c - i), s, dtype);
    }
}
PLAIN_DTYPES(norm)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    PLAIN_ROWS(spec, call, ppl_rows(x), ppl_last_dim(x), x->dtype, norm);
    return PPL_OK;
}

PLAIN_KERNEL(rmsnorm, plain_prepare, run);
