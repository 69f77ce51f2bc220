// update.cu - the optimizer's step in one pass over memory: gradient clipped, moments, master weight and its bf16 copy; and
// the sum of squares behind the gradient norm. Formulas with kernel.h. Before it: device.c. After it: common.cuh.
#include "device/cuda/common.cuh"
#include "device/cuda/update.h"

// Constants of the step, rounded once as on the cpu.
struct update_step {
    const float *grads[PPL_CUDA_USES];
    const float *weight, *moment1, *moment2;
    float *weight_out, *moment1_out, *moment2_out;
    void *copy;
    const double *scale_at; // NULL: scale
    int32_t uses;
    float scale, shrink, lr, beta1, rest1, beta2, rest2, eps, root, momentum, decay;
};

template <int V> __device__ __forceinline__ void gradient(float (&g)[V], const float *const *grads, int32_t uses, int64_t i) {
    float x[V];
    load(g, grads[0] + i);
    for (int32_t u = 1; u < uses; u++) {
        load(x, grads[u] + i);
        for (int k = 0; k < V; k++) g[k] += x[k];
    }
}

// w <- w - lr decay w - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps); small factors are subtracted, not made part of
// one near 1, which would round most of them away
template <int V> __device__ __forceinline__ void adamw(const update_step &s, int64_t i, float (&w)[V], const float (&g)[V]) {
    float m[V], v[V];
    load(m, s.moment1 + i);
    load(v, s.moment2 + i);
    for (int k = 0; k < V; k++) {
        m[k] = fmaf(s.beta1, m[k], s.rest1 * g[k]);
        v[k] = fmaf(s.beta2, v[k], s.rest2 * (g[k] * g[k]));
        float size = fmaf(sqrtf(v[k]), s.root, s.eps);
        w[k] = fmaf(-s.lr, m[k] / size, fmaf(-s.shrink, w[k], w[k]));
    }
    store(s.moment1_out + i, m);
    store(s.moment2_out + i, v);
}

// v <- momentum v + g + decay w; w <- w - lr v
template <int V> __device__ __forceinline__ void sgd(const update_step &s, int64_t i, float (&w)[V], const float (&g)[V]) {
    float v[V], m[V];
    for (int k = 0; k < V; k++) v[k] = fmaf(s.decay, w[k], g[k]);
    if (s.moment1) {
        load(m, s.moment1 + i);
        for (int k = 0; k < V; k++) v[k] = fmaf(s.momentum, m[k], v[k]);
        store(s.moment1_out + i, v);
    }
    for (int k = 0; k < V; k++) w[k] = fmaf(-s.lr, v[k], w[k]);
}

