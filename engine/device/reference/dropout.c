// dropout.c - x * mask / (1 - p). The mask is random.h's: a function of seed, node, step, sample in the step's batch
// and element, so that it is the same at any number of stages and microbatches. The gradient is the same operator
// again.
#include "base/random.h"
#include "device/reference/reference.h"

static ppl_status dropout(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    int64_t samples = x->ndim ? x->dim[0] : 1, elements = ppl_type_elements(x) / (samples ? samples : 1);
    double p = spec->attrs.f[0];
    uint32_t threshold = (uint32_t)(p * 0x1p32);
    uint64_t key = ppl_mix_key(call->env->seed, (uint64_t)spec->attrs.i[7]);
    for (int64_t s = 0; s < samples; s++) {
        uint64_t n = (uint64_t)(call->env->first_sample + s);
        for (int64_t e = 0; e < elements; e++) {
            uint32_t word[4];
            ppl_philox(key, (uint64_t)call->env->step, n << 40 | (uint64_t)e >> 2, word);
            bool kept = word[e & 3] >= threshold;
            double value = get(spec, call, 0, s * elements + e);
            put(spec, call, 0, s * elements + e, !call->env->training ? value : kept ? value / (1 - p) : 0);
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(dropout, dropout);
