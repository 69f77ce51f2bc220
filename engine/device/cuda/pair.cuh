// pair.cuh - x and y, which has x's shape or a suffix of it, joined number by number. Before it: add.cu, mul.cu; after it:
// common.cuh.
#ifndef PPL_DEVICE_CUDA_PAIR_CUH
#define PPL_DEVICE_CUDA_PAIR_CUH
#include "device/cuda/common.cuh"

enum pair_form { PAIR_WHOLE, PAIR_SUFFIX, PAIR_ONE }; // y: as long as x, shorter, a single number

template <class T, class J, int V, int form> struct pair_part {
    const T *x, *y;
    T *z;
    int64_t period;
    __device__ void operator()(int64_t i) const {
        float a[V], b[V];
        load(a, x + i);
        if (form == PAIR_ONE) {
            float one = widen(y[0]);
            for (int k = 0; k < V; k++) b[k] = one;
        } else {
            load(b, y + (form == PAIR_WHOLE ? i : remainder_of(i, period)));
        }
        for (int k = 0; k < V; k++) a[k] = J::join(a[k], b[k]);
        store(z + i, a);
    }
};

template <class T, class J, int V, int form> cudaError_t pair_launch(const ppl_cuda_job *job, int64_t n, int64_t period) {
    pair_part<T, J, V, form> part = {(const T *)job->call->in[0], (const T *)job->call->in[1], (T *)job->call->out[0],
                                     period};
    return each_run<V>(n, part, job->stream);
}

template <class T, class J, int form> cudaError_t pair_form_run(const ppl_cuda_job *job, int64_t n, int64_t period) {
    constexpr int V = wide<T>::count;
    bool whole = n % V == 0 && (form == PAIR_ONE || period % V == 0);
    return whole ? pair_launch<T, J, V, form>(job, n, period) : pair_launch<T, J, 1, form>(job, n, period);
}

template <class T, class J> cudaError_t pair_dtype_run(const ppl_cuda_job *job) {
    int64_t n = ppl_type_elements(&job->spec->in[0]), period = ppl_type_elements(&job->spec->in[1]);
    if (period == n) return pair_form_run<T, J, PAIR_WHOLE>(job, n, period);
    if (period == 1) return pair_form_run<T, J, PAIR_ONE>(job, n, period);
    return pair_form_run<T, J, PAIR_SUFFIX>(job, n, period);
}

template <class J> cudaError_t pair_run(const ppl_cuda_job *job) {
    return job->spec->in[0].dtype == PPL_BF16 ? pair_dtype_run<bf16, J>(job) : pair_dtype_run<float, J>(job);
}

#endif
