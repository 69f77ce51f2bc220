// rmsnorm_dx.cu - dy, x, w, stats -> dx = rstd (g - normal mean(g normal)) with g = dy w and normal = x rstd. Before it:
// rmsnorm.cu's stats. After it: rows.cuh.
#include "device/cuda/rows.cuh"

template <class T, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    rmsnorm_dx_rows(const T *__restrict__ dy, const T *__restrict__ x, const T *__restrict__ w, const float *__restrict__ stats,
            T *__restrict__ dx, int64_t c) {
    PPL_SHARED(float, shared, [WARP]);
    int64_t first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V, at = blockIdx.x * c;
    float rstd = stats[blockIdx.x], g[V], a[V], gain[V], sum = 0;
    for (int64_t i = first; i < c; i += step) {
        load(g, dy + at + i);
        load(a, x + at + i);
        load(gain, w + i);
        for (int k = 0; k < V; k++) sum = fmaf(g[k] * gain[k], a[k] * rstd, sum);
    }
    float mean = block_sum(sum, shared) / (float)c;
    for (int64_t i = first; i < c; i += step) {
        load(g, dy + at + i);
        load(a, x + at + i);
        load(gain, w + i);
        for (int k = 0; k < V; k++) g[k] = rstd * (g[k] * gain[k] - a[k] * rstd * mean);
        store(dx + at + i, g);
    }
}

template <class T, int V> static cudaError_t launch(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), c = ppl_last_dim(&job->spec->in[0]);
    const T *dy = (const T *)job->call->in[0], *x = (const T *)job->call->in[1], *w = (const T *)job->call->in[2];
    const float *stats = (const float *)job->call->in[3];
    T *dx = (T *)job->call->out[0];
    PPL_LAUNCH((rmsnorm_dx_rows<T, V>), row_blocks(rows), row_threads(c / V), 0, job->stream, dy, x, w, stats, dx, c);
    return cudaGetLastError();
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    return row_whole<T>(ppl_last_dim(&job->spec->in[0])) ? launch<T, wide<T>::count>(job) : launch<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_rmsnorm_dx(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}
