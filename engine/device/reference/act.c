// act.c - activations and their derivatives (GELU: Hendrycks and Gimpel, 2016, exact and by tanh; SiLU: x sigmoid(x)).
#include "device/reference/reference.h"
#include <assert.h>

static const double sqrt_2_over_pi = 0.79788456080286535588;
static const double sqrt_half = 0.70710678118654752440;
static const double one_over_sqrt_2pi = 0.39894228040143267794;
static const double cubic = 0.044715;

double ppl_reference_act_value(int64_t act, double x) {
    switch ((ppl_act)act) {
    case PPL_ACT_NONE: return x;
    case PPL_ACT_RELU: return x > 0 ? x : 0;
    case PPL_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + cubic * x * x * x)));
    case PPL_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * sqrt_half));
    case PPL_ACT_SILU: return x / (1 + exp(-x));
    case PPL_ACTS: break;
    }
    assert(!"activation");
    return NAN;
}

double ppl_reference_act_slope(int64_t act, double x) {
    switch ((ppl_act)act) {
    case PPL_ACT_NONE: return 1;
    case PPL_ACT_RELU: return x > 0 ? 1 : 0;
    case PPL_ACT_GELU_TANH: {
        double t = tanh(sqrt_2_over_pi * (x + cubic * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * cubic * x * x);
    }
    case PPL_ACT_GELU_ERF: return 0.5 * (1 + erf(x * sqrt_half)) + x * one_over_sqrt_2pi * exp(-0.5 * x * x);
    case PPL_ACT_SILU: {
        double s = 1 / (1 + exp(-x));
        return s * (1 + x * (1 - s));
    }
    case PPL_ACTS: break;
    }
    assert(!"activation");
    return NAN;
}

static ppl_status act(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t i = 0; i < n; i++)
        put(spec, call, 0, i, ppl_reference_act_value(spec->attrs.i[0], get(spec, call, 0, i)));
    return PPL_OK;
}

// dy, x -> dy act'(x)
static ppl_status act_grad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t i = 0; i < n; i++) {
        double slope = ppl_reference_act_slope(spec->attrs.i[0], get(spec, call, 1, i));
        put(spec, call, 0, i, get(spec, call, 0, i) * slope);
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(act, act);
PPL_REFERENCE_KERNEL(act_grad, act_grad);
