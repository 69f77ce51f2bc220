// state.cc - the threads that run streams' work, in the order of each stream, and see when nothing moves any more.
// Before it: cudart*.cc, cublaslt.cc and nccl.cc, which put work into streams; after it: the work.
#include "emulation/state.hh"
#include <cuda_runtime_api.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace emu {

__thread int this_device;
__thread cudaError_t last_error;
__thread bool in_host_function;
void (*forget_communicators)();

static const char *const fault_names[EMU_FAULT_KINDS] = {"malloc", "launch", "refused", "matmul", "attention",
                                                         "init",   "nccl",   "async",   "peer"};

static uint64_t number_from(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

static Settings settings_from_environment() {
    Settings set;
    set.devices = static_cast<int>(number_from("PPL_EMU_DEVICES", 4));
    set.probe = static_cast<int>(number_from("PPL_EMU_PROBE", 0));
    set.driver = static_cast<int>(number_from("PPL_EMU_DRIVER", 0));
    if (set.driver && set.driver < CUDART_VERSION) set.probe = cudaErrorInsufficientDriver;
    set.capability = static_cast<int>(number_from("PPL_EMU_CAPABILITY", 90));
    set.mode = static_cast<int>(number_from("PPL_EMU_MODE", 0));
    set.peers = static_cast<int>(number_from("PPL_EMU_PEERS", 1));
    set.memory = number_from("PPL_EMU_MEMORY", set.memory);
    set.seed = number_from("PPL_EMU_SEED", 0);
    set.workers = static_cast<int>(number_from("PPL_EMU_WORKERS", 2));
    set.nccl_version = static_cast<int>(number_from("PPL_EMU_NCCL", 0));
    set.cudnn_version = static_cast<int>(number_from("PPL_EMU_CUDNN", 0));
    set.hang_ms = static_cast<int>(number_from("PPL_EMU_HANG_MS", 20000));
    const char *order = getenv("PPL_EMU_ORDER"), *host = getenv("PPL_EMU_HOST"), *broken = getenv("PPL_EMU_FAULT");
    if (order) set.order = *order == 'g' ? Order::greedy : !strcmp(order, "reverse") ? Order::reverse : Order::ring;
    if (host) set.host = host;
    const char *colon = broken ? strchr(broken, ':') : nullptr;
    for (int i = 0; colon && i < EMU_FAULT_KINDS; i++)
        if (std::string(broken, colon) == fault_names[i]) set.fault[i] = strtoull(colon + 1, nullptr, 10);
    return set;
}

// The devices that CUDA_VISIBLE_DEVICES leaves, in its order.
static void find_devices(State &s) {
    s.devices.clear();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; !visible && i < s.set.devices; i++) {
        s.devices.emplace_back();
        s.devices.back().physical = i;
    }
    while (visible && *visible >= '0' && *visible <= '9') {
        char *end;
        long at = strtol(visible, &end, 10);
        if (at >= s.set.devices) break; // as CUDA: those before it stay
        s.devices.emplace_back();
        s.devices.back().physical = static_cast<int>(at);
        visible = *end == ',' ? end + 1 : end;
    }
}

static void start_over(State &s) {
    s.set = settings_from_environment();
    find_devices(s);
    s.counts = {};
    s.hung = false;
    s.report.clear();
    s.random.seed(s.set.seed);
    s.moved = Clock::now();
}

// Never freed: threads may still run when the program ends.
State &state() {
    static State &s = []() -> State & {
        State &made = *new State;
        start_over(made);
        return made;
    }();
    return s;
}

cudaError_t failed(cudaError_t e) {
    if (e != cudaSuccess && e != cudaErrorNotReady) last_error = e;
    return e;
}

cudaError_t usable(State &s) {
    if (in_host_function) return cudaErrorNotPermitted;
    if (s.set.probe) return static_cast<cudaError_t>(s.set.probe);
    if (s.devices.empty()) return cudaErrorNoDevice;
    return s.devices[static_cast<size_t>(this_device)].broken;
}

Device &device_of(State &s, int device) {
    return s.devices[static_cast<size_t>(device)];
}

void moved(State &s) {
    s.moved = Clock::now();
    s.work.notify_one();
    if (s.waiting_hosts) s.changed.notify_all();
}

bool fault(State &s, emu_fault what) {
    uint64_t &left = s.set.fault[what];
    return left && --left == 0;
}

void report(State &s, const std::string &text) {
    fprintf(stderr, "emulation: %s\n", text.c_str());
    if (s.report.empty()) s.report = text;
}

void break_device(State &s, int device, cudaError_t e) {
    Device &d = device_of(s, device);
    if (d.broken == cudaSuccess) d.broken = e;
    for (CUstream_st *stream : s.streams) {
        if (stream->device != device) continue;
        for (Work &w : stream->queue) s.dropped.push_back(std::move(w));
        stream->queue.clear();
    }
    moved(s);
}

