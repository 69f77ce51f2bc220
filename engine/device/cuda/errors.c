// errors.c - failures of CUDA's libraries in words, with what to do about them. Before it: any call of this folder. After it:
// base/status.c.
#include "device/cuda/errors.h"
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

// By what users of other programs met them with; errors that only a bug can cause have none.
static const struct {
    cudaError_t error;
    const char *want;
} remedies[] = {
    {cudaErrorMemoryAllocation,
     "smaller microbatches, more stages on more GPUs, recomputation, or what else runs there to end"},
    {cudaErrorStubLibrary, "the driver's own libcuda.so.1, not the toolkit's stub, first on LD_LIBRARY_PATH"},
    {cudaErrorDevicesUnavailable,
     "no other process on the GPU, or its compute mode to be Default (nvidia-smi -q -d COMPUTE)"},
    {cudaErrorInvalidDeviceFunction, "a GPU of compute capability 8.0 or later: this build has no code for older ones"},
    {cudaErrorNoKernelImageForDevice,
     "a GPU of compute capability 8.0 or later: this build has no code for older ones"},
    {cudaErrorECCUncorrectable, "a GPU whose memory works: nvidia-smi -q -d ECC, and a reset by who runs the machine"},
    {cudaErrorNvlinkUncorrectable, "NVLink to work: nvidia-smi nvlink -e, and a reset by who runs the machine"},
    {cudaErrorJitCompilerNotFound, "the driver's libnvidia-ptxjitcompiler.so.1, which compiles for this GPU"},
    {cudaErrorUnsupportedPtxVersion, "a driver as new as the toolkit: this GPU's code is compiled by the driver"},
    {cudaErrorOperatingSystem, "access to /dev/nvidia* (in a container: started with its GPUs, docker run --gpus all)"},
    {cudaErrorIllegalAddress, "a report of a bug: compute-sanitizer ./ppl ... names the kernel and the line"},
    {cudaErrorSystemNotReady, "the service nvidia-fabricmanager to run, which GPUs on NVSwitch need"},
    {cudaErrorSystemDriverMismatch, "the driver's module and libraries of one version: a restart after an update"},
    {cudaErrorCompatNotSupportedOnDevice, "cuda-compat off LD_LIBRARY_PATH: it is for data-centre GPUs"},
    {cudaErrorMpsConnectionFailed, "the MPS server to run, or CUDA_MPS_PIPE_DIRECTORY not to be set"},
};

static const char *remedy_of(cudaError_t error) {
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].error == error) return remedies[i].want;
    return NULL;
}

ppl_status ppl_cuda_check(const char *what, cudaError_t error) {
    if (error == cudaSuccess) return PPL_OK;
    const char *want = remedy_of(error);
    return ppl_fail(error == cudaErrorMemoryAllocation ? PPL_ERR_MEMORY : PPL_ERR_DEVICE,
                    "device cuda: %s: %s (%s)%s%s", what, cudaGetErrorString(error), cudaGetErrorName(error),
                    want ? ", want " : "", want ? want : "");
}

ppl_status ppl_cublas_check(const char *what, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return PPL_OK;
    const char *want = status == CUBLAS_STATUS_ARCH_MISMATCH ? ", want a GPU of compute capability 8.0 or later" : "";
    return ppl_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? PPL_ERR_MEMORY : PPL_ERR_DEVICE, "device cuda: %s: %s%s",
                    what, cublasLtGetStatusString(status), want);
}

// ---- NCCL ----

enum {
    NCCL_LEAST = NCCL_VERSION(2, 19, 0), // what links rely on: made and split without blocking, with a number of blocks
    NCCL_NEXT = NCCL_VERSION(3, 0, 0)    // another major version has another interface
};

static void version_print(int version, char text[16]) {
    snprintf(text, 16, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

// The file that the library's code is in; "" where that is not known.
static const char *nccl_path(void) {
    Dl_info info;
    ncclResult_t (*call)(int *) = ncclGetVersion;
    void *at;
    memcpy(&at, &call, sizeof at);
    return dladdr(at, &info) && info.dli_fname ? info.dli_fname : "";
}

ppl_status ppl_nccl_version_check(void) {
    int version = 0;
    ncclResult_t e = ncclGetVersion(&version);
    if (e != ncclSuccess)
        return ppl_fail(PPL_ERR_DEVICE, "link nccl: ncclGetVersion: %s, want an NCCL that works",
                        ncclGetErrorString(e));
    if (version >= NCCL_LEAST && version < NCCL_NEXT) return PPL_OK;
    char is[16], built[16];
    version_print(version, is);
    version_print(NCCL_VERSION_CODE, built);
    return ppl_fail(
        PPL_ERR_DEVICE,
        "link nccl: the library is %s (%s), want 2.19.0 or later, below 3: the build's was %s; install it, or "
        "have LD_LIBRARY_PATH name its folder first",
        is, nccl_path(), built);
}
