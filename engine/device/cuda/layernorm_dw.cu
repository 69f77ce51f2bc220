// layernorm_dw.cu - dy, x, stats -> dw (C) = sum over rows of dy (x - mean) rstd, db (C) = sum over rows of dy. Before it:
// layernorm.cu's stats. After it: columns.cuh.
#include "device/cuda/columns.cuh"

template <class T, int V> struct layernorm_terms {
    const T *dy, *x;
    const float *stats;
    int64_t columns;
    __device__ void term(int64_t row, int64_t column, float (&out)[2][V]) const {
        float a[V], mean = stats[2 * row], rstd = stats[2 * row + 1];
        load(out[1], dy + row * columns + column);
        load(a, x + row * columns + column);
        for (int k = 0; k < V; k++) out[0][k] = out[1][k] * ((a[k] - mean) * rstd);
    }
};

template <class T, int V> static cudaError_t sum(const ppl_cuda_job *job) {
    const ppl_type *dy = &job->spec->in[0];
    layernorm_terms<T, V> terms = {(const T *)job->call->in[0], (const T *)job->call->in[1],
                                   (const float *)job->call->in[2], ppl_last_dim(dy)};
    return columns_run<V, 2>(job, ppl_rows(dy), ppl_last_dim(dy), terms);
}

// Four columns a lane: twice the sums want twice the shared memory.
template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    return ppl_last_dim(&job->spec->in[0]) % 4 == 0 ? sum<T, 4>(job) : sum<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_layernorm_dw(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}
