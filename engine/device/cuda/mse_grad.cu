// mse_grad.cu - seed, x, target -> seed 2 (x - target), 0 where the target is NaN. Before it: mse.cu. After it: common.cuh.
#include "device/cuda/common.cuh"

template <class T, int V> struct mse_grad_part {
    const float *seed;
    const T *x, *target;
    T *dx;
    __device__ void operator()(int64_t i) const {
        float a[V], t[V], scale = 2 * seed[0];
        load(a, x + i);
        load(t, target + i);
        for (int k = 0; k < V; k++) a[k] = isnan(t[k]) ? 0.0f : scale * (a[k] - t[k]);
        store(dx + i, a);
    }
};

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    int64_t n = ppl_type_elements(&job->spec->in[1]);
    const float *seed = (const float *)job->call->in[0];
    const T *x = (const T *)job->call->in[1], *target = (const T *)job->call->in[2];
    T *dx = (T *)job->call->out[0];
    if (n % V == 0) return each_run<V>(n, mse_grad_part<T, V>{seed, x, target, dx}, job->stream);
    return each_run<1>(n, mse_grad_part<T, 1>{seed, x, target, dx}, job->stream);
}

extern "C" cudaError_t ppl_cuda_mse_grad(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[1].dtype, run, job); }
