// nccl.cc - NCCL's calls: communicators made and split without blocking where asked, groups, sends, receives, collectives,
// abort, and the state that a program polls. Before it: the program; after it: comm.cc and transfer.cc.
#include "emulation/transfer.hh"
#include <atomic>
#include <cstdio>

using namespace emu;

namespace {

// What a thread has called since ncclGroupStart.
struct Group {
    int depth = 0;
    std::vector<std::shared_ptr<Batch>> batches;
    std::vector<CommPtr> made;
    ncclResult_t error = ncclSuccess;
};
thread_local Group group;
thread_local std::string last_text = "";

ncclResult_t say(ncclResult_t e, const std::string &text) {
    last_text = text;
    return e;
}

// A communicator that can be used now.
ncclResult_t usable_comm(State &s, ncclComm_t handle, CommPtr *c) {
    *c = comm_of(s, handle);
    if (!*c || (*c)->aborted) return say(ncclInvalidArgument, "no such communicator");
    if ((*c)->status == ncclInProgress)
        return say(ncclInvalidArgument,
                   "Attempt to use communicator before the previous operation returned ncclSuccess");
    if ((*c)->status != ncclSuccess) return say((*c)->status, (*c)->text);
    return ncclSuccess;
}

// Waits for communicators that are to be ready when the call returns.
ncclResult_t finish_made(State &s, Lock &l, const std::vector<CommPtr> &made) {
    ncclResult_t result = ncclSuccess;
    for (const CommPtr &c : made) {
        if (c->blocking) {
            s.counts.host_waits++;
            wait_for(
                s, l, [&] { return c->status != ncclInProgress; },
                "the other ranks of a communicator of " + std::to_string(c->size));
        }
        ncclResult_t e = c->status;
        if (c->blocking && e == ncclInProgress) e = ncclInternalError; // a hang
        if (!c->blocking && e == ncclSuccess) e = ncclInProgress;      // found out by polling
        if (e != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = say(e, c->text);
    }
    return result;
}

ncclResult_t read_config(const ncclConfig_t *config, Comm &c) {
    if (!config) return ncclSuccess;
    if (config->magic != 0xcafebeef) return say(ncclInvalidArgument, "ncclConfig_t is not initialized");
    if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
        return say(ncclInvalidArgument, "config.blocking is neither 0 nor 1");
    if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && (config->maxCTAs < 1 || config->maxCTAs > 64))
        return say(ncclInvalidArgument, "config.maxCTAs is not in 1..64");
    if (config->splitShare != NCCL_CONFIG_UNDEF_INT && config->splitShare != 0)
        return say(ncclInvalidUsage, "the emulation shares nothing between split communicators");
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) c.blocking = config->blocking;
    return ncclSuccess;
}

// Joins the ranks that gather; waits here, or at the end of the group, or not at all.
ncclResult_t make(State &s, Lock &l, ncclComm_t *handle, const CommPtr &c, const Joining &j) {
    *handle = new_handle(s, c);
    join(s, c, j);
    if (group.depth) {
        group.made.push_back(c);
        return c->blocking ? ncclSuccess : ncclInProgress;
    }
    return finish_made(s, l, {c});
}

void plant(State &s, Batch &b) {
    Comm &c = *b.comm;
    if (fault(s, EMU_FAULT_NCCL_ASYNC)) {
        b.stuck = true;
        fail_comm(s, c, ncclSystemError, "a planted asynchronous error");
    }
    if (fault(s, EMU_FAULT_PEER)) {
        b.stuck = true;
        for (Comm *other : c.world->comms)
            if (other != &c) fail_comm(s, *other, ncclRemoteError, "rank " + std::to_string(c.rank) + " is lost");
        tell_members(s, c, LetterKind::lost);
    }
    b.failed = fault(s, EMU_FAULT_NCCL);
}

// One batch: connected, it goes into its stream; otherwise a blocking communicator waits for the other side, and one that
// does not block says so, and has it in the stream when polling finds it connected.
ncclResult_t launch(State &s, Lock &l, const std::shared_ptr<Batch> &b) {
    Comm &c = *b->comm;
    if (c.unconnected) return say(ncclInvalidArgument, "the operation before has not returned ncclSuccess");
    if (b->failed) return say(ncclInternalError, "a planted error");
    if (!b->stuck && !connect(s, *b)) {
        if (!c.blocking) {
            c.unconnected = b;
            c.status = ncclInProgress;
            return ncclInProgress;
        }
        s.counts.host_waits++;
        if (!wait_for(
                s, l, [&] { return c.aborted || connect(s, *b); }, "the other side of " + describe(*b)))
            return say(ncclInternalError, "hang");
    }
    if (c.aborted) return ncclSuccess;
    return enqueue_batch(s, b) ? say(ncclUnhandledCudaError, "the stream does not take work") : ncclSuccess;
}

