// rmsnorm_dw.cu - dy, x, stats -> dw (C) = sum over rows of dy x rstd. Before it: rmsnorm.cu's stats. After it: columns.cuh.
#include "device/cuda/columns.cuh"

template <class T, int V> struct rmsnorm_terms {
    const T *dy, *x;
    const float *stats;
    int64_t columns;
    __device__ void term(int64_t row, int64_t column, float (&out)[1][V]) const {
        float a[V], rstd = stats[row];
        load(out[0], dy + row * columns + column);
        load(a, x + row * columns + column);
        for (int k = 0; k < V; k++) out[0][k] *= a[k] * rstd;
    }
};

template <class T, int V> static cudaError_t sum(const ppl_cuda_job *job) {
    const ppl_type *dy = &job->spec->in[0];
    rmsnorm_terms<T, V> terms = {(const T *)job->call->in[0], (const T *)job->call->in[1],
                                 (const float *)job->call->in[2], ppl_last_dim(dy)};
    return columns_run<V, 1>(job, ppl_rows(dy), ppl_last_dim(dy), terms);
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    return ppl_last_dim(&job->spec->in[0]) % V == 0 ? sum<T, V>(job) : sum<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_rmsnorm_dw(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}
