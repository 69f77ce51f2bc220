// layernorm.c - y = (x - mean) / sqrt(var + eps) * w + b over the last dim, and its gradients
// (Ba, Kiros and Hinton, "Layer normalization", 2016). stats (rows, 2) = mean, 1 / sqrt(var + eps).
#include "device/reference/reference.h"

static ppl_status layernorm(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < c; i++) mean += get(spec, call, 0, r * c + i) / (double)c;
        for (int64_t i = 0; i < c; i++) var += pow(get(spec, call, 0, r * c + i) - mean, 2) / (double)c;
        double rstd = 1 / sqrt(var + spec->attrs.f[0]);
        put(spec, call, 1, 2 * r, mean);
        put(spec, call, 1, 2 * r + 1, rstd);
        for (int64_t i = 0; i < c; i++) {
            double normal = (get(spec, call, 0, r * c + i) - mean) * rstd;
            put(spec, call, 0, r * c + i, normal * get(spec, call, 1, i) + get(spec, call, 2, i));
        }
    }
    return PPL_OK;
}

// dy, x, w, stats -> dx = rstd (g - mean(g) - normal mean(g normal)), g = dy w, normal = (x - mean) rstd
static ppl_status layernorm_dx(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double mean = get(spec, call, 3, 2 * r), rstd = get(spec, call, 3, 2 * r + 1);
        double mean_g = 0, mean_gn = 0;
        for (int64_t i = 0; i < c; i++) {
            double g = get(spec, call, 0, r * c + i) * get(spec, call, 2, i);
            double normal = (get(spec, call, 1, r * c + i) - mean) * rstd;
            mean_g += g / (double)c;
            mean_gn += g * normal / (double)c;
        }
        for (int64_t i = 0; i < c; i++) {
            double g = get(spec, call, 0, r * c + i) * get(spec, call, 2, i);
            double normal = (get(spec, call, 1, r * c + i) - mean) * rstd;
            put(spec, call, 0, r * c + i, rstd * (g - mean_g - normal * mean_gn));
        }
    }
    return PPL_OK;
}

// dy, x, stats -> dw (C) = sum over rows of dy normal, db (C) = sum over rows of dy
static ppl_status layernorm_dw(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t i = 0; i < c; i++) {
        double dw = 0, db = 0;
        for (int64_t r = 0; r < rows; r++) {
            double dy = get(spec, call, 0, r * c + i);
            dw += dy * (get(spec, call, 1, r * c + i) - get(spec, call, 2, 2 * r)) * get(spec, call, 2, 2 * r + 1);
            db += dy;
        }
        put(spec, call, 0, i, dw);
        put(spec, call, 1, i, db);
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(layernorm, layernorm);
PPL_REFERENCE_KERNEL(layernorm_dx, layernorm_dx);
PPL_REFERENCE_KERNEL(layernorm_dw, layernorm_dw);
