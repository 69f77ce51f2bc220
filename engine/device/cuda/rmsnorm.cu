// rmsnorm.cu - y = x / sqrt(mean(x^2) + eps) w over the last dim, and stats (rows) = 1 / sqrt(mean(x^2) + eps). Before it:
// kernels.c. After it: rmsnorm_dx.cu and rmsnorm_dw.cu read stats.
#include "device/cuda/rows.cuh"

template <class T, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    rmsnorm_rows(const T *__restrict__ x, const T *__restrict__ w, T *__restrict__ y, float *__restrict__ stats, int64_t c,
         float eps) {
    PPL_SHARED(float, shared, [WARP]);
    int64_t first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V, at = blockIdx.x * c;
    float a[V], gain[V], sum = 0;
    for (int64_t i = first; i < c; i += step) {
        load(a, x + at + i);
        for (int k = 0; k < V; k++) sum = fmaf(a[k], a[k], sum);
    }
    float rstd = 1.0f / sqrtf(block_sum(sum, shared) / (float)c + eps);
    for (int64_t i = first; i < c; i += step) {
        load(a, x + at + i);
        load(gain, w + i);
        for (int k = 0; k < V; k++) a[k] = a[k] * rstd * gain[k];
        store(y + at + i, a);
    }
    if (threadIdx.x == 0) stats[blockIdx.x] = rstd;
}

template <class T, int V> static cudaError_t launch(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), c = ppl_last_dim(&job->spec->in[0]);
    const T *x = (const T *)job->call->in[0], *w = (const T *)job->call->in[1];
    T *y = (T *)job->call->out[0];
    float *stats = (float *)job->call->out[1], eps = (float)job->spec->attrs.f[0];
    PPL_LAUNCH((rmsnorm_rows<T, V>), row_blocks(rows), row_threads(c / V), 0, job->stream, x, w, y, stats, c, eps);
    return cudaGetLastError();
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    return row_whole<T>(ppl_last_dim(&job->spec->in[0])) ? launch<T, wide<T>::count>(job) : launch<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_rmsnorm(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
