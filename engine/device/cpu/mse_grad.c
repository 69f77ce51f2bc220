// mse_grad.c - seed, x, target -> seed 2 (x - target), 0 where the target is NaN. Before it: mse.c.
#include "device/cpu/plain.h"

PPL_VEC void lanes(const ppl_call *call, int64_t i, int n, v16 seed, int32_t dtype) {
    v16 target = v16_get(call->in[2], dtype, i, n);
    v16 d = v16_mul(seed, v16_sub(v16_get(call->in[1], dtype, i, n), target));
    v16_put(call->out[0], dtype, i, v16_select(v16_isnan(target), v16_set(0.0f), d), n);
}

PPL_VEC void grad(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)spec, (void)worker;
    v16 seed = v16_set(2 * *(const float *)call->in[0]);
    int64_t i = first;
    for (; i + 16 <= last; i += 16) lanes(call, i, 16, seed, dtype);
    if (i < last) lanes(call, i, (int)(last - i), seed, dtype);
}
PLAIN_DTYPES(grad)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[1]), spec->in[1].dtype, grad);
    return PPL_OK;
}

PLAIN_KERNEL(mse_grad, plain_prepare, run);
