// job.h - what a kernel launcher is given, and the launchers of all operators: the border between host code in C and
// kernels in .cu files. Before it: kernels.c, whose table names a launcher for each operator. After it: the .cu file named
// as the operator in ops/.
//
// A launcher enqueues its kernels on the job's stream and returns without waiting. Pointers in the call are device memory,
// each at least 16-byte aligned at its start; the spec and the call themselves are host memory that a launcher reads before
// it returns.
#ifndef PPL_DEVICE_CUDA_JOB_H
#define PPL_DEVICE_CUDA_JOB_H
#include "device/kernel.h"
#include <cuda_runtime_api.h>

// What a kernel found wrong in data, in memory that host and device both see: the first kernel to find something writes
// it, and the host turns it into words when it next waits for the stream.
enum { PPL_CUDA_FAULT_NONE = 0, PPL_CUDA_FAULT_ID, PPL_CUDA_FAULT_TARGET };
typedef struct ppl_cuda_fault {
    int32_t kind;
    int32_t value;     // the id or target
    int64_t at, limit; // its position; ids end before this
} ppl_cuda_fault;

typedef struct ppl_cuda_job {
    const ppl_kernel_spec *spec;
    const ppl_call *call;
    const void *table; // ROPE: cosines and sines in device memory
    ppl_cuda_fault *fault;
    cudaStream_t stream;
} ppl_cuda_job;

typedef cudaError_t ppl_cuda_launcher(const ppl_cuda_job *job);

ppl_cuda_launcher ppl_cuda_add, ppl_cuda_mul, ppl_cuda_scale, ppl_cuda_act, ppl_cuda_act_grad, ppl_cuda_accumulate,
    ppl_cuda_copy, ppl_cuda_dropout, ppl_cuda_embedding, ppl_cuda_embedding_dw, ppl_cuda_layernorm,
    ppl_cuda_layernorm_dx, ppl_cuda_layernorm_dw, ppl_cuda_rmsnorm, ppl_cuda_rmsnorm_dx, ppl_cuda_rmsnorm_dw,
    ppl_cuda_rope, ppl_cuda_softmax, ppl_cuda_softmax_grad, ppl_cuda_transpose, ppl_cuda_slice, ppl_cuda_pad,
    ppl_cuda_concat, ppl_cuda_cross_entropy, ppl_cuda_cross_entropy_grad, ppl_cuda_mse, ppl_cuda_mse_grad,
    ppl_cuda_reduce, ppl_cuda_attention, ppl_cuda_attention_grad;

// Bytes of scratch that a launcher needs: 0 for those without one here.
size_t ppl_cuda_embedding_dw_scratch(const ppl_kernel_spec *spec);
size_t ppl_cuda_columns_scratch(int64_t rows, int64_t columns, int32_t sums); // REDUCE, and the norms' weight gradients
size_t ppl_cuda_cross_entropy_scratch(const ppl_kernel_spec *spec);
size_t ppl_cuda_mse_scratch(const ppl_kernel_spec *spec);
size_t ppl_cuda_attention_grad_scratch(const ppl_kernel_spec *spec);

// Whether there is code for the current device: cudaErrorNoKernelImageForDevice where not.
cudaError_t ppl_cuda_image(void);

// After a product: y = act(pre) for each number, by the same code as ACT; in place where y == pre is not asked for.
cudaError_t ppl_cuda_act_apply(void *y, const void *pre, int64_t n, int32_t act, int32_t dtype, cudaStream_t stream);

// One optimizer step (kernel.h), and the sum of squares behind the gradient norm: partial is room for
// PPL_CUDA_PARTIALS numbers, *out (device memory) the sum in f64, over blocks whose number depends on n alone.
enum { PPL_CUDA_PARTIALS = 1024, PPL_CUDA_USES = 128 }; // the most accumulators of one parameter
cudaError_t ppl_cuda_update(const ppl_update *u, cudaStream_t stream);
cudaError_t ppl_cuda_square_sum(const void *const *grads, int32_t uses, int64_t n, double *partial, double *out,
                                cudaStream_t stream);

#endif
