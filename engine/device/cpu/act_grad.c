// act_grad.c - dy, x -> dy act'(x) for each number, x before the activation. After it: act.h.
#include "device/cpu/act.h"
#include "device/cpu/plain.h"

PPL_VEC void lanes(const ppl_call *call, int64_t i, int n, int act, int32_t dtype) {
    v16 dy = v16_get(call->in[0], dtype, i, n), x = v16_get(call->in[1], dtype, i, n);
    v16_put(call->out[0], dtype, i, v16_mul(dy, ppl_act_slope(act, x)), n);
}

PPL_VEC void apply(const ppl_call *call, int64_t first, int64_t last, int act, int32_t dtype) {
    int64_t i = first;
    for (; i + 16 <= last; i += 16) lanes(call, i, 16, act, dtype);
    if (i < last) lanes(call, i, (int)(last - i), act, dtype);
}

// One loop for each activation.
PPL_VEC void grad(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)worker;
    switch (spec->attrs.i[0]) {
    case PPL_ACT_RELU: apply(call, first, last, PPL_ACT_RELU, dtype); break;
    case PPL_ACT_GELU_TANH: apply(call, first, last, PPL_ACT_GELU_TANH, dtype); break;
    case PPL_ACT_GELU_ERF: apply(call, first, last, PPL_ACT_GELU_ERF, dtype); break;
    case PPL_ACT_SILU: apply(call, first, last, PPL_ACT_SILU, dtype); break;
    default: apply(call, first, last, PPL_ACT_NONE, dtype);
    }
}
PLAIN_DTYPES(grad)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, grad);
    return PPL_OK;
}

PLAIN_KERNEL(act_grad, plain_prepare, run);
