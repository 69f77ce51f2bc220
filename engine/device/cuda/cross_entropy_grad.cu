// cross_entropy_grad.cu - seed, logits (rows, V), targets, lse -> dlogits = seed (e^(logits - lse) - onehot), 0 in rows
// whose target is below 0. Before it: cross_entropy.cu's lse. After it: rows.cuh.
#include "device/cuda/rows.cuh"

template <class T>
__global__ void __launch_bounds__(ROW_THREADS)
    loss_grad(const float *__restrict__ seed, const T *__restrict__ logits, const int32_t *__restrict__ targets,
              const float *__restrict__ lse, T *__restrict__ dlogits, int64_t classes, ppl_cuda_fault *fault) {
    const T *row = logits + blockIdx.x * classes;
    T *to = dlogits + blockIdx.x * classes;
    int32_t target = targets[blockIdx.x];
    float all = lse[blockIdx.x], scale = target < 0 ? 0.0f : seed[0];
    if (threadIdx.x == 0 && target >= classes) fault_tell(fault, PPL_CUDA_FAULT_TARGET, target, blockIdx.x, classes);
    row_each(row, classes, [&](int64_t i, auto &a) {
        for (float &v : a) {
            v = target < 0 ? 0.0f : scale * (expf(v - all) - (i == target ? 1.0f : 0.0f));
            i++;
        }
        store(to + (i - (int64_t)(sizeof a / sizeof(float))), a);
    });
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int64_t rows = ppl_rows(&job->spec->in[1]), classes = ppl_last_dim(&job->spec->in[1]);
    const float *seed = (const float *)job->call->in[0], *lse = (const float *)job->call->in[3];
    const T *logits = (const T *)job->call->in[1];
    const int32_t *targets = (const int32_t *)job->call->in[2];
    T *dlogits = (T *)job->call->out[0];
    ppl_cuda_fault *fault = job->fault;
    PPL_LAUNCH(loss_grad<T>, row_blocks(rows), row_threads(classes / wide<T>::count), 0, job->stream, seed, logits,
               targets, lse, dlogits, classes, fault);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_cross_entropy_grad(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[1].dtype, run, job);
}
