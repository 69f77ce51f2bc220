// errors.h - failures of CUDA's libraries in words, with what to do about them. Before it: any call of CUDA, cuBLASLt or NCCL,
// in this folder and in link/. After it: ppl_error().
#ifndef PPL_DEVICE_CUDA_ERRORS_H
#define PPL_DEVICE_CUDA_ERRORS_H
#include "base/status.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>

enum { PPL_CUDA_CAPABILITY = 80 }; // the least that there are kernels for: 10 * major + minor

// A foreign failure in words, once: "device cuda: cudaMalloc: out of memory (cudaErrorMemoryAllocation)", and where there is
// a remedy ", want ...". what: the call.
ppl_status ppl_cuda_check(const char *what, cudaError_t error);
ppl_status ppl_cublas_check(const char *what, cublasStatus_t status);

// Whether the NCCL that the program has loaded is one that it can work with; else PPL_ERR_DEVICE with both versions and the
// path of what was loaded. Works without a GPU.
ppl_status ppl_nccl_version_check(void);

#endif
