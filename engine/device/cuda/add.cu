// add.cu - x + y, where y has x's shape or a suffix of it and repeats. Before it: kernels.c. After it: pair.cuh.
#include "device/cuda/pair.cuh"

struct sum_of_pair {
    static __device__ __forceinline__ float join(float x, float y) { return x + y; }
};

extern "C" cudaError_t ppl_cuda_add(const ppl_cuda_job *job) { return pair_run<sum_of_pair>(job); }