ncclResult_t launch_group(State &s, Lock &l) {
    Group g = std::move(group);
    group = Group();
    if (g.error != ncclSuccess) return g.error;
    ncclResult_t result = finish_made(s, l, g.made);
    for (const auto &b : g.batches) { // all lanes are asked for before any is waited for
        plant(s, *b);
        if (!b->stuck && !b->failed) connect(s, *b);
    }
    for (const auto &b : g.batches) {
        ncclResult_t e = launch(s, l, b);
        if (e != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = e;
    }
    return result;
}

bool on_device(const State &s, const void *p, size_t bytes, int device) {
    const Range *range = range_of(s, p, bytes);
    return range && range->device == device;
}

ncclResult_t check_call(State &s, const Comm &c, const Call &call, cudaStream_t stream) {
    bool alone = call.kind == CallKind::send || call.kind == CallKind::receive;
    if (!size_of(call.type)) return say(ncclInvalidArgument, "the emulation does not have this data type");
    if (call.kind != CallKind::all_reduce && (call.peer < 0 || call.peer >= c.size))
        return say(ncclInvalidArgument, "rank " + std::to_string(call.peer) + " of " + std::to_string(c.size));
    if (call.kind == CallKind::all_reduce && call.reduction > ncclMin)
        return say(ncclInvalidArgument, "the emulation does not have this reduction");
    size_t bytes = call.count * size_of(call.type);
    bool reads = call.kind == CallKind::send || call.kind == CallKind::all_reduce ||
                 (call.kind == CallKind::broadcast && call.peer == c.rank);
    if ((reads && !on_device(s, call.from, bytes, c.device)) ||
        ((!alone || call.kind == CallKind::receive) && !on_device(s, call.to, bytes, c.device)))
        return say(ncclInvalidArgument, "a buffer is not memory of device " + std::to_string(c.device));
    CUstream_st *into = stream_of(s, stream);
    if (!into || into->device != c.device) return say(ncclInvalidArgument, "a stream of another device");
    return ncclSuccess;
}

ncclResult_t call(const Call &what, ncclComm_t handle, cudaStream_t stream) {
    State &s = state();
    Lock l(s.lock);
    CommPtr c;
    ncclResult_t e = usable_comm(s, handle, &c);
    if (e == ncclSuccess) e = check_call(s, *c, what, stream);
    std::shared_ptr<Batch> batch;
    for (const auto &b : group.batches)
        if (b->comm == c) batch = b;
    if (e == ncclSuccess && batch && batch->stream != stream)
        e = say(ncclInvalidUsage, "the emulation wants one stream for a communicator's calls in a group");
    if (e != ncclSuccess) {
        if (group.depth && group.error == ncclSuccess) group.error = e;
        return e;
    }
    if (!batch) {
        batch = std::make_shared<Batch>();
        batch->comm = c;
        batch->stream = stream;
        group.batches.push_back(batch);
    }
    batch->calls.push_back(what);
    return group.depth ? ncclSuccess : launch_group(s, l);
}

// After ncclCommFinalize or before ncclCommDestroy: nothing is under way any more.
bool quiet(State &s, const Comm &c) {
    bool failed_for_good = c.status != ncclSuccess && c.status != ncclInProgress;
    return c.issued == c.finished || c.aborted || failed_for_good || device_of(s, c.device).broken;
}

} // namespace

ncclResult_t ncclGetVersion(int *version) {
    State &s = state();
    Lock l(s.lock);
    *version = s.set.nccl_version ? s.set.nccl_version : NCCL_VERSION_CODE;
    return ncclSuccess;
}

// Works without a GPU.
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static std::atomic<unsigned> made{0};
    State &s = state();
    Lock l(s.lock);
    std::string root = own_address(s);
    memset(id, 0, sizeof *id);
    int n = snprintf(id->internal, sizeof id->internal, "%u:%s", made++, root.c_str());
    if (root.empty() || n >= static_cast<int>(sizeof id->internal))
        return say(ncclSystemError, "no socket can be made");
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *handle, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
    State &s = state();
    Lock l(s.lock);
    *handle = nullptr;
    if (usable(s)) return say(ncclUnhandledCudaError, "no device can be used");
    std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
    size_t colon = name.find(':');
    if (size < 1 || rank < 0 || rank >= size || colon == std::string::npos)
        return say(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size));
    CommPtr c = std::make_shared<Comm>();
    c->device = this_device;
    if (ncclResult_t e = read_config(config, *c)) return e;
    return make(s, l, handle, c, {name, name.substr(colon + 1), rank, size, false, 0, 0});
}

