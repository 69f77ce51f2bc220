// probe.c - the GPUs of this machine and how they reach each other, or why one cannot be used. Before it: `ppl devices`, and
// device.c's open. After it: the CUDA runtime, which answers without a driver too, and nvml.c.
#include "device/cuda/cuda.h"
#include "device/cuda/nvml.h"
#include <dirent.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

// ---- is there one? ----

// First number of a file such as /sys/bus/pci/devices/0000:01:00.0/vendor; 0 where there is none.
static unsigned long number_in(const char *device, const char *file) {
    char path[320], text[32] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device, file);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    unsigned long number = fgets(text, sizeof text, f) ? strtoul(text, NULL, 0) : 0;
    fclose(f);
    return number;
}

// NVIDIA's display and compute controllers on this machine's bus, whether or not a driver has them.
static int32_t bus_count(void) {
    enum { NVIDIA = 0x10de, DISPLAY = 0x03 };
    int32_t count = 0;
    DIR *d = opendir("/sys/bus/pci/devices");
    for (struct dirent *e; d && (e = readdir(d));)
        count += number_in(e->d_name, "vendor") == NVIDIA && number_in(e->d_name, "class") >> 16 == DISPLAY;
    if (d) closedir(d);
    return count;
}

static ppl_status no_driver(void) {
    int32_t there = bus_count();
    char hint[160] = "";
    if (there)
        snprintf(hint, sizeof hint,
                 " (the bus has %d; in a container, want it started with them: docker run --gpus all)", there);
    return ppl_fail(PPL_ERR_DEVICE,
                    "device cuda: there is no GPU: no NVIDIA driver is loaded, want one for CUDA %d.%d or later%s",
                    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, hint);
}

static ppl_status old_driver(int driver) {
    return ppl_fail(
        PPL_ERR_DEVICE,
        "device cuda: the NVIDIA driver is for CUDA %d.%d, want one for %d.%d or later, which this program was "
        "built with: update the driver, or build with a toolkit of %d.%d or before",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
        driver % 1000 / 10);
}

static ppl_status none_shown(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) return ppl_fail(PPL_ERR_DEVICE, "device cuda: there is no GPU: the driver shows none, want one");
    return ppl_fail(
        PPL_ERR_DEVICE,
        "device cuda: there is no GPU: CUDA_VISIBLE_DEVICES is \"%.60s\", want it to name some, as in 0,1, or "
        "not to be set",
        visible);
}

ppl_status ppl_gpu_count(int32_t *count) {
    int n = 0, driver = 0;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32",
           0); // streams that share one wait for each other; read at the first call
    cudaError_t error = cudaGetDeviceCount(&n);
    *count = error == cudaSuccess ? n : 0;
    if (*count > 0) return PPL_OK;
    cudaGetLastError(); // told here
    if (error == cudaErrorInsufficientDriver)
        return cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0 ? no_driver() : old_driver(driver);
    if (error == cudaErrorNoDevice || error == cudaSuccess) return none_shown();
    return ppl_cuda_check("cudaGetDeviceCount", error);
}

// Several ranks share a GPU where there are more ranks than GPUs.
int32_t ppl_gpu_of_rank(int32_t rank, int32_t gpus) {
    return rank % gpus;
}

ppl_status ppl_gpu_versions_get(ppl_gpu_versions *out) {
    int driver = 0, runtime = 0, nccl = 0;
    *out = (ppl_gpu_versions){0};
    if (cudaDriverGetVersion(&driver) == cudaSuccess) out->driver_cuda = driver;
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) out->runtime = runtime;
    if (ncclGetVersion(&nccl) == ncclSuccess) out->nccl = nccl;
    ppl_nvml_driver(out->driver, sizeof out->driver);
    return PPL_OK;
}

// ---- can it be used? ----

