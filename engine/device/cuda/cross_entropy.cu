// cross_entropy.cu - logits (rows, V), targets -> the sum over rows of lse - logits[target], lse (rows) = log sum e^logits,
// from one pass over the logits. A target below 0 is left out. Rows' losses wait in scratch and are added in order.
// Before it: kernels.c. After it: softmax.cuh; cross_entropy_grad.cu reads lse.
#include "device/cuda/softmax.cuh"

template <class T>
__global__ void __launch_bounds__(ROW_THREADS)
    row_losses(const T *__restrict__ logits, const int32_t *__restrict__ targets, float *__restrict__ lse,
               float *__restrict__ loss, int64_t classes, ppl_cuda_fault *fault) {
    PPL_SHARED(float, shared, [2 * WARP]);
    const T *row = logits + blockIdx.x * classes;
    row_softmax s = row_softmax_of(row, classes, shared);
    if (threadIdx.x != 0) return;
    int32_t target = targets[blockIdx.x];
    float all = s.max + logf(s.sum);
    lse[blockIdx.x] = all;
    if (target >= classes) fault_tell(fault, PPL_CUDA_FAULT_TARGET, target, blockIdx.x, classes);
    bool counts = target >= 0 && target < classes;
    loss[blockIdx.x] = counts ? logf(s.sum) - (widen(row[counts ? target : 0]) - s.max) : 0.0f;
}

__global__ void __launch_bounds__(ROW_THREADS) loss_sum(const float *__restrict__ loss, float *__restrict__ out, int64_t n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += ROW_THREADS) sum += (double)loss[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) out[0] = (float)sum;
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[0]), classes = ppl_last_dim(&job->spec->in[0]);
    const T *logits = (const T *)job->call->in[0];
    const int32_t *targets = (const int32_t *)job->call->in[1];
    float *out = (float *)job->call->out[0], *lse = (float *)job->call->out[1], *loss = (float *)job->call->scratch;
    ppl_cuda_fault *fault = job->fault;
    PPL_LAUNCH(row_losses<T>, row_blocks(rows), row_threads(classes / wide<T>::count), 0, job->stream, logits, targets,
               lse, loss, classes, fault);
    PPL_LAUNCH(loss_sum, 1, ROW_THREADS, 0, job->stream, loss, out, rows);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_cross_entropy(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}

extern "C" size_t ppl_cuda_cross_entropy_scratch(const ppl_kernel_spec *spec) {
    return (size_t)ppl_rows(&spec->in[0]) * sizeof(float);
}
