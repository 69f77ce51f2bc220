// rows.cuh - one block a row: how many threads, and loops over a row's numbers. A second pass over a row finds it in the
// first-level cache, where a row of up to some 50,000 numbers stays. Before it: norms, softmax, losses; after it:
// common.cuh.
#ifndef PPL_DEVICE_CUDA_ROWS_CUH
#define PPL_DEVICE_CUDA_ROWS_CUH
#include "device/cuda/common.cuh"

static const int ROW_THREADS = 1024; // at most

// Threads for a row of so many bundles: one each up to 256, then two or more each.
static inline unsigned row_threads(int64_t bundles) {
    int64_t threads = bundles <= 256 ? bundles : bundles <= 1024 ? (bundles + 1) / 2 : (bundles + 3) / 4;
    threads = (threads + WARP - 1) / WARP * WARP;
    return (unsigned)(threads < WARP ? WARP : threads > ROW_THREADS ? ROW_THREADS : threads);
}

// each(i, x) for a row's numbers i .. with x[0..], 16 bytes at a time wherever the row begins; rows of any length.
// Thread t always gets the same numbers, so that sums have a fixed order.
template <class T, class E> __device__ __forceinline__ void row_each(const T *row, int64_t c, E each) {
    constexpr int V = wide<T>::count;
    int64_t head = (int64_t)((16 - ((uintptr_t)row & 15)) & 15) / (int64_t)sizeof(T);
    if (head > c) head = c;
    int64_t body = (c - head) / V;
    float one[1], many[V];
    for (int64_t i = threadIdx.x; i < head; i += blockDim.x) {
        load(one, row + i);
        each(i, one);
    }
    for (int64_t b = threadIdx.x; b < body; b += blockDim.x) {
        load(many, row + head + b * V);
        each(head + b * V, many);
    }
    for (int64_t i = head + body * V + threadIdx.x; i < c; i += blockDim.x) {
        load(one, row + i);
        each(i, one);
    }
}

// A launch over rows: grid x counts up to 2^31 - 1 of them.
static inline unsigned row_blocks(int64_t rows) { return (unsigned)rows; }

// run<T, V>(job): V numbers at once where the row length is a multiple, else one.
template <class T> inline bool row_whole(int64_t c) { return c % wide<T>::count == 0; }

#endif
