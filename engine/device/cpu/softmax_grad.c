// softmax_grad.c - dy, y (rows, C) -> dx = y (dy - sum(dy y)). Before it: softmax.c's result.
#include "device/cpu/plain.h"

PPL_VEC v16 dot(const ppl_call *call, int64_t i, int n, v16 sum, int32_t dtype) {
    return v16_fma(v16_get(call->in[0], dtype, i, n), v16_get(call->in[1], dtype, i, n), sum);
}

PPL_VEC void spread(const ppl_call *call, int64_t i, int n, v16 sum, int32_t dtype) {
    v16 d = v16_sub(v16_get(call->in[0], dtype, i, n), sum);
    v16_put(call->out[0], dtype, i, v16_mul(v16_get(call->in[1], dtype, i, n), d), n);
}

PPL_VEC void grad(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)worker;
    int64_t c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = first; r < last; r++) {
        int64_t i = r * c, end = i + c;
        v16 sum = v16_set(0.0f);
        for (; i + 16 <= end; i += 16) sum = dot(call, i, 16, sum, dtype);
        if (i < end) sum = dot(call, i, (int)(end - i), sum, dtype);
        sum = v16_set(v16_sum(sum));
        for (i = r * c; i + 16 <= end; i += 16) spread(call, i, 16, sum, dtype);
        if (i < end) spread(call, i, (int)(end - i), sum, dtype);
    }
}
PLAIN_DTYPES(grad)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *dy = &spec->in[0];
    PLAIN_ROWS(spec, call, ppl_rows(dy), ppl_last_dim(dy), dy->dtype, grad);
    return PPL_OK;
}

PLAIN_KERNEL(softmax_grad, plain_prepare, run);
