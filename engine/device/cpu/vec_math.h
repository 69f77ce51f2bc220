// vec_math.h - exp, tanh and the normal distribution for 16 lanes. Before it: act.h, softmax, attention and the losses;
// after it: vec.h. Every step is an operation that rounds the same way on every instruction set, so the bits are equal.
//
// The polynomials are minimax fits (Remez, relative error) of ppl's own; tests/device/test_vec.c measures them in units
// in the last place against f64.
#ifndef PPL_DEVICE_CPU_VEC_MATH_H
#define PPL_DEVICE_CPU_VEC_MATH_H
#include "device/cpu/vec.h"

// x = n ln 2 + r with |r| <= ln 2 / 2: gives r, and n in the low bits of *n. |x| < 2^22.
PPL_VEC v16 v16_exp_reduce(v16 x, w16 *n) {
    v16 magic = v16_set(0x1.8p23f); // adding it rounds to a whole number, which then stands in the low bits
    v16 t = v16_fma(x, v16_set(0x1.715476p+0f), magic), k = v16_sub(t, magic);
    *n = v16_bits(t);
    return v16_fnma(k, v16_set(0x1.7f7d1cp-20f), v16_fnma(k, v16_set(0x1.62e4p-1f), x)); // ln 2 in two parts
}
// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2; error 3e-9 of exp(r).
PPL_VEC v16 v16_exp_poly(v16 r) {
    v16 q = v16_fma(r, v16_set(0x1.6a225p-10f), v16_set(0x1.123b02p-7f));
    q = v16_fma(r, q, v16_set(0x1.5558f8p-5f));
    q = v16_fma(r, q, v16_set(0x1.55549p-3f));
    return v16_fma(r, q, v16_set(0x1.fffffcp-2f));
}
// 2^(n + add) for -127 <= n + add < 128; 0 at -127. Only the low bits of n count.
PPL_VEC v16 v16_power2(w16 n, int add) {
    return w16_float(w16_add(w16_left(n, 23), w16_set((uint32_t)(127 + add) << 23)));
}

// e^x within 1 ulp; inf and NaN as in libm. Results below 2^-125 are 0: no result and nothing on the way is denormal.
PPL_VEC v16 v16_exp(v16 x) {
    w16 n;
    v16 one = v16_set(1.0f), r = v16_exp_reduce(v16_min(v16_set(89.0f), x), &n);
    v16 p = v16_fma(r, v16_fma(r, v16_exp_poly(r), one), one);
    v16 y = v16_mul(p, v16_power2(n, -1)); // half of it, since n is up to 128
    return v16_keep(v16_not_less(x, v16_set(-87.0f)), v16_add(y, y));
}

// tanh x = m / (m + 2) with m = e^2x - 1, which keeps its relative accuracy near 0; within 3 ulp.
PPL_VEC v16 v16_tanh(v16 x) {
    v16 y = v16_max(v16_set(-20.0f), v16_min(v16_set(20.0f), v16_add(x, x))); // beyond: -1 and 1
    w16 n;
    v16 r = v16_exp_reduce(y, &n), s = v16_power2(n, 0);
    v16 p = v16_fma(v16_mul(r, r), v16_exp_poly(r), r);
    v16 m = v16_fma(s, p, v16_sub(s, v16_set(1.0f)));
    return v16_div(m, v16_add(m, v16_set(2.0f)));
}

// The normal distribution: the share below x, (1 + erf(x / sqrt 2)) / 2, with its relative accuracy kept in the lower
// tail, and *density = e^(-x^2/2) / sqrt(2 pi). From e^(-x^2/2) w(t) with t = 1 / (1 + 0.35 |x|); w's error is 3e-8.
PPL_VEC v16 v16_normal(v16 x, v16 *density) {
    v16 z = v16_min(v16_set(14.5f), v16_abs(x)), y = v16_mul(z, z), half = v16_set(-0.5f);
    v16 lost = v16_fnma(z, z, y); // y - z^2, exactly: z^2 rounded would cost 100 ulp in the tail
    v16 g = v16_exp(v16_mul(y, half));
    g = v16_fnma(v16_mul(g, lost), half, g);
    v16 t = v16_div(v16_set(1.0f), v16_fma(v16_set(0.35f), z, v16_set(1.0f)));
    v16 w = v16_fma(t, v16_set(-0x1.ddb912p-6f), v16_set(0x1.26f9b2p-3f));
    w = v16_fma(t, w, v16_set(-0x1.05faacp-2f));
    w = v16_fma(t, w, v16_set(0x1.46496cp-3f));
    w = v16_fma(t, w, v16_set(-0x1.7c4fb6p-6f));
    w = v16_fma(t, w, v16_set(0x1.b057d2p-4f));
    w = v16_fma(t, w, v16_set(0x1.eac9bap-4f));
    w = v16_fma(t, w, v16_set(0x1.1e70c4p-3f));
    w = v16_fma(t, w, v16_set(0x1.1df1c6p-3f));
    v16 tail = v16_mul(v16_mul(w, t), g);
    *density = v16_mul(g, v16_set(0x1.988454p-2f));
    return v16_select(v16_less(x, v16_set(0.0f)), tail, v16_sub(v16_set(1.0f), tail));
}

#endif