ncclResult_t ncclCommInitRank(ncclComm_t *handle, int size, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(handle, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *handle, ncclConfig_t *config) {
    State &s = state();
    Lock l(s.lock);
    CommPtr from;
    *handle = nullptr;
    if (ncclResult_t e = usable_comm(s, parent, &from)) return e;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return say(ncclInvalidArgument, "color is negative");
    CommPtr c = std::make_shared<Comm>();
    c->device = from->device;
    c->blocking = from->blocking;
    if (ncclResult_t e = read_config(config, *c)) return e;
    Joining j = {from->world->name + "/" + std::to_string(from->splits++),
                 from->world->root,
                 from->rank,
                 from->size,
                 true,
                 color,
                 key};
    if (color != NCCL_SPLIT_NOCOLOR) return make(s, l, handle, c, j);
    c->aborted = true; // takes part, and gets nothing
    join(s, c, j);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    if (!group.depth) return say(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth) return ncclSuccess;
    State &s = state();
    Lock l(s.lock);
    return launch_group(s, l);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return call({CallKind::send, from, nullptr, count, type, peer, ncclSum}, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
    return call({CallKind::receive, nullptr, to, count, type, peer, ncclSum}, comm, stream);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream) {
    return call({CallKind::all_reduce, from, to, count, type, 0, reduction}, comm, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
    return call({CallKind::broadcast, from, to, count, type, root, ncclSum}, comm, stream);
}

// Polling also moves on what waits for its connection.
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *status) {
    State &s = state();
    Lock l(s.lock);
    CommPtr c = comm_of(s, handle);
    if (!c) return say(ncclInvalidArgument, "no such communicator");
    if (c->unconnected && c->status == ncclInProgress && connect(s, *c->unconnected)) {
        std::shared_ptr<Batch> b = std::move(c->unconnected);
        c->unconnected = nullptr;
        c->status = ncclSuccess;
        if (enqueue_batch(s, b)) fail_comm(s, *c, ncclUnhandledCudaError, "the stream does not take work");
    }
    *status = c->status;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
    State &s = state();
    Lock l(s.lock);
    CommPtr c;
    if (ncclResult_t e = usable_comm(s, handle, &c)) return e;
    if (!c->blocking) return quiet(s, *c) ? ncclSuccess : ncclInProgress;
    s.counts.host_waits++;
    return wait_for(s, l, [&] { return quiet(s, *c); }) ? ncclSuccess : say(ncclInternalError, "hang");
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
    {
        State &s = state();
        Lock l(s.lock);
        CommPtr c = comm_of(s, handle);
        if (!c) return say(ncclInvalidArgument, "no such communicator");
        s.counts.host_waits++;
        wait_for(s, l, [&] { return quiet(s, *c); });
        c->aborted = true;
        if (c->world) tell_members(s, *c, LetterKind::left);
        leave(s, *c);
        drop_handle(s, handle);
        moved(s);
    }
    flush_letters();
    return ncclSuccess;
}

// Drops what the rank has under way; the others learn nothing, as on a GPU, until they look at their own clocks.
ncclResult_t ncclCommAbort(ncclComm_t handle) {
    State &s = state();
    Lock l(s.lock);
    CommPtr c = comm_of(s, handle);
    if (!c) return say(ncclInvalidArgument, "no such communicator");
    c->aborted = true;
    c->unconnected = nullptr;
    leave(s, *c);
    drop_handle(s, handle);
    moved(s);
    return ncclSuccess;
}

#define GETTER(name, field)                                                                                            \
    ncclResult_t name(const ncclComm_t handle, int *value) {                                                           \
        State &s = state();                                                                                            \
        Lock l(s.lock);                                                                                                \
        CommPtr c;                                                                                                     \
        if (ncclResult_t e = usable_comm(s, handle, &c)) return e;                                                     \
        *value = c->field;                                                                                             \
        return ncclSuccess;                                                                                            \
    }
GETTER(ncclCommCount, size)
GETTER(ncclCommCuDevice, device)
GETTER(ncclCommUserRank, rank)
#undef GETTER

const char *ncclGetErrorString(ncclResult_t e) {
    switch (e) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclNumResults: break;
    }
    return "unknown result code";
}

// The text of the communicator's error, or of this thread's last one.
const char *ncclGetLastError(ncclComm_t handle) {
    static thread_local std::string text;
    State &s = state();
    Lock l(s.lock);
    CommPtr c = comm_of(s, handle);
    text = c && !c->text.empty() ? c->text : last_text;
    return text.c_str();
}
