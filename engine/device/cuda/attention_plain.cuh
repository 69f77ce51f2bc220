// attention_plain.cuh - attention in f32 arithmetic, for f32 and for heads that the tensor cores' kernels do not take: a warp
// has four rows (queries, or keys in their gradient), its lanes the 32 rows of a tile of the other side, then a head's
// numbers. Before it: attention.cu, attention_grad.cu.
#ifndef PPL_DEVICE_CUDA_ATTENTION_PLAIN_CUH
#define PPL_DEVICE_CUDA_ATTENTION_PLAIN_CUH
#include "device/cuda/attention.cuh"

enum { PLAIN_WARPS = 4, PLAIN_ROWS = 4, PLAIN_BLOCK = PLAIN_WARPS * PLAIN_ROWS, PLAIN_THREADS = PLAIN_WARPS * WARP };

// Numbers of a tile's row: one more than the head's, so that the lanes' rows lie in different banks.
static __host__ __device__ __forceinline__ int plain_row(int d) { return d | 1; }
// Floats of shared memory for `rows` sets of the block's rows and `tiles` tiles.
static inline size_t plain_shared(int d, int rows, int tiles) {
    return (size_t)(rows * PLAIN_BLOCK + tiles * WARP) * (size_t)plain_row(d) * sizeof(float);
}

// Rows first .. of a head as f32, zeros beyond time.
template <class T>
__device__ __forceinline__ void plain_load(float *to, const T *from, int64_t row, int rows, int first, int time, int d) {
    for (int i = threadIdx.x; i < rows * d; i += PLAIN_THREADS) {
        int r = i / d, c = i - r * d;
        to[r * plain_row(d) + c] = first + r < time ? widen(from[(first + r) * row + c]) : 0.0f;
    }
}

// x[r] = rows[r] . tile[lane]
static __device__ __forceinline__ void plain_dots(float (&x)[PLAIN_ROWS], const float *rows, const float *tile, int d) {
    const float *mine = tile + threadIdx.x % WARP * plain_row(d);
    for (int r = 0; r < PLAIN_ROWS; r++) x[r] = 0;
    for (int i = 0; i < d; i++) {
        float t = mine[i];
        for (int r = 0; r < PLAIN_ROWS; r++) x[r] = fmaf(rows[r * plain_row(d) + i], t, x[r]);
    }
}

// acc[r][c] += sum over the tile's rows j of w[r] (lane j's) tile[j][lane + 32 c]
template <int C>
__device__ __forceinline__ void plain_add(float (&acc)[PLAIN_ROWS][C], const float (&w)[PLAIN_ROWS], const float *tile, int d) {
    int lane = threadIdx.x % WARP;
    for (int j = 0; j < WARP; j++) {
        float share[PLAIN_ROWS];
        for (int r = 0; r < PLAIN_ROWS; r++) share[r] = __shfl_sync(0xffffffffu, w[r], j);
#pragma unroll
        for (int c = 0; c < C; c++) {
            float t = lane + c * WARP < d ? tile[j * plain_row(d) + lane + c * WARP] : 0.0f;
            for (int r = 0; r < PLAIN_ROWS; r++) acc[r][c] = fmaf(share[r], t, acc[r][c]);
        }
    }
}

template <class T, int C>
__device__ __forceinline__ void plain_store(T *to, int64_t row, int first, int time, int d, const float (&acc)[PLAIN_ROWS][C],
                                            const float (&scale)[PLAIN_ROWS]) {
    int lane = threadIdx.x % WARP;
    for (int r = 0; r < PLAIN_ROWS && first + r < time; r++)
        for (int c = 0; c < C; c++)
            if (lane + c * WARP < d) to[(first + r) * row + lane + c * WARP] = narrow<T>(acc[r][c] * scale[r]);
}

#endif
