// act.cu - y = act(x) for each number: ACT, and what follows a product with an activation (linear.c), so that both give
// the same bits. After it: act.cuh.
#include "device/cuda/act.cuh"

template <class T, int V, int act> struct act_part {
    const T *x;
    T *y;
    __device__ void operator()(int64_t i) const {
        float a[V];
        load(a, x + i);
        for (int k = 0; k < V; k++) a[k] = act_value<act>(a[k]);
        store(y + i, a);
    }
};

template <class T, int act> static cudaError_t apply(void *y, const void *x, int64_t n, cudaStream_t stream) {
    constexpr int V = wide<T>::count;
    if (n % V == 0) return each_run<V>(n, act_part<T, V, act>{(const T *)x, (T *)y}, stream);
    return each_run<1>(n, act_part<T, 1, act>{(const T *)x, (T *)y}, stream);
}

extern "C" cudaError_t ppl_cuda_act_apply(void *y, const void *pre, int64_t n, int32_t act, int32_t dtype,
                                          cudaStream_t stream) {
    if (dtype == PPL_BF16) return BY_ACT(act, bf16, apply, y, pre, n, stream);
    return BY_ACT(act, float, apply, y, pre, n, stream);
}

extern "C" cudaError_t ppl_cuda_act(const ppl_cuda_job *job) {
    const ppl_type *x = &job->spec->in[0];
    return ppl_cuda_act_apply(job->call->out[0], job->call->in[0], ppl_type_elements(x), (int32_t)job->spec->attrs.i[0],
                              x->dtype, job->stream);
}
