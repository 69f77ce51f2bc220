// mse.c - the sum of squared differences over a microbatch, ignored targets left out, and its gradient times the seed.
#include "device/reference/reference.h"

// x, target -> sum of (x - target)^2
static ppl_status mse(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        double target = get(spec, call, 1, i);
        if (!isnan(target)) loss += pow(get(spec, call, 0, i) - target, 2);
    }
    put(spec, call, 0, 0, loss);
    return PPL_OK;
}

// seed, x, target -> dx = seed 2 (x - target)
static ppl_status mse_grad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[1]);
    double seed = get(spec, call, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        double target = get(spec, call, 2, i);
        put(spec, call, 0, i, isnan(target) ? 0 : seed * 2 * (get(spec, call, 1, i) - target));
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(mse, mse);
PPL_REFERENCE_KERNEL(mse_grad, mse_grad);
