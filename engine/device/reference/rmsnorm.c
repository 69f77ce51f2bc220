// rmsnorm.c - y = x / sqrt(mean(x^2) + eps) * w over the last dim, and its gradients (Zhang and Sennrich, "Root mean
// square layer normalization", 2019). stats (rows) = 1 / sqrt(mean(x^2) + eps).
#include "device/reference/reference.h"

static ppl_status rmsnorm(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double square = 0;
        for (int64_t i = 0; i < c; i++) square += pow(get(spec, call, 0, r * c + i), 2) / (double)c;
        double rstd = 1 / sqrt(square + spec->attrs.f[0]);
        put(spec, call, 1, r, rstd);
        for (int64_t i = 0; i < c; i++)
            put(spec, call, 0, r * c + i, get(spec, call, 0, r * c + i) * rstd * get(spec, call, 1, i));
    }
    return PPL_OK;
}

// dy, x, w, stats -> dx = rstd (g - normal mean(g normal)), g = dy w, normal = x rstd
static ppl_status rmsnorm_dx(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        double rstd = get(spec, call, 3, r), mean_gn = 0;
        for (int64_t i = 0; i < c; i++) {
            double g = get(spec, call, 0, r * c + i) * get(spec, call, 2, i);
            mean_gn += g * get(spec, call, 1, r * c + i) * rstd / (double)c;
        }
        for (int64_t i = 0; i < c; i++) {
            double g = get(spec, call, 0, r * c + i) * get(spec, call, 2, i);
            put(spec, call, 0, r * c + i, rstd * (g - get(spec, call, 1, r * c + i) * rstd * mean_gn));
        }
    }
    return PPL_OK;
}

// dy, x, stats -> dw (C) = sum over rows of dy normal
static ppl_status rmsnorm_dw(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), c = ppl_last_dim(&spec->in[0]);
    for (int64_t i = 0; i < c; i++) {
        double dw = 0;
        for (int64_t r = 0; r < rows; r++)
            dw += get(spec, call, 0, r * c + i) * get(spec, call, 1, r * c + i) * get(spec, call, 2, r);
        put(spec, call, 0, i, dw);
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(rmsnorm, rmsnorm);
PPL_REFERENCE_KERNEL(rmsnorm_dx, rmsnorm_dx);
PPL_REFERENCE_KERNEL(rmsnorm_dw, rmsnorm_dw);