const Range *range_of(const State &s, const void *p, size_t bytes) {
    uintptr_t at = reinterpret_cast<uintptr_t>(p);
    auto next = s.memory.upper_bound(at);
    if (next == s.memory.begin()) return nullptr;
    --next;
    if (at > next->first + next->second.bytes || bytes > next->first + next->second.bytes - at) return nullptr;
    return &next->second;
}

bool loaded(State &s, int device, const std::string &what) {
    Device &d = device_of(s, device);
    if (!d.loaded.insert(what).second || d.transfers_in_flight == 0) return true;
    report(s, what + " is used for the first time while " + std::to_string(d.transfers_in_flight) +
                  " NCCL operations are in flight on device " + std::to_string(device) +
                  ": loading it waits for the device to drain, which may never happen; warm it up before");
    return false;
}

// ---- streams ----

CUstream_st *make_stream(State &s, unsigned flags, int priority) {
    CUstream_st *stream = new CUstream_st;
    stream->device = this_device;
    stream->flags = flags;
    stream->priority = priority;
    stream->number = s.streams_made++;
    s.streams.insert(stream);
    return stream;
}

CUstream_st *stream_of(State &s, cudaStream_t stream) {
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
        Device &d = device_of(s, this_device);
        if (!d.null_stream) d.null_stream = make_stream(s, 0, 0);
        return d.null_stream;
    }
    auto found = s.streams.find(stream);
    return found == s.streams.end() || (*found)->doomed ? nullptr : *found;
}

static void worker();

cudaError_t enqueue(State &s, cudaStream_t handle, Work work) {
    CUstream_st *stream = stream_of(s, handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (s.hung) return cudaErrorLaunchTimeout;
    if (device_of(s, stream->device).broken) return device_of(s, stream->device).broken;
    if (stream == device_of(s, stream->device).null_stream) s.counts.null_stream++;
    stream->queue.push_back(std::move(work));
    for (; s.workers < s.set.workers; s.workers++) std::thread(worker).detach();
    moved(s);
    return cudaSuccess;
}

// A stream whose front work can run: the first, or with a seed a random one. Ready work that has nothing to run ends here.
static CUstream_st *next_stream(State &s) {
    std::vector<CUstream_st *> ready;
    s.dropped.clear();
    for (bool again = true; again;) {
        again = false;
        ready.clear();
        for (auto at = s.streams.begin(); at != s.streams.end();) {
            CUstream_st *stream = *at;
            if (stream->doomed && stream->queue.empty() && !stream->running) {
                at = s.streams.erase(at);
                delete stream;
                continue;
            }
            ++at;
            while (!stream->running && !stream->queue.empty()) {
                Work &w = stream->queue.front();
                if (w.ready && !w.ready()) break;
                w.ready = nullptr;
                if (w.run) {
                    ready.push_back(stream);
                    break;
                }
                stream->queue.pop_front();
                s.moved = Clock::now();
                again = true;
            }
        }
        if (again && s.waiting_hosts) s.changed.notify_all();
    }
    if (ready.empty()) return nullptr;
    if (ready.size() > 1) s.work.notify_one();
    return ready[s.set.seed ? s.random() % ready.size() : 0];
}

static bool still(const State &s) {
    return !s.running && !s.hung && Clock::now() - s.moved >= std::chrono::milliseconds(s.set.hang_ms);
}

// Prints what every stream stands at, and ends what waits.
static void hang(State &s, const std::string &what) {
    std::string text = "hang: nothing moved for " + std::to_string(s.set.hang_ms) + " ms" + what;
    std::map<uint64_t, CUstream_st *> by_number;
    for (CUstream_st *stream : s.streams) by_number[stream->number] = stream;
    for (auto &[number, stream] : by_number) {
        if (stream->queue.empty()) continue;
        text += "\n  stream " + std::to_string(number) + " on device " + std::to_string(stream->device) + ": " +
                stream->queue[0].what;
        if (stream->queue.size() > 1) text += "; next " + stream->queue[1].what;
        text += ", " + std::to_string(stream->queue.size()) + " in all";
    }
    report(s, text);
    s.hung = true;
    for (size_t d = 0; d < s.devices.size(); d++) break_device(s, static_cast<int>(d), cudaErrorLaunchTimeout);
    s.changed.notify_all();
}

// Work waits, nothing runs, and nothing has moved for the time that was set.
static void look_for_hang(State &s) {
    bool waiting = false;
    for (CUstream_st *stream : s.streams) waiting |= !stream->queue.empty();
    if (waiting && still(s)) hang(s, "");
}

bool wait_for(State &s, Lock &l, const std::function<bool()> &done, const std::string &what) {
    s.waiting_hosts++;
    while (!done() && !s.hung) {
        s.changed.wait_for(l, std::chrono::milliseconds(std::max(10, std::min(50, s.set.hang_ms / 4))));
        if (!what.empty() && !done() && still(s)) hang(s, "; a host thread waits for " + what);
    }
    s.waiting_hosts--;
    return done();
}

static void worker() {
    State &s = state();
    Lock l(s.lock);
    while (!s.stopping) {
        CUstream_st *stream = next_stream(s);
        if (!stream) {
            int ms = std::max(10, std::min(1000, s.set.hang_ms / 4));
            if (s.work.wait_for(l, std::chrono::milliseconds(ms)) == std::cv_status::timeout) look_for_hang(s);
            continue;
        }
        std::function<void()> run = std::move(stream->queue.front().run);
        stream->running = true;
        s.running++;
        l.unlock();
        run();
        run = nullptr;
        l.lock();
        s.running--;
        stream->running = false;
        if (!stream->queue.empty()) stream->queue.pop_front(); // a broken device has dropped it already
        moved(s);
    }
    s.workers--;
    s.changed.notify_all();
}

} // namespace emu

