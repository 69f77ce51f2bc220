// common.cuh - what the kernels share: numbers widened to f32 and rounded back, 16 bytes a load, sums over a warp and a
// block in a fixed order, and one thread for a few numbers. Before it: the .cu files; after it: launch.cuh.
#ifndef PPL_DEVICE_CUDA_COMMON_CUH
#define PPL_DEVICE_CUDA_COMMON_CUH
#include "device/cuda/launch.cuh"
extern "C" {
#include "device/cuda/job.h"
#include "ops/op.h"
}

typedef __nv_bfloat16 bf16;

// ---- numbers ----

static __device__ __forceinline__ float widen(float x) { return x; }
static __device__ __forceinline__ float widen(bf16 x) { return __bfloat162float(x); }
template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x) { return __float2bfloat16(x); }
// x as it would be read back after it was stored as T.
template <class T> __device__ __forceinline__ float rounded(float x) { return widen(narrow<T>(x)); }

// ---- V numbers at once: 16 bytes where rows allow it, else one ----

template <class T> struct wide {
    enum { count = 16 / sizeof(T) };
};
template <class T, int V> struct alignas(V * sizeof(T)) bundle {
    T x[V];
};

template <class T, int V> __device__ __forceinline__ void load(float (&x)[V], const T *from) {
    bundle<T, V> b = *reinterpret_cast<const bundle<T, V> *>(from);
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = widen(b.x[i]);
}
template <class T, int V> __device__ __forceinline__ void store(T *to, const float (&x)[V]) {
    bundle<T, V> b;
#pragma unroll
    for (int i = 0; i < V; i++) b.x[i] = narrow<T>(x[i]);
    *reinterpret_cast<bundle<T, V> *>(to) = b;
}

// ---- sums, in the same order whatever else runs ----

static const int WARP = 32;

static __device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int o = WARP / 2; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
static __device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (int o = WARP / 2; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
static __device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int o = WARP / 2; o; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

// All threads of the block get the sum; shared: a number a warp. May be called again with the same array.
template <class N> __device__ __forceinline__ N block_sum(N x, N *shared) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = (blockDim.x + WARP - 1) / WARP;
    x = warp_sum(x);
    if (warps == 1) return x;
    __syncthreads(); // the last call's numbers are read
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? shared[lane] : N(0));
}

// ---- one thread for V numbers of n ----

static const int EACH_BLOCK = 256;

// part(i): numbers i .. i + V - 1, all of them below n since V divides it.
template <int V, class P> __global__ void __launch_bounds__(EACH_BLOCK) each(int64_t n, P part) {
    int64_t i = ((int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x) * V;
    if (i < n) part(i);
}
template <int V, class P> cudaError_t each_run(int64_t n, const P &part, cudaStream_t stream) {
    unsigned blocks = (unsigned)((n / V + EACH_BLOCK - 1) / EACH_BLOCK);
    if (!blocks) return cudaSuccess;
    PPL_LAUNCH((each<V, P>), blocks, EACH_BLOCK, 0, stream, n, part);
    return cudaGetLastError();
}

// A remainder in 32 bits where the numbers allow it: 64-bit division costs more than the memory it hides behind.
static __device__ __forceinline__ int64_t remainder_of(int64_t i, int64_t period) {
    if ((i | period) >> 32 == 0) return (uint32_t)i % (uint32_t)period;
    return i % period;
}
static __device__ __forceinline__ int64_t quotient_of(int64_t i, int64_t period) {
    if ((i | period) >> 32 == 0) return (uint32_t)i / (uint32_t)period;
    return i / period;
}

// ---- what data may have wrong ----

static __device__ __forceinline__ void fault_tell(ppl_cuda_fault *fault, int32_t kind, int32_t value, int64_t at,
                                                  int64_t limit) {
    if (atomicCAS(&fault->kind, PPL_CUDA_FAULT_NONE, kind) != PPL_CUDA_FAULT_NONE) return;
    fault->value = value;
    fault->at = at;
    fault->limit = limit;
}

// run<float>(job) or run<bf16>(job), by a dtype.
#define BY_DTYPE(dtype, run, job) ((dtype) == PPL_BF16 ? run<bf16>(job) : run<float>(job))

#endif
