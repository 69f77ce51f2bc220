// cudart_memory.cc - the CUDA runtime's memory: what is allocated, on which device, and copies that check both ends.
// Device memory is host memory here and full of NaNs at first. Before it: the program; after it: state.cc.
#include "emulation/state.hh"
#include <cuda_runtime_api.h>
#include <cstdlib>

using namespace emu;

namespace {

void *take(State &s, size_t bytes, int device) {
    bool mapped = false;
    void *p = block_get(bytes, &mapped);
    if (!p) return nullptr;
    s.memory[reinterpret_cast<uintptr_t>(p)] = {bytes, device, true, mapped};
    s.counts.mallocs++;
    return p;
}

bool idle(State &s, int device) {
    for (CUstream_st *stream : s.streams)
        if (stream->device == device && (stream->running || !stream->queue.empty())) return false;
    return true;
}

// Which way a copy goes, and whether the caller waits for it because one end is ordinary memory.
cudaError_t check_copy(State &s, void *to, const void *from, size_t bytes, cudaMemcpyKind kind, bool *waits) {
    const Range *to_range = range_of(s, to, bytes), *from_range = range_of(s, from, bytes);
    bool to_device = to_range && to_range->device >= 0, from_device = from_range && from_range->device >= 0;
    const Range *to_begin = range_of(s, to, 0), *from_begin = range_of(s, from, 0);
    bool over =
        (to_begin && to_begin->device >= 0 && !to_range) || (from_begin && from_begin->device >= 0 && !from_range);
    if (over && bytes) return cudaErrorInvalidValue;
    bool want_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool want_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && bytes && (want_to != to_device || want_from != from_device))
        return cudaErrorInvalidValue;
    *waits = (to_device && !from_range) || (from_device && !to_range);
    return cudaSuccess;
}

cudaError_t wait_idle(State &s, Lock &l, CUstream_st *stream) {
    int device = stream->device;
    s.counts.host_waits++;
    wait_for(s, l, [&] { return !stream->running && stream->queue.empty(); });
    return device_of(s, device).broken;
}

cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle, bool wait) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    bool pageable = false;
    if (cudaError_t e = check_copy(s, to, from, bytes, kind, &pageable)) return failed(e);
    s.counts.copies++;
    Work w = {"copy of " + std::to_string(bytes) + " bytes", nullptr, [=] { memcpy(to, from, bytes); }};
    if (!bytes) w.run = nullptr;
    if (cudaError_t e = enqueue(s, handle, std::move(w))) return failed(e);
    return wait || pageable ? failed(wait_idle(s, l, stream_of(s, handle))) : cudaSuccess;
}

cudaError_t fill(void *p, int value, size_t bytes, cudaStream_t handle, bool wait) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    const Range *range = range_of(s, p, bytes);
    if (!range || range->device < 0) return failed(cudaErrorInvalidValue);
    s.counts.fills++;
    Work w = {"fill of " + std::to_string(bytes) + " bytes", nullptr, [=] { memset(p, value, bytes); }};
    if (cudaError_t e = enqueue(s, handle, std::move(w))) return failed(e);
    return wait ? failed(wait_idle(s, l, stream_of(s, handle))) : cudaSuccess;
}

// Frees what was allocated; a device's memory waits for the device.
cudaError_t give_back(void *p, bool pinned) {
    State &s = state();
    Lock l(s.lock);
    if (s.set.probe) return failed(static_cast<cudaError_t>(s.set.probe));
    if (!p) return cudaSuccess;
    auto found = s.memory.find(reinterpret_cast<uintptr_t>(p));
    if (found == s.memory.end() || !found->second.owned || (found->second.device < 0) != pinned)
        return failed(cudaErrorInvalidValue);
    Range range = found->second;
    s.counts.frees++;
    if (!pinned) {
        s.counts.host_waits++;
        wait_for(s, l, [&] { return idle(s, range.device); });
        device_of(s, range.device).in_use -= range.bytes;
    }
    s.memory.erase(reinterpret_cast<uintptr_t>(p));
    block_free(p, range.bytes, range.mapped);
    return cudaSuccess;
}

} // namespace

cudaError_t cudaMalloc(void **p, size_t bytes) {
    State &s = state();
    Lock l(s.lock);
    *p = nullptr;
    if (cudaError_t e = usable(s)) return failed(e);
    if (!bytes) return cudaSuccess;
    Device &d = device_of(s, this_device);
    if (fault(s, EMU_FAULT_MALLOC) || bytes > s.set.memory - d.in_use || !(*p = take(s, bytes, this_device)))
        return failed(cudaErrorMemoryAllocation);
    d.in_use += bytes;
    d.peak = std::max(d.peak, d.in_use);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p) {
    return give_back(p, false);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int) {
    State &s = state();
    Lock l(s.lock);
    *p = nullptr;
    if (cudaError_t e = usable(s)) return failed(e);
    if (!bytes) return cudaSuccess;
    *p = fault(s, EMU_FAULT_MALLOC) ? nullptr : take(s, bytes, -1);
    return failed(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void **p, size_t bytes) {
    return cudaHostAlloc(p, bytes, 0);
}
cudaError_t cudaFreeHost(void *p) {
    return give_back(p, true);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (!p || !bytes) return failed(cudaErrorInvalidValue);
    auto next = s.memory.lower_bound(reinterpret_cast<uintptr_t>(p));
    bool meets = next != s.memory.end() && next->first < reinterpret_cast<uintptr_t>(p) + bytes;
    const Range *before = range_of(s, p, 0);
    if (meets || (before && range_of(s, p, 1))) return failed(cudaErrorHostMemoryAlreadyRegistered);
    s.memory[reinterpret_cast<uintptr_t>(p)] = {bytes, -1, false, false};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p) {
    State &s = state();
    Lock l(s.lock);
    auto found = s.memory.find(reinterpret_cast<uintptr_t>(p));
    if (found == s.memory.end() || found->second.owned) return failed(cudaErrorHostMemoryNotRegistered);
    s.memory.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    *total = s.set.memory;
    *left = s.set.memory - device_of(s, this_device).in_use;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p) {
    State &s = state();
    Lock l(s.lock);
    const Range *range = range_of(s, p, 1);
    memset(a, 0, sizeof *a);
    a->type = !range ? cudaMemoryTypeUnregistered : range->device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    a->device = range && range->device >= 0 ? range->device : this_device;
    a->hostPointer = range && range->device < 0 ? const_cast<void *>(p) : nullptr;
    a->devicePointer = range ? const_cast<void *>(p) : nullptr;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
    {
        State &s = state();
        Lock l(s.lock);
        const Range *a = range_of(s, to, bytes), *b = range_of(s, from, bytes);
        if (!a || !b || a->device != to_device || b->device != from_device) return failed(cudaErrorInvalidValue);
    }
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
    return bytes ? fill(p, value, bytes, stream, false) : cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    return bytes ? fill(p, value, bytes, nullptr, true) : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    int device = this_device;
    s.counts.host_waits++;
    wait_for(s, l, [&] { return idle(s, device); });
    return failed(device_of(s, device).broken);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    CUstream_st *stream = stream_of(s, handle);
    return failed(stream ? wait_idle(s, l, stream) : cudaErrorInvalidResourceHandle);
}
