// mse.cu - x, target -> the sum of (x - target)^2, targets that are NaN left out, in f64 over blocks whose number depends on
// the shape alone. Before it: kernels.c. After it: common.cuh; mse_grad.cu.
#include "device/cuda/common.cuh"

static const int MSE_BLOCKS = 512;

template <class T>
__global__ void __launch_bounds__(EACH_BLOCK)
    mse_squares(const T *__restrict__ x, const T *__restrict__ target, double *__restrict__ partial, int64_t n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * EACH_BLOCK) {
        float t = widen(target[i]), d = isnan(t) ? 0.0f : widen(x[i]) - t;
        sum += (double)d * (double)d;
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(MSE_BLOCKS) mse_squares_end(const double *__restrict__ partial, float *__restrict__ out, int n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = block_sum((int)threadIdx.x < n ? partial[threadIdx.x] : 0.0, shared);
    if (threadIdx.x == 0) out[0] = (float)sum;
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int64_t n = ppl_type_elements(&job->spec->in[0]), most = (n + EACH_BLOCK * 4 - 1) / (EACH_BLOCK * 4);
    int blocks = (int)(most < MSE_BLOCKS ? most : MSE_BLOCKS);
    const T *x = (const T *)job->call->in[0], *target = (const T *)job->call->in[1];
    double *partial = (double *)job->call->scratch;
    float *out = (float *)job->call->out[0];
    PPL_LAUNCH(mse_squares<T>, blocks, EACH_BLOCK, 0, job->stream, x, target, partial, n);
    PPL_LAUNCH(mse_squares_end, 1, MSE_BLOCKS, 0, job->stream, partial, out, blocks);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_mse(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }

extern "C" size_t ppl_cuda_mse_scratch(const ppl_kernel_spec *spec) {
    (void)spec;
    return MSE_BLOCKS * sizeof(double);
}
