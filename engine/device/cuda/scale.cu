// scale.cu - x times a constant. Before it: kernels.c. After it: common.cuh.
#include "device/cuda/common.cuh"

template <class T, int V> struct scale_part {
    const T *x;
    T *y;
    float factor;
    __device__ void operator()(int64_t i) const {
        float a[V];
        load(a, x + i);
        for (int k = 0; k < V; k++) a[k] *= factor;
        store(y + i, a);
    }
};

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    int64_t n = ppl_type_elements(&job->spec->in[0]);
    const T *x = (const T *)job->call->in[0];
    T *y = (T *)job->call->out[0];
    float factor = (float)job->spec->attrs.f[0];
    if (n % V == 0) return each_run<V>(n, scale_part<T, V>{x, y, factor}, job->stream);
    return each_run<1>(n, scale_part<T, 1>{x, y, factor}, job->stream);
}

extern "C" cudaError_t ppl_cuda_scale(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