template <class C, int V, bool adam> __global__ void __launch_bounds__(EACH_BLOCK) update_step_run(update_step s, int64_t n) {
    int64_t i = ((int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x) * V;
    if (i >= n) return;
    float g[V], w[V];
    gradient(g, s.grads, s.uses, i);
    load(w, s.weight + i);
    float scale = s.scale_at ? (float)*s.scale_at : s.scale;
    for (int k = 0; k < V; k++) g[k] *= scale;
    if (adam) adamw(s, i, w, g);
    else sgd(s, i, w, g);
    store(s.weight_out + i, w);
    if (s.copy) store((C *)s.copy + i, w);
}

static update_step step_of(const ppl_update *u, const double *scale_at) {
    bool adam = u->kind == PPL_ADAMW;
    update_step s = {};
    for (int32_t k = 0; k < u->uses; k++) s.grads[k] = (const float *)u->grads[k];
    s.weight = (const float *)u->weight, s.weight_out = (float *)u->weight_out, s.copy = u->copy;
    s.moment1 = (const float *)u->moment1, s.moment1_out = (float *)u->moment1_out;
    s.moment2 = (const float *)u->moment2, s.moment2_out = (float *)u->moment2_out;
    s.uses = u->uses, s.scale_at = scale_at;
    s.scale = (float)u->scale, s.shrink = (float)(u->lr * u->decay), s.lr = (float)(adam ? u->lr / u->bias1 : u->lr);
    s.beta1 = (float)u->beta1, s.rest1 = (float)(1 - u->beta1);
    s.beta2 = (float)u->beta2, s.rest2 = (float)(1 - u->beta2);
    s.eps = (float)u->eps, s.root = (float)(adam ? 1 / sqrt(u->bias2) : 1);
    s.momentum = (float)u->momentum, s.decay = (float)u->decay;
    return s;
}

template <class C, int V> static cudaError_t update_launch(const ppl_update *u, const double *scale_at, cudaStream_t stream) {
    update_step s = step_of(u, scale_at);
    int64_t n = u->n;
    unsigned blocks = (unsigned)((n / V + EACH_BLOCK - 1) / EACH_BLOCK);
    if (u->kind == PPL_ADAMW) PPL_LAUNCH((update_step_run<C, V, true>), blocks, EACH_BLOCK, 0, stream, s, n);
    else PPL_LAUNCH((update_step_run<C, V, false>), blocks, EACH_BLOCK, 0, stream, s, n);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_update_by(const ppl_update *u, const double *scale_at, cudaStream_t stream) {
    bool rounds = u->copy && u->copy_dtype == PPL_BF16, whole = u->n % 4 == 0;
    if (rounds) return whole ? update_launch<bf16, 4>(u, scale_at, stream) : update_launch<bf16, 1>(u, scale_at, stream);
    return whole ? update_launch<float, 4>(u, scale_at, stream) : update_launch<float, 1>(u, scale_at, stream);
}

extern "C" cudaError_t ppl_cuda_update(const ppl_update *u, cudaStream_t stream) {
    return ppl_cuda_update_by(u, NULL, stream);
}

// ---- the norm ----

struct square_grads {
    const float *grads[PPL_CUDA_USES];
    int32_t uses;
};

template <int V>
__global__ void __launch_bounds__(EACH_BLOCK) gradient_squares(square_grads s, double *__restrict__ partial, int64_t n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = 0;
    int64_t step = (int64_t)gridDim.x * EACH_BLOCK * V;
    for (int64_t i = ((int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x) * V; i < n; i += step) {
        float g[V];
        gradient(g, s.grads, s.uses, i);
        for (int k = 0; k < V; k++) sum += (double)g[k] * (double)g[k];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(PPL_CUDA_PARTIALS)
    gradient_squares_end(const double *__restrict__ partial, double *__restrict__ out, int n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = block_sum((int)threadIdx.x < n ? partial[threadIdx.x] : 0.0, shared);
    if (threadIdx.x == 0) out[0] = sum;
}

extern "C" cudaError_t ppl_cuda_square_sum(const void *const *grads, int32_t uses, int64_t n, double *partial, double *out,
                                           cudaStream_t stream) {
    square_grads s = {};
    for (int32_t k = 0; k < uses; k++) s.grads[k] = (const float *)grads[k];
    s.uses = uses;
    int64_t wanted = (n + EACH_BLOCK * 16 - 1) / (EACH_BLOCK * 16);
    int64_t most = PPL_CUDA_PARTIALS;
    int blocks = (int)(wanted < 1 ? 1 : wanted < most ? wanted : most);
    if (n % 4 == 0) PPL_LAUNCH(gradient_squares<4>, blocks, EACH_BLOCK, 0, stream, s, partial, n);
    else PPL_LAUNCH(gradient_squares<1>, blocks, EACH_BLOCK, 0, stream, s, partial, n);
    PPL_LAUNCH(gradient_squares_end, 1, PPL_CUDA_PARTIALS, 0, stream, partial, out, blocks);
    return cudaGetLastError();
}

// One thread adds, in the order that the host has it; the block brings the numbers.
__global__ void __launch_bounds__(EACH_BLOCK)
    clip_scale(const double *__restrict__ sums, const int32_t *__restrict__ order, int64_t n, double limit, double *out) {
    PPL_SHARED(double, part, [EACH_BLOCK]);
    double sum = 0;
    for (int64_t at = 0; at < n; at += EACH_BLOCK) {
        int64_t left = n - at < EACH_BLOCK ? n - at : EACH_BLOCK;
        if ((int64_t)threadIdx.x < left) part[threadIdx.x] = sums[order[at + threadIdx.x]];
        __syncthreads();
        if (threadIdx.x == 0)
            for (int64_t i = 0; i < left; i++) sum += part[i];
        __syncthreads();
    }
    if (threadIdx.x) return;
    double scale = limit / (sqrt(sum) + 1e-6);
    *out = scale < 1 ? scale : 1;
}

extern "C" cudaError_t ppl_cuda_clip_scale(const double *sums, const int32_t *order, int64_t n, double limit, double *out,
                                           cudaStream_t stream) {
    PPL_LAUNCH(clip_scale, 1, EACH_BLOCK, 0, stream, sums, order, n, limit, out);
    return cudaGetLastError();
}
