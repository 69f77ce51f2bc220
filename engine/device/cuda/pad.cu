// pad.cu - zeros of length i2 along dim i0 with dy at i1: the gradient of SLICE. Before it: kernels.c. After it: spans.cuh.
#include "device/cuda/spans.cuh"

extern "C" cudaError_t ppl_cuda_pad(const ppl_cuda_job *job) {
    span_dims x = span_dims_of(&job->spec->in[0], job->spec->attrs.i[0]);
    int64_t length = x.size * x.inner;
    span_copy s = {(const char *)job->call->in[0], (char *)job->call->out[0], x.outer, length, 0, length,
                   job->spec->attrs.i[1] * x.inner, job->spec->attrs.i[2] * x.inner,
                   ppl_dtype_size(job->spec->in[0].dtype)};
    cudaError_t error = cudaMemsetAsync(job->call->out[0], 0, ppl_type_bytes(&job->spec->out[0]), job->stream);
    return error == cudaSuccess ? span_copy_run(s, job->stream) : error;
}
