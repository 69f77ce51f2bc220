// concat.c - inputs joined along one dim.
#include "device/reference/reference.h"

static ppl_status concat(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    span y = span_of(&spec->out[0], spec->attrs.i[0]);
    int64_t first = 0;
    for (int32_t input = 0; input < spec->inputs; input++) {
        span x = span_of(&spec->in[input], spec->attrs.i[0]);
        for (int64_t o = 0; o < x.outer; o++)
            for (int64_t i = 0; i < x.size; i++)
                for (int64_t j = 0; j < x.inner; j++)
                    put(spec, call, 0, (o * y.size + first + i) * y.inner + j,
                        get(spec, call, input, (o * x.size + i) * x.inner + j));
        first += x.size;
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(concat, concat);
