// update.c - the reference device's optimizer step and the square sum behind the gradient norm. Before it: exec fills a
// ppl_update; after it: packing. Formulas with kernel.h's ppl_update.
#include "device/device.h"
#include "device/reference/reference.h"

// The gradient of number i: its uses summed in order, then scaled.
static double gradient(const ppl_update *u, int64_t i) {
    double g = 0;
    for (int32_t k = 0; k < u->uses; k++) g += ppl_number_get(u->grads[k], u->dtype, i);
    return g * u->scale;
}

// Stores a moment and gives it back as it is stored: the step is taken with what the next one will read.
static double keep(const ppl_update *u, void *moment, int64_t i, double x) {
    ppl_number_set(moment, u->dtype, i, x);
    return ppl_number_get(moment, u->dtype, i);
}

static double sgd(const ppl_update *u, int64_t i, double w, double g) {
    g += u->decay * w;
    if (u->moment1) g = keep(u, u->moment1_out, i, u->momentum * ppl_number_get(u->moment1, u->dtype, i) + g);
    return w - u->lr * g;
}

static double adamw(const ppl_update *u, int64_t i, double w, double g) {
    w -= u->lr * u->decay * w;
    double m = ppl_number_get(u->moment1, u->dtype, i), v = ppl_number_get(u->moment2, u->dtype, i);
    m = keep(u, u->moment1_out, i, u->beta1 * m + (1 - u->beta1) * g);
    v = keep(u, u->moment2_out, i, u->beta2 * v + (1 - u->beta2) * g * g);
    return w - u->lr / u->bias1 * m / (sqrt(v) / sqrt(u->bias2) + u->eps);
}

ppl_status ppl_reference_update(ppl_device *self, const ppl_update *u, int32_t stage) {
    (void)self, (void)stage;
    for (int64_t i = 0; i < u->n; i++) {
        double w = ppl_number_get(u->weight, u->dtype, i), g = gradient(u, i);
        w = u->kind == PPL_ADAMW ? adamw(u, i, w, g) : sgd(u, i, w, g);
        ppl_number_set(u->weight_out, u->dtype, i, w);
        if (u->copy) ppl_number_set(u->copy, u->copy_dtype, i, ppl_number_get(u->weight_out, u->dtype, i));
    }
    return PPL_OK;
}

ppl_status ppl_reference_square_sum(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                                    double *out) {
    (void)self;
    double lane[16] = {0};
    for (int64_t i = 0; i < n; i++) {
        double g = 0;
        for (int32_t k = 0; k < uses; k++) g += ppl_number_get(grads[k], dtype, i);
        lane[i % 16] += g * g;
    }
    double sum = 0;
    for (int l = 0; l < 16; l++) sum += lane[l];
    *out = sum;
    return PPL_OK;
}
