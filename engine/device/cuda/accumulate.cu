// accumulate.cu - a gradient taken over into its accumulator, = or +=. Before it: kernels.c. After it: common.cuh.
#include "device/cuda/common.cuh"

template <class T, int V> struct accumulate_part {
    const T *x;
    float *sum;
    bool add;
    __device__ void operator()(int64_t i) const {
        float a[V], b[V];
        load(a, x + i);
        if (add) {
            load(b, sum + i);
            for (int k = 0; k < V; k++) a[k] += b[k];
        }
        store(sum + i, a);
    }
};

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int64_t n = ppl_type_elements(&job->spec->in[0]);
    const T *x = (const T *)job->call->in[0];
    float *sum = (float *)job->call->out[0];
    bool add = job->spec->accumulates && job->call->add;
    if (n % 4 == 0) return each_run<4>(n, accumulate_part<T, 4>{x, sum, add}, job->stream);
    return each_run<1>(n, accumulate_part<T, 1>{x, sum, add}, job->stream);
}

extern "C" cudaError_t ppl_cuda_accumulate(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
