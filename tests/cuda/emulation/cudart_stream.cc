// cudart_stream.cc - the CUDA runtime's streams, events, launches and host functions. Before it: the program and
// PPL_LAUNCH; after it: state.cc, whose threads run what was put into streams.
#include "emulation/launch.hh"
#include "emulation/state.hh"
#include <cuda_runtime_api.h>

using namespace emu;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) return failed(cudaErrorInvalidValue);
    *stream = make_stream(s, flags, priority);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

// Returns at once; the stream goes when its work is done.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    State &s = state();
    Lock l(s.lock);
    CUstream_st *stream = handle ? stream_of(s, handle) : nullptr;
    if (!stream) return failed(cudaErrorInvalidResourceHandle);
    stream->doomed = true;
    if (stream->queue.empty() && !stream->running) {
        s.streams.erase(stream);
        delete stream;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    CUstream_st *stream = stream_of(s, handle);
    if (!stream) return failed(cudaErrorInvalidResourceHandle);
    return stream->queue.empty() && !stream->running ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    State &s = state();
    Lock l(s.lock);
    CUstream_st *stream = stream_of(s, handle);
    if (stream) *priority = stream->priority;
    return failed(stream ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device) {
    State &s = state();
    Lock l(s.lock);
    CUstream_st *stream = stream_of(s, handle);
    if (stream) *device = stream->device;
    return failed(stream ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

// ---- events ----

static bool known(const State &s, cudaEvent_t event) {
    return s.events.count(event) > 0;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    *event = new CUevent_st{{!(flags & cudaEventDisableTiming), this_device, nullptr}};
    s.events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    State &s = state();
    Lock l(s.lock);
    if (!s.events.erase(event)) return failed(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (!known(s, handle)) return failed(cudaErrorInvalidResourceHandle);
    CUstream_st *into = stream_of(s, stream);
    if (!into || into->device != handle->event.device) return failed(cudaErrorInvalidResourceHandle);
    auto moment = std::make_shared<Moment>();
    Work w = {"event record",
              [moment] {
                  moment->passed = true;
                  moment->at = Clock::now();
                  return true;
              },
              nullptr};
    cudaError_t e = enqueue(s, stream, std::move(w));
    if (e == cudaSuccess) handle->event.newest = moment;
    return failed(e);
}

// Waits for the newest record of the event that was asked for before this call; for none, not at all.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned int flags) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (!known(s, handle) || flags)
        return failed(known(s, handle) ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    std::shared_ptr<Moment> moment = handle->event.newest;
    Work w = {"wait for an event of device " + std::to_string(handle->event.device),
              [moment] { return !moment || moment->passed; }, nullptr};
    return failed(enqueue(s, stream, std::move(w)));
}

static cudaError_t event_state(State &s, const Event &event) {
    if (!event.newest || event.newest->passed) return cudaSuccess;
    cudaError_t broken = device_of(s, event.device).broken;
    return broken ? broken : cudaErrorNotReady;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    return failed(known(s, handle) ? event_state(s, handle->event) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (!known(s, handle)) return failed(cudaErrorInvalidResourceHandle);
    Event event = handle->event;
    s.counts.host_waits++;
    wait_for(s, l, [&] { return event_state(s, event) != cudaErrorNotReady; });
    return failed(event_state(s, event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    State &s = state();
    Lock l(s.lock);
    if (!known(s, begin) || !known(s, end)) return failed(cudaErrorInvalidResourceHandle);
    const Event &a = begin->event, &b = end->event;
    if (!a.timing || !b.timing || !a.newest || !b.newest) return failed(cudaErrorInvalidResourceHandle);
    if (cudaError_t e = event_state(s, a)) return failed(e);
    if (cudaError_t e = event_state(s, b)) return failed(e);
    *ms = std::chrono::duration<float, std::milli>(b.newest->at - a.newest->at).count();
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *with) {
    State &s = state();
    Lock l(s.lock);
    if (cudaError_t e = usable(s)) return failed(e);
    if (!function) return failed(cudaErrorInvalidValue);
    Work w = {"host function", nullptr, [=] {
                  in_host_function = true;
                  function(with);
                  in_host_function = false;
              }};
    return failed(enqueue(s, stream, std::move(w)));
}

// ---- launches ----

namespace emu {

static bool sound(const dim3 &grid, const dim3 &block) {
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return false;
    if (!block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64) return false;
    return block.x * block.y * block.z <= 1024;
}

// Runs without the lock; what goes wrong breaks the device, as a fault of a kernel does.
static void run_launch(const Launch &launch, int device, bool dies) {
    std::string wrong = dies ? "kernel " + std::string(launch.name) + ": a planted launch failure" : run(launch);
    if (wrong.empty()) return;
    State &s = state();
    Lock l(s.lock);
    report(s, wrong);
    break_device(s, device, cudaErrorLaunchFailure);
}

static cudaError_t check_launch(State &s, const void *kernel, const Launch &launch, const CUstream_st *stream) {
    if (!stream || stream->device != this_device) return cudaErrorInvalidResourceHandle;
    if (s.set.capability < least_capability) return cudaErrorNoKernelImageForDevice;
    if (!sound(launch.grid, launch.block)) return cudaErrorInvalidConfiguration;
    auto allowed = s.shared_allowed.find(kernel);
    if (launch.shared > (allowed == s.shared_allowed.end() ? 48 * 1024 : allowed->second)) return cudaErrorInvalidValue;
    if (fault(s, EMU_FAULT_REFUSED)) return cudaErrorLaunchOutOfResources;
    if (loaded(s, this_device, std::string("kernel ") + launch.name)) return cudaSuccess;
    break_device(s, this_device, cudaErrorLaunchTimeout);
    return cudaErrorLaunchTimeout;
}

void queue_launch(const void *kernel, Launch launch, cudaStream_t handle) {
    State &s = state();
    Lock l(s.lock);
    cudaError_t e = usable(s);
    if (e == cudaSuccess) e = check_launch(s, kernel, launch, stream_of(s, handle));
    if (e != cudaSuccess) {
        failed(e);
        return;
    }
    s.counts.launches++;
    launch.order = s.set.order;
    launch.block_seed = s.set.seed ? s.random() | 1 : 0;
    bool dies = fault(s, EMU_FAULT_LAUNCH);
    auto kept = std::make_shared<Launch>(std::move(launch));
    int device = this_device;
    Work w = {std::string("kernel ") + kept->name, nullptr, [=] { run_launch(*kept, device, dies); }};
    failed(enqueue(s, handle, std::move(w)));
}

} // namespace emu