ppl_status ppl_cuda_usable(int32_t ordinal) {
    int mode = 0, major = 0, minor = 0;
    PPL_TRY(ppl_cuda_check("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, ordinal)));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetAttribute",
                           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal)));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetAttribute",
                           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal)));
    if (10 * major + minor < PPL_CUDA_CAPABILITY)
        return ppl_fail(
            PPL_ERR_DEVICE,
            "device cuda: GPU %d has compute capability %d.%d, want %d.%d or later (Ampere): this build has no "
            "code for older ones",
            ordinal, major, minor, PPL_CUDA_CAPABILITY / 10, PPL_CUDA_CAPABILITY % 10);
    if (mode == cudaComputeModeProhibited)
        return ppl_fail(
            PPL_ERR_DEVICE,
            "device cuda: GPU %d is in compute mode Prohibited, want Default, which who runs the machine sets "
            "(nvidia-smi -c DEFAULT)",
            ordinal);
    char what[64];
    cudaError_t e = cudaSetDevice(ordinal); // opens it
    snprintf(what, sizeof what, "GPU %d: %s", ordinal, e == cudaSuccess ? "a kernel's code" : "cudaSetDevice");
    if (e == cudaSuccess) e = ppl_cuda_image();
    if (e != cudaSuccess) cudaGetLastError(); // told here
    return ppl_cuda_check(what, e);
}

// Fills in what only an open GPU tells: free memory; or why it cannot be used.
static void look_inside(int32_t ordinal, ppl_gpu *out) {
    size_t left = 0, all = 0;
    int before = 0;
    bool known = cudaGetDevice(&before) == cudaSuccess;
    ppl_status st = ppl_cuda_usable(ordinal);
    if (st == PPL_OK) st = ppl_cuda_check("cudaMemGetInfo", cudaMemGetInfo(&left, &all));
    if (st == PPL_OK) out->free = (int64_t)left;
    if (st != PPL_OK) snprintf(out->reason, sizeof out->reason, "%s", ppl_error());
    if (known && before != ordinal) cudaSetDevice(before);
    cudaGetLastError();
}

static ppl_status index_check(int32_t index, int32_t *count) {
    PPL_TRY(ppl_gpu_count(count));
    if (index >= 0 && index < *count) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "GPU %d: there are %d, want 0..%d", index, *count, *count - 1);
}

ppl_status ppl_gpu_index_check(int32_t index) {
    int32_t count;
    return index_check(index, &count);
}

ppl_status ppl_gpu_get(int32_t index, ppl_gpu *out) {
    struct cudaDeviceProp p;
    int32_t count;
    PPL_TRY(index_check(index, &count));
    PPL_TRY(ppl_cuda_check("cudaGetDeviceProperties", cudaGetDeviceProperties(&p, index)));
    *out = (ppl_gpu){.major = p.major, .minor = p.minor, .processors = p.multiProcessorCount, .free = -1};
    out->memory = (int64_t)p.totalGlobalMem;
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    PPL_TRY(ppl_cuda_check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(out->bus, sizeof out->bus, index)));
    look_inside(index, out);
    return PPL_OK;
}

// ---- how do two reach each other? ----

ppl_status ppl_gpu_link_get(int32_t from, int32_t to, ppl_gpu_link *out) {
    int32_t count;
    int peer = 0, rank = 0, atomics = 0;
    char bus[2][16];
    PPL_TRY(index_check(from, &count));
    PPL_TRY(index_check(to, &count));
    *out = (ppl_gpu_link){.from = from, .to = to, .path = PPL_PATH_SAME, .peer = 1, .rank = -1};
    if (from == to) return PPL_OK;
    out->path = PPL_PATH_UNKNOWN;
    PPL_TRY(ppl_cuda_check("cudaDeviceCanAccessPeer", cudaDeviceCanAccessPeer(&peer, from, to)));
    out->peer = peer;
    if (cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, from, to) == cudaSuccess) out->rank = rank;
    if (cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to) != cudaSuccess) atomics = 0;
    cudaGetLastError();
    PPL_TRY(ppl_cuda_check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus[0], sizeof bus[0], from)));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus[1], sizeof bus[1], to)));
    ppl_nvml_link(bus[0], bus[1], out);
    // Without NVML: only NVLink does atomics on the other side natively.
    if (out->path == PPL_PATH_UNKNOWN && atomics) out->path = PPL_PATH_NVLINK;
    return PPL_OK;
}
