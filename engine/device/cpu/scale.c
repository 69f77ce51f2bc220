// scale.c - x -> f0 x.
#include "device/cpu/plain.h"

PPL_VEC void scale(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                   int32_t dtype) {
    (void)worker;
    v16 f = v16_set((float)spec->attrs.f[0]);
    int64_t i = first;
    for (; i + 16 <= last; i += 16) v16_put(call->out[0], dtype, i, v16_mul(f, v16_get(call->in[0], dtype, i, 16)), 16);
    int n = (int)(last - i);
    if (n) v16_put(call->out[0], dtype, i, v16_mul(f, v16_get(call->in[0], dtype, i, n)), n);
}
PLAIN_DTYPES(scale)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, scale);
    return PPL_OK;
}

PLAIN_KERNEL(scale, plain_prepare, run);