// ---- what tests say and ask ----

using namespace emu;

static void stop_workers(State &s, Lock &l) {
    s.stopping = true;
    while (s.workers) {
        s.work.notify_all();
        s.changed.wait_for(l, std::chrono::milliseconds(5));
    }
    s.stopping = false;
}

void emu_reset(void) {
    State &s = state();
    Lock l(s.lock);
    wait_for(s, l, [&] {
        for (CUstream_st *stream : s.streams)
            if (stream->running || !stream->queue.empty()) return false;
        return true;
    });
    stop_workers(s, l);
    if (forget_communicators) forget_communicators();
    for (CUstream_st *stream : s.streams) delete stream;
    s.streams.clear();
    s.dropped.clear();
    for (auto &[at, range] : s.memory)
        if (range.owned) block_free(reinterpret_cast<void *>(at), range.bytes, range.mapped);
    s.memory.clear();
    s.shared_allowed.clear();
    for (CUevent_st *event : s.events) delete event;
    s.events.clear();
    s.streams_made = 0;
    start_over(s);
    this_device = 0;
    last_error = cudaSuccess;
}

void emu_set_devices(int count) {
    State &s = state();
    Lock l(s.lock);
    s.set.devices = count;
    find_devices(s);
}

#define SETTER(name, type, field)                                                                                      \
    void name(type value) {                                                                                            \
        State &s = state();                                                                                            \
        Lock l(s.lock);                                                                                                \
        s.set.field = value;                                                                                           \
    }
SETTER(emu_set_probe, int, probe)
SETTER(emu_set_capability, int, capability)
SETTER(emu_set_mode, int, mode)
SETTER(emu_set_peers, int, peers)
SETTER(emu_set_memory, size_t, memory)
SETTER(emu_set_hang_ms, int, hang_ms)
SETTER(emu_set_nccl_version, int, nccl_version)
SETTER(emu_set_cudnn_version, int, cudnn_version)
#undef SETTER

void emu_set_driver(int version) {
    State &s = state();
    Lock l(s.lock);
    s.set.driver = version;
    s.set.probe = version && version < CUDART_VERSION ? cudaErrorInsufficientDriver : 0;
}

void emu_set_order(emu_order order) {
    State &s = state();
    Lock l(s.lock);
    s.set.order = order == EMU_GREEDY ? Order::greedy : order == EMU_REVERSE ? Order::reverse : Order::ring;
}

void emu_set_seed(uint64_t seed) {
    State &s = state();
    Lock l(s.lock);
    s.set.seed = seed;
    s.random.seed(seed);
}

void emu_fail(emu_fault what, uint64_t nth) {
    State &s = state();
    Lock l(s.lock);
    s.set.fault[what] = nth;
}

void emu_count_from_here(void) {
    State &s = state();
    Lock l(s.lock);
    s.counts = {};
}

emu_counts emu_counted(void) {
    State &s = state();
    Lock l(s.lock);
    return s.counts;
}

emu_open emu_still_open(void) {
    State &s = state();
    Lock l(s.lock);
    emu_open open = {0, 0, s.events.size(), s.communicators};
    for (auto &[at, range] : s.memory) open.allocations += range.owned;
    for (CUstream_st *stream : s.streams)
        open.streams += !stream->doomed && stream != device_of(s, stream->device).null_stream;
    return open;
}

size_t emu_memory_peak(int device) {
    State &s = state();
    Lock l(s.lock);
    return device >= 0 && device < static_cast<int>(s.devices.size()) ? device_of(s, device).peak : 0;
}

// The text stays as it is until emu_reset: only the first report is kept.
const char *emu_report(void) {
    State &s = state();
    Lock l(s.lock);
    return s.report.c_str();
}
