// act.c - y = act(x) for each number. Before it: a graph's ACT where it was not fused into linear.c; after it: act.h.
#include "device/cpu/act.h"
#include "device/cpu/plain.h"

PPL_VEC void apply(const void *x, void *y, int64_t first, int64_t last, int act, int32_t dtype) {
    int64_t i = first;
    for (; i + 16 <= last; i += 16) v16_put(y, dtype, i, ppl_act_apply(act, v16_get(x, dtype, i, 16)), 16);
    int n = (int)(last - i);
    if (n) v16_put(y, dtype, i, ppl_act_apply(act, v16_get(x, dtype, i, n)), n);
}

// One loop for each activation.
PPL_VEC void act(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                 int32_t dtype) {
    (void)worker;
    const void *x = call->in[0];
    void *y = call->out[0];
    switch (spec->attrs.i[0]) {
    case PPL_ACT_RELU: apply(x, y, first, last, PPL_ACT_RELU, dtype); break;
    case PPL_ACT_GELU_TANH: apply(x, y, first, last, PPL_ACT_GELU_TANH, dtype); break;
    case PPL_ACT_GELU_ERF: apply(x, y, first, last, PPL_ACT_GELU_ERF, dtype); break;
    case PPL_ACT_SILU: apply(x, y, first, last, PPL_ACT_SILU, dtype); break;
    default: apply(x, y, first, last, PPL_ACT_NONE, dtype);
    }
}
PLAIN_DTYPES(act)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, act);
    return PPL_OK;
}

PLAIN_KERNEL(act, plain_prepare, run);
