// accumulate.c - x into an f32 accumulator: the gradient of a parameter that an operator without accumulators computed.
#include "device/cpu/plain.h"

PPL_VEC void accumulate(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                        int32_t dtype) {
    (void)worker;
    for (int64_t i = first; i < last; i += 16) {
        int n = lanes_left(i, last);
        plain_put_sum(spec, call, 0, i, v16_get(call->in[0], dtype, i, n), n);
    }
}
PLAIN_DTYPES(accumulate)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, accumulate);
    return PPL_OK;
}

PLAIN_KERNEL(accumulate, plain_prepare, run);
