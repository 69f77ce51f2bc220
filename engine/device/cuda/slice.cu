// slice.cu - indexes i1 .. i1 + i2 - 1 of dim i0. Before it: kernels.c. After it: spans.cuh.
#include "device/cuda/spans.cuh"

extern "C" cudaError_t ppl_cuda_slice(const ppl_cuda_job *job) {
    span_dims x = span_dims_of(&job->spec->in[0], job->spec->attrs.i[0]);
    int64_t length = job->spec->attrs.i[2] * x.inner;
    span_copy s = {(const char *)job->call->in[0], (char *)job->call->out[0], x.outer, length,
                   job->spec->attrs.i[1] * x.inner, x.size * x.inner, 0, length,
                   ppl_dtype_size(job->spec->in[0].dtype)};
    return span_copy_run(s, job->stream);
}
