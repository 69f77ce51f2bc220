// softmax_grad.cu - dy, y -> dx = y (dy - sum(dy y)). Before it: softmax.cu's y. After it: rows.cuh.
#include "device/cuda/rows.cuh"

template <class T, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    softmax_grad(const T *__restrict__ dy, const T *__restrict__ y, T *__restrict__ dx, int64_t c) {
    PPL_SHARED(float, shared, [WARP]);
    int64_t first = (int64_t)threadIdx.x * V, step = (int64_t)blockDim.x * V, at = blockIdx.x * c;
    float g[V], a[V], dot = 0;
    for (int64_t i = first; i < c; i += step) {
        load(g, dy + at + i);
        load(a, y + at + i);
        for (int k = 0; k < V; k++) dot = fmaf(g[k], a[k], dot);
    }
    dot = block_sum(dot, shared);
    for (int64_t i = first; i < c; i += step) {
        load(g, dy + at + i);
        load(a, y + at + i);
        for (int k = 0; k < V; k++) g[k] = a[k] * (g[k] - dot);
        store(dx + at + i, g);
    }
}

template <class T, int V> static cudaError_t launch(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), c = ppl_last_dim(&job->spec->in[0]);
    const T *dy = (const T *)job->call->in[0], *y = (const T *)job->call->in[1];
    T *dx = (T *)job->call->out[0];
    PPL_LAUNCH((softmax_grad<T, V>), row_blocks(rows), row_threads(c / V), 0, job->stream, dy, y, dx, c);
    return cudaGetLastError();
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    return row_whole<T>(ppl_last_dim(&job->spec->in[0])) ? launch<T, wide<T>::count>(job) : launch<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_softmax_grad(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}
