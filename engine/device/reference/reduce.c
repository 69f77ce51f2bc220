// reduce.c - sums over leading dims (the gradient of a broadcast), and ACCUMULATE, which only adds up over
// microbatches.
#include "device/reference/reference.h"

static ppl_status reduce(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t kept = ppl_type_elements(&spec->out[0]), rows = ppl_type_elements(&spec->in[0]) / kept;
    for (int64_t i = 0; i < kept; i++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += get(spec, call, 0, r * kept + i);
        put(spec, call, 0, i, sum);
    }
    return PPL_OK;
}

static ppl_status accumulate(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t i = 0; i < n; i++) put(spec, call, 0, i, get(spec, call, 0, i));
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(reduce, reduce);
PPL_REFERENCE_KERNEL(accumulate, accumulate);
