// cudart_device.cc - the CUDA runtime's calls about devices, functions and errors. Before it: the program; after it:
// state.cc. Numbers are those of an H200 where a kernel may depend on them.
#include "emulation/state.hh"
#include <cuda_runtime_api.h>
#include <cstdio>

using namespace emu;

namespace {

struct ErrorText {
    cudaError_t error;
    const char *name, *text;
};
const ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion",
     "the provided PTX was compiled with an unsupported toolchain."},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

constexpr int shared_most = 227 * 1024; // bytes a block may ask for

// -1 for an attribute that is not known here.
int attribute(const State &s, const Device &d, cudaDeviceAttr what) {
    switch (static_cast<int>(what)) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX: return 1024;
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY: return 65535;
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 * 1024;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return shared_most;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 * 1024;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxRegistersPerBlock: return 65536;
    case cudaDevAttrMultiProcessorCount: return 132;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrL2CacheSize: return 50 << 20;
    case cudaDevAttrComputeCapabilityMajor: return s.set.capability / 10;
    case cudaDevAttrComputeCapabilityMinor: return s.set.capability % 10;
    case cudaDevAttrComputeMode: return s.set.mode;
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrUnifiedAddressing: return 1;
    case cudaDevAttrConcurrentKernels: return 1;
    case cudaDevAttrStreamPrioritiesSupported: return 1;
    case cudaDevAttrPciBusId: return 1 + d.physical;
    case cudaDevAttrPciDeviceId: return 0;
    case cudaDevAttrPciDomainId: return 0;
    case cudaDevAttrEccEnabled: return 1;
    case cudaDevAttrIntegrated: return 0;
    default: return -1;
    }
}

bool exists(const State &s, int device) {
    return device >= 0 && static_cast<size_t>(device) < s.devices.size();
}

// The probe's error stands above all others; a device that is none comes next.
cudaError_t device_error(State &s, int device) {
    if (s.set.probe) return static_cast<cudaError_t>(s.set.probe);
    return exists(s, device) ? cudaSuccess : cudaErrorInvalidDevice;
}

} // namespace

const char *cudaGetErrorName(cudaError_t e) {
    for (const ErrorText &t : error_texts)
        if (t.error == e) return t.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e) {
    for (const ErrorText &t : error_texts)
        if (t.error == e) return t.text;
    return "unrecognized error code";
}

// A broken device's error cannot be cleared.
cudaError_t cudaPeekAtLastError(void) {
    State &s = state();
    Lock l(s.lock);
    cudaError_t broken = exists(s, this_device) ? device_of(s, this_device).broken : cudaSuccess;
    return broken ? broken : last_error;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t e = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaDriverGetVersion(int *version) {
    const Settings &set = state().set;
    *version = set.driver ? set.driver : set.probe == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    State &s = state();
    Lock l(s.lock);
    *count = s.set.probe ? 0 : static_cast<int>(s.devices.size());
    if (s.set.probe) return failed(static_cast<cudaError_t>(s.set.probe));
    return failed(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = device_error(s, device)) return failed(e);
    if (s.set.mode) return failed(cudaErrorDevicesUnavailable); // prohibited, or another process has it
    this_device = device;
    return failed(device_of(s, device).broken);
}

cudaError_t cudaGetDevice(int *device) {
    State &s = state();
    Lock l(s.lock);
    *device = this_device;
    return failed(s.set.probe ? static_cast<cudaError_t>(s.set.probe) : cudaSuccess);
}

cudaError_t cudaSetDeviceFlags(unsigned int) {
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = device_error(s, device)) return failed(e);
    int v = attribute(s, device_of(s, device), what);
    if (v < 0) return failed(cudaErrorInvalidValue);
    *value = v;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = device_error(s, device)) return failed(e);
    const Device &d = device_of(s, device);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Emulated GPU");
    p->uuid.bytes[15] = static_cast<char>(d.physical);
    p->totalGlobalMem = s.set.memory;
    p->sharedMemPerBlock = 48 * 1024;
    p->sharedMemPerBlockOptin = shared_most;
    p->sharedMemPerMultiprocessor = 228 * 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = i < 2 ? 1024 : 64;
        p->maxGridSize[i] = i ? 65535 : 0x7fffffff;
    }
    p->major = s.set.capability / 10;
    p->minor = s.set.capability % 10;
    p->multiProcessorCount = 132;
    p->concurrentKernels = p->unifiedAddressing = p->streamPrioritiesSupported = 1;
    p->asyncEngineCount = 3;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 6144;
    p->pciBusID = 1 + d.physical;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = device_error(s, device)) return failed(e);
    snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", 1 + device_of(s, device).physical);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    State &s = state();
    Lock l(s.lock);
    cudaError_t e = device_error(s, device);
    if (e == cudaSuccess) e = device_error(s, peer);
    *can = e == cudaSuccess && device != peer && s.set.peers;
    return failed(e);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr what, int device, int peer) {
    int can;
    if (cudaError_t e = cudaDeviceCanAccessPeer(&can, device, peer)) return e;
    if (device == peer) return failed(cudaErrorInvalidDevice);
    *value = what == cudaDevP2PAttrAccessSupported && can;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    State &s = state();
    Lock l(s.lock);
    cudaError_t e = usable(s);
    if (e == cudaSuccess) e = device_error(s, peer);
    if (e == cudaSuccess && (flags || peer == this_device)) e = flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice;
    if (e == cudaSuccess && !s.set.peers) e = cudaErrorPeerAccessUnsupported;
    if (e == cudaSuccess && !device_of(s, this_device).peers.insert(peer).second) e = cudaErrorPeerAccessAlreadyEnabled;
    return failed(e);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute what, int value) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (what == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > shared_most)
        return failed(cudaErrorInvalidValue);
    s.shared_allowed[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
}

// The attributes that the emulation knows of every kernel.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (s.set.capability < least_capability) return failed(cudaErrorNoKernelImageForDevice);
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->binaryVersion = a->ptxVersion = s.set.capability;
    return cudaSuccess;
}
