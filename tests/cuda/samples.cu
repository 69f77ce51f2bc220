// samples.cu - small kernels that try the emulation: sound ones, and ones with a fault planted that it must find.
// Before them: test_fiber.cc, which runs them.
#include "device/cuda/launch.cuh"
#include "samples.h"

static __device__ __forceinline__ float warp_sum(float v) {
    for (int lanes = 16; lanes; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
    return v;
}

// y[row] = sum of x[row][0..n-1]; each barrier can be left out
__global__ void row_sum(float *y, const float *x, int n, bool barrier) {
    PPL_SHARED(float, part, [32]);
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[blockIdx.x * n + i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    if (barrier) __syncthreads();
    if (threadIdx.x == 0) {
        v = 0;
        for (unsigned i = 0; i < (blockDim.x + 31) / 32; i++) v += part[i];
        y[blockIdx.x] = v;
    }
}
void sample_row_sum(float *y, const float *x, int rows, int n, bool barrier, cudaStream_t s) {
    PPL_LAUNCH(row_sum, rows, 128, 0, s, y, x, n, barrier);
}

// Each warp passes a value on to the next, turn by turn. Without the second barrier a warp that runs ahead overwrites
// what its neighbour has not read yet; in step, warp after warp, nothing shows.
__global__ void ring(int *out, int turns, bool barrier) {
    PPL_SHARED(int, place, [32]);
    int warp = threadIdx.x / 32, warps = blockDim.x / 32, value = warp;
    for (int t = 0; t < turns; t++) {
        if (threadIdx.x % 32 == 0) place[warp] = value;
        __syncthreads();
        value = place[(warp + 1) % warps];
        __syncwarp();
        if (barrier) __syncthreads();
    }
    if (threadIdx.x % 32 == 0) out[warp] = value;
}
void sample_ring(int *out, int warps, int turns, bool barrier, cudaStream_t s) {
    PPL_LAUNCH(ring, 1, 32 * warps, 0, s, out, turns, barrier);
}

__global__ void divergent_barrier(int *out) {
    if (threadIdx.x < 40) __syncthreads();
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}
void sample_divergent_barrier(int *out, cudaStream_t s) {
    PPL_LAUNCH(divergent_barrier, 1, 64, 0, s, out);
}

__global__ void two_barriers(int *out) {
    if (threadIdx.x < 32) __syncthreads();
    else __syncthreads();
    out[threadIdx.x] = 1;
}
void sample_two_barriers(int *out, cudaStream_t s) {
    PPL_LAUNCH(two_barriers, 1, 64, 0, s, out);
}

__global__ void wrong_mask(int *out) {
    out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);
}
void sample_wrong_mask(int *out, cudaStream_t s) {
    PPL_LAUNCH(wrong_mask, 1, 32, 0, s, out);
}

// Halves of a warp meet under their own masks, a different number of times.
__global__ void halves(int *out) {
    int v = threadIdx.x;
    if (threadIdx.x < 16)
        for (int i = 0; i < 3; i++) v = __shfl_sync(0x0000ffffu, v, (threadIdx.x + 1) % 16);
    else v = __shfl_sync(0xffff0000u, v, 16 + (threadIdx.x + 1) % 16);
    out[threadIdx.x] = v + 100 * __popc(__ballot_sync(0xffffffffu, v % 2));
}
void sample_halves(int *out, cudaStream_t s) {
    PPL_LAUNCH(halves, 1, 32, 0, s, out);
}

// Lanes that have ended are not waited for, and what they would say is no number.
__global__ void ended_lanes(float *out) {
    if (threadIdx.x >= 24) return;
    out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 1);
}
void sample_ended_lanes(float *out, cudaStream_t s) {
    PPL_LAUNCH(ended_lanes, 1, 32, 0, s, out);
}

