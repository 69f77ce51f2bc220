// concat.cu - inputs joined along dim i0. Before it: kernels.c. After it: spans.cuh.
#include "device/cuda/spans.cuh"

extern "C" cudaError_t ppl_cuda_concat(const ppl_cuda_job *job) {
    int64_t dim = job->spec->attrs.i[0], first = 0;
    span_dims y = span_dims_of(&job->spec->out[0], dim);
    for (int32_t k = 0; k < job->spec->inputs; k++) {
        span_dims x = span_dims_of(&job->spec->in[k], dim);
        int64_t length = x.size * x.inner;
        span_copy s = {(const char *)job->call->in[k], (char *)job->call->out[0], x.outer, length, 0, length,
                       first, y.size * y.inner, ppl_dtype_size(job->spec->in[0].dtype)};
        cudaError_t error = span_copy_run(s, job->stream);
        if (error != cudaSuccess) return error;
        first += length;
    }
    return cudaSuccess;
}
