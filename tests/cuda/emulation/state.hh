// state.hh - what the emulated libraries share: devices, streams with their queues, the threads that run them, faults,
// counts. Before it: the cuda*, cublasLt* and nccl* calls; after it: kernels, copies, transfers. One lock for everything.
#ifndef EMULATION_STATE_HH
#define EMULATION_STATE_HH
#include "emulation/emulation.h"
#include "emulation/fiber.hh"
#include <driver_types.h>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

namespace emu {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// One entry of a stream. Both functions may be empty.
struct Work {
    std::string what;
    std::function<bool()> ready; // called under the lock until it says true; may begin something that others see
    std::function<void()> run;   // called without the lock
};

// One record of an event: those who wait for it do not look at later ones.
struct Moment {
    bool passed = false;
    Clock::time_point at;
};

struct Event {
    bool timing;
    int device;
    std::shared_ptr<Moment> newest; // null: never recorded
};

struct Range {
    size_t bytes;
    int device;  // -1: pinned host memory
    bool owned;  // allocated here, not registered
    bool mapped; // as block.cc has it
};

void *block_get(size_t bytes, bool *mapped);
void block_free(void *p, size_t bytes, bool mapped);

struct Device {
    int physical = 0; // its number on this host
    size_t in_use = 0, peak = 0;
    cudaError_t broken = cudaSuccess; // every call says so from then on
    std::set<std::string> loaded;     // kernels and products that ran before
    std::set<int> peers;              // that it may read and write
    uint64_t transfers_in_flight = 0;
    uint64_t transfers_issued = 0;
    std::set<uint64_t> unbegun; // transfers that have not begun, by issue: NCCL's launch order
    CUstream_st *null_stream = nullptr;
};

constexpr int least_capability = 80; // what kernels are compiled for, as 10 times major and minor

struct Settings {
    int devices = 4;
    int probe = 0, driver = 0, capability = 90, mode = 0, peers = 1;
    size_t memory = size_t(1) << 30;
    Order order = Order::ring;
    uint64_t seed = 0;
    int workers = 2;
    int hang_ms = 20000;
    int nccl_version = 0, cudnn_version = 0; // 0: that of the header
    std::string host;
    uint64_t fault[EMU_FAULT_KINDS] = {}; // calls to go until one fails; 0: none
};

struct State {
    std::mutex lock;
    std::condition_variable work, changed; // something may be ready to run; something ended
    Settings set;
    std::vector<Device> devices;
    std::set<CUstream_st *> streams;
    std::vector<Work> dropped;         // by broken devices; freed when none of it can be under way
    std::map<uintptr_t, Range> memory; // by first address
    std::map<const void *, size_t> shared_allowed;
    emu_counts counts = {};
    std::set<CUevent_st *> events;
    uint64_t communicators = 0;
    uint64_t streams_made = 0;
    int running = 0, waiting_hosts = 0, workers = 0;
    bool stopping = false, hung = false;
    Clock::time_point moved; // when something last did
    std::mt19937_64 random;
    std::string report;
};

State &state();

// The device of the calling thread, and its last error.
extern __thread int this_device;
extern __thread cudaError_t last_error;
// Runs a host function for a stream: no CUDA call is allowed.
extern __thread bool in_host_function;

// Notes an error for cudaGetLastError and gives it back.
cudaError_t failed(cudaError_t e);
// What every call begins with: the probe's error, a broken device. Under the lock.
cudaError_t usable(State &s);
Device &device_of(State &s, int device);

// The stream behind a handle; null where it is none of this process. 0 is the current device's null stream.
CUstream_st *stream_of(State &s, cudaStream_t stream);
CUstream_st *make_stream(State &s, unsigned flags, int priority);
// Puts work at the end of a stream. Under the lock.
cudaError_t enqueue(State &s, cudaStream_t stream, Work work);
// Waits, as a host thread, until `done` says true under the lock; false where a hang ended the waiting. With `what`, what
// is waited for is not in a stream, and nothing moving for too long is a hang by itself.
bool wait_for(State &s, Lock &l, const std::function<bool()> &done, const std::string &what = "");
void moved(State &s);

// Counts down; true when this call is the one that is to fail. Under the lock.
bool fault(State &s, emu_fault what);
// A kernel's fault or a hang: keeps the first, prints it.
void report(State &s, const std::string &text);
// From now on every call on the device says e, and its streams drop their work.
void break_device(State &s, int device, cudaError_t e);

// The range that holds [p, p + bytes); null where there is none. Under the lock.
const Range *range_of(const State &s, const void *p, size_t bytes);

// Kernels and products are loaded when first used, and loading waits for the device to drain: with a transfer in flight,
// whose peer may wait for what is behind it, that is a deadlock. False, with a report, where it is.
bool loaded(State &s, int device, const std::string &what);

// Called by emu_reset: forgets communicators.
extern void (*forget_communicators)();

} // namespace emu

struct CUstream_st {
    int device;
    unsigned flags;
    int priority;
    uint64_t number; // as made
    bool running = false, doomed = false;
    std::deque<emu::Work> queue; // the front one stays until it has run
};

struct CUevent_st {
    emu::Event event;
};
#endif
