// attention_mma.cuh - pieces of attention on the tensor cores: tiles of heads in shared memory, and products of a warp's 16
// rows with them. Heads are padded with zeros to D = 64 or 128 numbers, which changes no sum. Before it: attention.cu,
// attention_grad.cu; after it: launch.cuh's mma, load_matrix and copy_async.
#ifndef PPL_DEVICE_CUDA_ATTENTION_MMA_CUH
#define PPL_DEVICE_CUDA_ATTENTION_MMA_CUH
#include "device/cuda/attention.cuh"

// A row of a tile in shared memory: 16 bytes longer than its numbers, so that eight rows lie in different banks.
template <int D> struct tile_row {
    enum { numbers = D + 8 };
};

// Rows first .. first + ROWS - 1 of a head (row t at from + t * row) into a tile; zeros beyond `time` and beyond d. Where rows
// are aligned the copies are asynchronous, else done on return.
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void tile_load(bf16 *tile, const bf16 *from, int64_t row, int first, int time, int d, bool aligned) {
    constexpr int S = tile_row<D>::numbers, CHUNKS = D / 8;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < ROWS * CHUNKS / THREADS; i++) {
            int at = threadIdx.x + i * THREADS, r = at / CHUNKS, c = at % CHUNKS * 8;
            bool valid = first + r < time && c < d;
            ppl_copy_async(tile + r * S + c, valid ? from + (first + r) * row + c : from, valid);
        }
        return;
    }
    for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
        int r = at / D, c = at % D;
        tile[r * S + c] = first + r < time && c < d ? from[(first + r) * row + c] : __float2bfloat16(0.0f);
    }
}

static __device__ __forceinline__ uint32_t pair_of(float low, float high) {
    __nv_bfloat162 p = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &p, 4);
    return bits;
}

// A fragment of 16 rows and 16 columns of a tile, as the left factor.
template <int D> __device__ __forceinline__ void left_load(uint32_t (&a)[4], const bf16 *tile, int row, int column) {
    int lane = threadIdx.x % WARP;
    ppl_load_matrix(a, tile + (row + lane % 16) * tile_row<D>::numbers + column + lane / 16 * 8);
}

// acc (16, N * 8) += left (16, 16) right, where right's columns are rows n .. of a tile and its rows are columns k .. k + 15.
template <int D, int N>
__device__ __forceinline__ void product_by_rows(float (&acc)[N][4], const uint32_t (&left)[4], const bf16 *tile, int k) {
    int lane = threadIdx.x % WARP;
    const bf16 *at = tile + (lane % 8 + lane / 16 * 8) * tile_row<D>::numbers + k + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t b[4];
        ppl_load_matrix(b, at + n * 8 * tile_row<D>::numbers);
        uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
        ppl_mma(acc[n], left, b0);
        ppl_mma(acc[n + 1], left, b1);
    }
}

// acc (16, D) += left (16, 16) right, where right is rows k .. k + 15 of a tile as they are.
template <int D>
__device__ __forceinline__ void product_by_columns(float (&acc)[D / 8][4], const uint32_t (&left)[4], const bf16 *tile, int k) {
    int lane = threadIdx.x % WARP;
    const bf16 *at = tile + (k + lane % 16) * tile_row<D>::numbers + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
        uint32_t b[4];
        ppl_load_matrix_transposed(b, at + n * 8);
        uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
        ppl_mma(acc[n], left, b0);
        ppl_mma(acc[n + 1], left, b1);
    }
}

// Two neighbouring accumulator tiles, rounded to bf16, as a left factor of 16 columns.
static __device__ __forceinline__ void left_of(uint32_t (&a)[4], const float (&x)[4], const float (&y)[4]) {
    a[0] = pair_of(x[0], x[1]), a[1] = pair_of(x[2], x[3]);
    a[2] = pair_of(y[0], y[1]), a[3] = pair_of(y[2], y[3]);
}

// Writes a warp's 16 rows times `low` (rows 0 .. 7) or `high`; row t of the head at to + t * row.
template <int D>
__device__ __forceinline__ void rows_store(bf16 *to, int64_t row, int first, int time, int d, const float (&acc)[D / 8][4],
                                           float low, float high) {
    int lane = threadIdx.x % WARP, t = first + lane / 4;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        int c = n * 8 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float scale = i ? high : low, x = acc[n][2 * i] * scale, y = acc[n][2 * i + 1] * scale;
            bf16 *at = to + (int64_t)(t + 8 * i) * row + c;
            if (t + 8 * i >= time || c >= d) continue;
            if (d % 2 == 0) {
                *reinterpret_cast<uint32_t *>(at) = pair_of(x, y);
                continue;
            }
            at[0] = __float2bfloat16(x);
            if (c + 1 < d) at[1] = __float2bfloat16(y);
        }
    }
}

// 2^x; results below 2^-126 are 0.
static __device__ __forceinline__ float power2(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

static const float LOG2_E = 1.44269504f, LN_2 = 0.69314718f;

#endif
