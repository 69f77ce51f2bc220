// act.cuh - activation functions and their derivatives for one number, shared by act.cu, act_grad.cu and the products'
// activation. (1 + tanh u) / 2 = sigmoid(2 u) needs one exp and no difference, so small values keep their accuracy.
#ifndef PPL_DEVICE_CUDA_ACT_CUH
#define PPL_DEVICE_CUDA_ACT_CUH
#include "device/cuda/common.cuh"

// -2 u with u = sqrt(2/pi) (x + 0.044715 x^3), the argument of tanh in Hendrycks and Gimpel's approximation of GELU.
static __device__ __forceinline__ float gelu_exponent(float x) {
    return x * fmaf(x * x, -0.044715f * 1.5957691216f, -1.5957691216f);
}
static __device__ __forceinline__ float bound(float x, float limit) { return fmaxf(-limit, fminf(limit, x)); }
// The share of the normal distribution below x, accurate in its lower tail.
static __device__ __forceinline__ float normal_share(float x) { return 0.5f * erfcf(-0.70710678f * x); }

template <int act> __device__ __forceinline__ float act_value(float x) {
    switch (act) {
    case PPL_ACT_RELU: return fmaxf(x, 0.0f);
    case PPL_ACT_GELU_TANH: return x / (1.0f + expf(gelu_exponent(x)));
    case PPL_ACT_GELU_ERF: return x * normal_share(x);
    case PPL_ACT_SILU: return x / (1.0f + expf(-x));
    default: return x;
    }
}

// Arguments are bounded where the slope has become 0 or 1, so that no inf * 0 arises.
template <int act> __device__ __forceinline__ float act_slope(float x) {
    switch (act) {
    case PPL_ACT_RELU: return x > 0.0f ? 1.0f : 0.0f;
    case PPL_ACT_GELU_TANH: { // s + x s (1 - s) (2 u)', 1 - s = e s
        x = bound(x, 10.0f);
        float e = expf(gelu_exponent(x)), s = 1.0f / (1.0f + e);
        float rise = fmaf(x * x, 3 * 0.044715f * 1.5957691216f, 1.5957691216f);
        return fmaf(x * rise * (e * s), s, s);
    }
    case PPL_ACT_GELU_ERF: {
        x = bound(x, 14.5f);
        return fmaf(x, 0.39894228f * expf(-0.5f * x * x), normal_share(x));
    }
    case PPL_ACT_SILU: { // s + x s (1 - s)
        x = bound(x, 87.0f);
        float e = expf(-x), s = 1.0f / (1.0f + e);
        return fmaf(x * (e * s), s, s);
    }
    default: return 1.0f;
    }
}

// run<T, act>(arguments): the activation as a constant of the kernel.
#define BY_ACT(act, T, run, ...)                                                                                       \
    ((act) == PPL_ACT_RELU        ? run<T, PPL_ACT_RELU>(__VA_ARGS__)                                                  \
     : (act) == PPL_ACT_GELU_TANH ? run<T, PPL_ACT_GELU_TANH>(__VA_ARGS__)                                             \
     : (act) == PPL_ACT_GELU_ERF  ? run<T, PPL_ACT_GELU_ERF>(__VA_ARGS__)                                              \
     : (act) == PPL_ACT_SILU      ? run<T, PPL_ACT_SILU>(__VA_ARGS__)                                                  \
                                  : run<T, PPL_ACT_NONE>(__VA_ARGS__))

#endif
