// probe.cu - whether this program has code for the current GPU: a kernel that is asked about and never launched. Before it:
// probe.c.
#include "device/cuda/common.cuh"

static __global__ void nothing(int *p) { *p = 0; }

extern "C" cudaError_t ppl_cuda_image(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(nothing));
}
