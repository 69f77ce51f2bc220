// softmax.cuh - a row's largest number and the sum of e^(x - max) in one pass (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018). Before it: softmax.cu, cross_entropy.cu; after it: rows.cuh.
#ifndef PPL_DEVICE_CUDA_SOFTMAX_CUH
#define PPL_DEVICE_CUDA_SOFTMAX_CUH
#include "device/cuda/rows.cuh"

struct row_softmax {
    float max, sum;
};

static __device__ __forceinline__ row_softmax joined(row_softmax a, row_softmax b) {
    if (b.max == -INFINITY) return a;
    if (a.max == -INFINITY) return b;
    float max = fmaxf(a.max, b.max);
    return row_softmax{max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}
// Lanes are joined so that both of a pair compute the same: the lower lane's part comes first.
static __device__ __forceinline__ row_softmax warp_joined(row_softmax a) {
    for (int o = 1; o < WARP; o *= 2) {
        row_softmax b = {__shfl_xor_sync(0xffffffffu, a.max, o), __shfl_xor_sync(0xffffffffu, a.sum, o)};
        a = threadIdx.x & o ? joined(b, a) : joined(a, b);
    }
    return a;
}

// shared: two numbers a warp.
template <class T> __device__ __forceinline__ row_softmax row_softmax_of(const T *row, int64_t c, float *shared) {
    row_softmax s = {-INFINITY, 0};
    row_each(row, c, [&](int64_t, auto &a) {
        float max = s.max;
        for (float v : a) max = fmaxf(max, v);
        if (max == -INFINITY) return; // nothing but -inf so far
        float sum = s.max == -INFINITY ? 0.0f : s.sum * expf(s.max - max);
        for (float v : a) sum += expf(v - max);
        s = row_softmax{max, sum};
    });
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    s = warp_joined(s);
    if (warps == 1) return s;
    if (lane == 0) shared[warp] = s.max, shared[WARP + warp] = s.sum;
    __syncthreads();
    s = lane < warps ? row_softmax{shared[lane], shared[WARP + lane]} : row_softmax{-INFINITY, 0};
    return warp_joined(s);
}

#endif
