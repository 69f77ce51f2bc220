// softmax.cu - softmax over the last dim. Before it: kernels.c. After it: softmax.cuh.
#include "device/cuda/softmax.cuh"

template <class T>
__global__ void __launch_bounds__(ROW_THREADS) softmax(const T *__restrict__ x, T *__restrict__ y, int64_t c) {
    PPL_SHARED(float, shared, [2 * WARP]);
    const T *row = x + blockIdx.x * c;
    T *to = y + blockIdx.x * c;
    row_softmax s = row_softmax_of(row, c, shared);
    float scale = 1.0f / s.sum;
    row_each(row, c, [&](int64_t i, auto &a) {
        for (float &v : a) v = expf(v - s.max) * scale;
        store(to + i, a);
    });
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), c = ppl_last_dim(&job->spec->in[0]);
    const T *x = (const T *)job->call->in[0];
    T *y = (T *)job->call->out[0];
    PPL_LAUNCH(softmax<T>, row_blocks(rows), row_threads(c / wide<T>::count), 0, job->stream, x, y, c);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_softmax(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
