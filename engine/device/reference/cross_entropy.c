// cross_entropy.c - the sum of -log softmax(logits)[target] over a microbatch, ignored targets left out, and its gradient
// times the seed, which is 1 / the step's weight.
#include "device/reference/reference.h"
#include <inttypes.h>

static ppl_status target_check(const ppl_call *call, int32_t input, int64_t row, int64_t classes) {
    int32_t target = ((const int32_t *)call->in[input])[row];
    if (target < classes) return PPL_OK;
    return ppl_fail(PPL_ERR_DATA, "cross_entropy: target %d in row %" PRId64 ", want below %" PRId64, target, row,
                    classes);
}

// logits (rows, V), targets (rows) -> sum of lse - logits[target], lse (rows) = log sum exp of the row's logits
static ppl_status cross_entropy(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), v = ppl_last_dim(&spec->in[0]);
    double loss = 0;
    for (int64_t r = 0; r < rows; r++) {
        PPL_TRY(target_check(call, 1, r, v));
        int32_t target = ((const int32_t *)call->in[1])[r];
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < v; i++) max = fmax(max, get(spec, call, 0, r * v + i));
        for (int64_t i = 0; i < v; i++) sum += exp(get(spec, call, 0, r * v + i) - max);
        double lse = max + log(sum);
        put(spec, call, 1, r, lse);
        if (target >= 0) loss += lse - get(spec, call, 0, r * v + target);
    }
    put(spec, call, 0, 0, loss);
    return PPL_OK;
}

// seed, logits, targets, lse -> dlogits = seed (softmax - onehot)
static ppl_status cross_entropy_grad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[1]), v = ppl_last_dim(&spec->in[1]);
    double seed = get(spec, call, 0, 0);
    for (int64_t r = 0; r < rows; r++) {
        PPL_TRY(target_check(call, 2, r, v));
        int32_t target = ((const int32_t *)call->in[2])[r];
        for (int64_t i = 0; i < v; i++) {
            double p = exp(get(spec, call, 1, r * v + i) - get(spec, call, 3, r));
            put(spec, call, 0, r * v + i, target < 0 ? 0 : seed * (p - (i == target)));
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(cross_entropy, cross_entropy);
PPL_REFERENCE_KERNEL(cross_entropy_grad, cross_entropy_grad);
