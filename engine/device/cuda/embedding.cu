// embedding.cu - ids (...), w (V, C) -> rows of w (..., C). An id outside the table is told through the job's fault, and its
// row left out. Before it: kernels.c. After it: common.cuh.
#include "device/cuda/common.cuh"

template <class T, int V> struct gather_part {
    const int32_t *ids;
    const T *w;
    T *y;
    int64_t rows, c;
    ppl_cuda_fault *fault;
    __device__ void operator()(int64_t i) const {
        int64_t at = quotient_of(i, c), column = i - at * c;
        int32_t id = ids[at];
        if (id < 0 || id >= rows) {
            if (column == 0) fault_tell(fault, PPL_CUDA_FAULT_ID, id, at, rows);
            return;
        }
        *reinterpret_cast<bundle<T, V> *>(y + i) = *reinterpret_cast<const bundle<T, V> *>(w + id * c + column);
    }
};

template <class T, int V> static cudaError_t gather(const ppl_cuda_job *job) {
    gather_part<T, V> part;
    part.ids = (const int32_t *)job->call->in[0];
    part.w = (const T *)job->call->in[1];
    part.y = (T *)job->call->out[0];
    part.rows = job->spec->in[1].dim[0];
    part.c = job->spec->in[1].dim[1];
    part.fault = job->fault;
    return each_run<V>(ppl_type_elements(&job->spec->out[0]), part, job->stream);
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    return job->spec->in[1].dim[1] % V == 0 ? gather<T, V>(job) : gather<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_embedding(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[1].dtype, run, job); }
