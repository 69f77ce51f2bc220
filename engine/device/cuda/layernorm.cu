// layernorm.cu - y = (x - mean) / sqrt(var + eps) w + b over the last dim, and stats (rows, 2) = mean, 1 / sqrt(var + eps);
// the variance from a second pass over the row, as on every device. Before it: kernels.c. After it: layernorm_dx.cu and
// layernorm_dw.cu read stats.
#include "device/cuda/rows.cuh"

template <class T, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    layernorm_rows(const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b, T *__restrict__ y,
         float *__restrict__ stats, int64_t c, float eps) {
    PPL_SHARED(float, shared, [WARP]);
    int64_t first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V;
    const T *row = x + blockIdx.x * c;
    float a[V], gain[V], bias[V], sum = 0;
    for (int64_t i = first; i < c; i += step) {
        load(a, row + i);
        for (int k = 0; k < V; k++) sum += a[k];
    }
    float mean = block_sum(sum, shared) / (float)c;
    sum = 0;
    for (int64_t i = first; i < c; i += step) {
        load(a, row + i);
        for (int k = 0; k < V; k++) sum = fmaf(a[k] - mean, a[k] - mean, sum);
    }
    float rstd = 1.0f / sqrtf(block_sum(sum, shared) / (float)c + eps);
    for (int64_t i = first; i < c; i += step) {
        load(a, row + i);
        load(gain, w + i);
        load(bias, b + i);
        for (int k = 0; k < V; k++) a[k] = fmaf((a[k] - mean) * rstd, gain[k], bias[k]);
        store(y + blockIdx.x * c + i, a);
    }
    if (threadIdx.x == 0) {
        stats[2 * (int64_t)blockIdx.x] = mean;
        stats[2 * (int64_t)blockIdx.x + 1] = rstd;
    }
}

template <class T, int V> static cudaError_t launch(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), c = ppl_last_dim(&job->spec->in[0]);
    const T *x = (const T *)job->call->in[0], *w = (const T *)job->call->in[1], *b = (const T *)job->call->in[2];
    T *y = (T *)job->call->out[0];
    float *stats = (float *)job->call->out[1], eps = (float)job->spec->attrs.f[0];
    PPL_LAUNCH((layernorm_rows<T, V>), row_blocks(rows), row_threads(c / V), 0, job->stream, x, w, b, y, stats, c, eps);
    return cudaGetLastError();
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    return row_whole<T>(ppl_last_dim(&job->spec->in[0])) ? launch<T, wide<T>::count>(job) : launch<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_layernorm(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
