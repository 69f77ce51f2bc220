// act.h - activation functions for 16 lanes: what the act kernels and the epilogue of linear share, so that a fused
// kernel gives the bits of its parts. Before it: act.c, act_grad.c, linear.c; after it: vec_math.h.
#ifndef PPL_DEVICE_CPU_ACT_H
#define PPL_DEVICE_CPU_ACT_H
#include "device/cpu/vec_math.h"

// -2 u with u = sqrt(2/pi) (x + 0.044715 x^3), the argument of tanh in Hendrycks and Gimpel's approximation of GELU.
PPL_VEC v16 act_gelu_exponent(v16 x) {
    v16 inner = v16_fma(v16_mul(x, x), v16_set(-0.044715f * 1.5957691216f), v16_set(-1.5957691216f));
    return v16_mul(x, inner);
}
// 1 / (1 + e^x), with e^x in *e.
PPL_VEC v16 act_share(v16 x, v16 *e) {
    *e = v16_exp(x);
    return v16_div(v16_set(1.0f), v16_add(v16_set(1.0f), *e));
}
PPL_VEC v16 act_bound(v16 x, float limit) {
    return v16_max(v16_set(-limit), v16_min(v16_set(limit), x));
}

// act: ppl_act. (1 + tanh u) / 2 = sigmoid(2 u) needs one exp and no difference, so small values keep their accuracy.
PPL_VEC v16 ppl_act_apply(int act, v16 x) {
    v16 e, one = v16_set(1.0f);
    switch (act) {
    case PPL_ACT_RELU: return v16_max(v16_set(0.0f), x);
    case PPL_ACT_GELU_TANH: return v16_div(x, v16_add(one, v16_exp(act_gelu_exponent(x))));
    case PPL_ACT_GELU_ERF: return v16_mul(x, v16_normal(x, &e));
    case PPL_ACT_SILU: return v16_div(x, v16_add(one, v16_exp(v16_neg(x))));
    }
    return x;
}

// The derivative at x. Arguments are bounded where the slope has become 0 or 1, so that no inf * 0 arises.
PPL_VEC v16 ppl_act_slope(int act, v16 x) {
    v16 e, s, one = v16_set(1.0f);
    switch (act) {
    case PPL_ACT_RELU: return v16_select(v16_less(v16_set(0.0f), x), one, v16_set(0.0f));
    case PPL_ACT_GELU_TANH: { // s + x s (1 - s) (2 u)', 1 - s = e s
        x = act_bound(x, 10.0f);
        s = act_share(act_gelu_exponent(x), &e);
        v16 rise = v16_fma(v16_mul(x, x), v16_set(3 * 0.044715f * 1.5957691216f), v16_set(1.5957691216f));
        return v16_fma(v16_mul(v16_mul(x, rise), v16_mul(e, s)), s, s);
    }
    case PPL_ACT_GELU_ERF: s = v16_normal(x, &e); return v16_fma(act_bound(x, 14.5f), e, s);
    case PPL_ACT_SILU: // s + x s (1 - s)
        x = act_bound(x, 87.0f);
        s = act_share(v16_neg(x), &e);
        return v16_fma(v16_mul(x, v16_mul(e, s)), s, s);
    }
    return one;
}

#endif
