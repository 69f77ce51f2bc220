// probe.c - the GPUs of this machine, or why there are none. Before it: `ppl devices`, and device.c's open. After it: the
// CUDA runtime, which answers without a driver too.
#include "device/cuda/cuda.h"
#include "ppl.h"
#include <stdio.h>

ppl_status ppl_gpu_count(int32_t *count) {
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    *count = error == cudaSuccess ? n : 0;
    if (*count > 0) return PPL_OK;
    cudaGetLastError(); // told here
    int driver = 0;
    if (error == cudaErrorInsufficientDriver && (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)) {
        return ppl_fail(PPL_ERR_DEVICE,
                        "device cuda: there is no GPU: no NVIDIA driver is loaded, want one for CUDA %d.%d",
                        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    if (error == cudaErrorInsufficientDriver) {
        return ppl_fail(PPL_ERR_DEVICE, "device cuda: the NVIDIA driver is for CUDA %d.%d, want one for %d.%d or later",
                        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    if (error == cudaErrorNoDevice || error == cudaSuccess) {
        return ppl_fail(PPL_ERR_DEVICE, "device cuda: there is no GPU: the driver shows none, want one (and "
                                        "CUDA_VISIBLE_DEVICES not to hide it)");
    }
    return ppl_cuda_check("cudaGetDeviceCount", error);
}

ppl_status ppl_gpu_get(int32_t index, ppl_gpu *out) {
    struct cudaDeviceProp p;
    int32_t count;
    PPL_TRY(ppl_gpu_count(&count));
    if (index < 0 || index >= count)
        return ppl_fail(PPL_ERR_ARG, "GPU %d: there are %d, want 0..%d", index, count, count - 1);
    PPL_TRY(ppl_cuda_check("cudaGetDeviceProperties", cudaGetDeviceProperties(&p, index)));
    *out = (ppl_gpu){
        .major = p.major, .minor = p.minor, .processors = p.multiProcessorCount, .memory = (int64_t)p.totalGlobalMem};
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    return PPL_OK;
}
