// act_grad.cu - dy, x -> dy act'(x) for each number, x before the activation. After it: act.cuh.
#include "device/cuda/act.cuh"

template <class T, int V, int act> struct act_grad_part {
    const T *dy, *x;
    T *dx;
    __device__ void operator()(int64_t i) const {
        float g[V], a[V];
        load(g, dy + i);
        load(a, x + i);
        for (int k = 0; k < V; k++) g[k] *= act_slope<act>(a[k]);
        store(dx + i, g);
    }
};

template <class T, int act> static cudaError_t apply(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    int64_t n = ppl_type_elements(&job->spec->in[0]);
    const T *dy = (const T *)job->call->in[0], *x = (const T *)job->call->in[1];
    T *dx = (T *)job->call->out[0];
    if (n % V == 0) return each_run<V>(n, act_grad_part<T, V, act>{dy, x, dx}, job->stream);
    return each_run<1>(n, act_grad_part<T, 1, act>{dy, x, dx}, job->stream);
}

extern "C" cudaError_t ppl_cuda_act_grad(const ppl_cuda_job *job) {
    int64_t act = job->spec->attrs.i[0];
    if (job->spec->in[0].dtype == PPL_BF16) return BY_ACT(act, bf16, apply, job);
    return BY_ACT(act, float, apply, job);
}