// c[16][8] = a[16][k] b[8][k]^T, fragments read from global memory or by ldmatrix from shared memory
template <bool shared> __global__ void product(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int k) {
    PPL_SHARED(__nv_bfloat16, tile, [24][16]);
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    for (int at = 0; at < k; at += 16) {
        uint32_t x[4], y[2];
        if (shared) {
            __syncwarp();
            for (int i = threadIdx.x; i < 48; i += 32) {
                const __nv_bfloat16 *row = i / 2 < 16 ? a + i / 2 * k : b + (i / 2 - 16) * k;
                ppl_copy_async(&tile[i / 2][i % 2 * 8], row + at + i % 2 * 8, true);
            }
            ppl_copy_commit();
            ppl_copy_wait<0>();
            __syncwarp();
            ppl_load_matrix(x, &tile[threadIdx.x % 16][threadIdx.x / 16 * 8]);
            uint32_t z[4];
            ppl_load_matrix(z, &tile[16 + threadIdx.x % 8][threadIdx.x / 8 % 2 * 8]);
            y[0] = z[0];
            y[1] = z[1];
        } else {
            for (int i = 0; i < 4; i++)
                x[i] = *reinterpret_cast<const uint32_t *>(&a[(g + i % 2 * 8) * k + at + i / 2 * 8 + 2 * t]);
            for (int i = 0; i < 2; i++) y[i] = *reinterpret_cast<const uint32_t *>(&b[g * k + at + i * 8 + 2 * t]);
        }
        ppl_mma(d, x, y);
    }
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}
void sample_product(float *c, const void *a, const void *b, int k, bool shared, cudaStream_t s) {
    const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(a), *y = static_cast<const __nv_bfloat16 *>(b);
    if (shared) PPL_LAUNCH((product<true>), 1, 32, 0, s, c, x, y, k);
    else PPL_LAUNCH((product<false>), 1, 32, 0, s, c, x, y, k);
}

// to[16 n] = from[16 n], by copies that are not waited for unless asked
__global__ void late_copy(uint32_t *to, const uint32_t *from, bool wait) {
    PPL_SHARED_DYNAMIC(uint32_t, tile);
    ppl_copy_async(tile + 4 * threadIdx.x, from + 4 * threadIdx.x, threadIdx.x != 1);
    ppl_copy_commit();
    if (wait) ppl_copy_wait<0>();
    for (int i = 0; i < 4; i++) to[4 * threadIdx.x + i] = tile[4 * threadIdx.x + i];
}
void sample_late_copy(uint32_t *to, const uint32_t *from, bool wait, cudaStream_t s) {
    PPL_LAUNCH(late_copy, 1, 4, 64, s, to, from, wait);
}

// Writes one element behind the end of shared memory, static or dynamic.
__global__ void overrun(int *out, int n, bool dynamic) {
    PPL_SHARED(int, fixed, [8]);
    PPL_SHARED_DYNAMIC(int, asked);
    int *p = dynamic ? asked : &fixed[0];
    p[threadIdx.x] = n;
    out[0] = p[0];
}
void sample_overrun(int *out, bool dynamic, cudaStream_t s) {
    PPL_LAUNCH(overrun, 1, 9, 32, s, out, 1, dynamic);
}

__global__ void number_blocks(int *out, int *next) {
    if (threadIdx.x == 0) out[atomicAdd(next, 1)] = blockIdx.x + gridDim.x * blockIdx.y;
}
void sample_number_blocks(int *out, int *next, cudaStream_t s) {
    PPL_LAUNCH(number_blocks, dim3(4, 3), 2, 0, s, out, next);
}

__global__ void add(float *x, float v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += v;
}
void sample_add(float *x, float v, int n, cudaStream_t s) {
    PPL_LAUNCH(add, (n + 31) / 32, 32, 0, s, x, v, n);
}

__global__ void much_shared(int *out, int n) {
    PPL_SHARED_DYNAMIC(char, room);
    room[n - 1] = 3;
    *out = room[n - 1];
}
void sample_much_shared(int *out, int bytes, bool allowed, cudaStream_t s) {
    if (allowed)
        cudaFuncSetAttribute(reinterpret_cast<const void *>(much_shared), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             bytes);
    PPL_LAUNCH(much_shared, 1, 1, bytes, s, out, bytes);
}
