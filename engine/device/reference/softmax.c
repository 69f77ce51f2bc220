// softmax.c - softmax over the last dim and its gradient.
#include "device/reference/reference.h"

static ppl_status softmax(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < c; i++) max = fmax(max, get(spec, call, 0, r * c + i));
        for (int64_t i = 0; i < c; i++) sum += exp(get(spec, call, 0, r * c + i) - max);
        for (int64_t i = 0; i < c; i++) put(spec, call, 0, r * c + i, exp(get(spec, call, 0, r * c + i) - max) / sum);
    }
    return PPL_OK;
}

// dy, y -> dx = y (dy - sum(dy y))
static ppl_status softmax_grad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double dot = 0;
        for (int64_t i = 0; i < c; i++) dot += get(spec, call, 0, r * c + i) * get(spec, call, 1, r * c + i);
        for (int64_t i = 0; i < c; i++) {
            double y = get(spec, call, 1, r * c + i);
            put(spec, call, 0, r * c + i, y * (get(spec, call, 0, r * c + i) - dot));
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(softmax, softmax);
PPL_REFERENCE_KERNEL(softmax_grad, softmax_grad);
