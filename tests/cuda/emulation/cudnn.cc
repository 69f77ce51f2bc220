// cudnn.cc - cuDNN's backend calls: descriptors, the heuristics' proposals, plans, and plans put into streams. Strict about
// what the library's documentation asks for; what is wrong stands in cudnnGetLastErrorString. Before it: the program; after
// it: cudnn_rules.cc, operations.cc.
//
// A forward has one engine. A backward that keeps ds has two: the first proposal says of itself that its bits are uncertain,
// and it means it; one that sums dq in memory of the graph is uncertain and does not say so.
#include "emulation/cudnn.hh"
#include "emulation/state.hh"
#include <cstring>

using namespace emu;

struct cudnnContext {
    int device;
    cudaStream_t stream = nullptr;
};

namespace {

enum { FORWARD = 2, BACKWARD = 6, UNCERTAIN = 8 }; // engines' numbers

__thread char last_words[256];
std::mutex alive_lock;
std::map<void *, Shared> alive; // descriptors by handle

cudnnStatus_t say(cudnnStatus_t status, const std::string &why) {
    snprintf(last_words, sizeof last_words, "%s", status ? why.c_str() : "");
    return status;
}

Shared find(void *handle) {
    std::lock_guard<std::mutex> l(alive_lock);
    auto it = alive.find(handle);
    return it == alive.end() ? nullptr : it->second;
}

void *made(Shared d) {
    std::lock_guard<std::mutex> l(alive_lock);
    void *handle = d.get();
    alive[handle] = std::move(d);
    return handle;
}

// The graph behind heuristics, a configuration or a plan.
const Descriptor &graph_behind(const Descriptor &d) {
    switch (static_cast<int>(d.type)) {
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return graph_behind(*d.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return graph_behind(*d.link(CUDNN_ATTR_ENGINECFG_ENGINE));
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return *d.link(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    default: return *d.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    }
}

int64_t engine_behind(const Descriptor &plan) {
    const Descriptor &configuration = *plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    return configuration.link(CUDNN_ATTR_ENGINECFG_ENGINE)->get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

// As the library has it on Hopper: a backward without memory for dq's sums keeps ds, in tiles of 64 x 128.
int64_t workspace_of(const Graph &g) {
    if (!g.backward) return 256;
    int64_t rows = (g.time + 63) / 64 * 64, columns = (g.time + 127) / 128 * 128;
    return 256 + (g.any_order ? 0 : g.batch * g.heads * rows * columns * 2);
}

template <class T>
void put(Descriptor &d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    Attribute a = {type, 1, std::vector<char>(sizeof value), {}};
    memcpy(a.bytes.data(), &value, sizeof value);
    d.attributes[name] = a;
}

void put_link(Descriptor &d, cudnnBackendAttributeName_t name, const Shared &to) {
    put(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, to.get());
    d.attributes[name].descriptors = {to};
}

// Fills in a configuration that the caller made.
void propose(const Shared &graph, int64_t number, Descriptor &configuration) {
    Shared engine = std::make_shared<Descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    put(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, number);
    put_link(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    engine->finalized = true;
    put_link(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    configuration.finalized = true;
}

// ---- what can be asked for

cudnnStatus_t results_get(const Descriptor &d, int64_t room, int64_t *count, void *out) {
    Graph g;
    std::string why;
    const Shared &graph = d.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    *count = 0;
    if (!graph_of(*graph, g, why)) return say(CUDNN_STATUS_SUCCESS, "");
    std::vector<int64_t> engines = {g.backward ? BACKWARD : FORWARD};
    if (g.backward && !g.any_order) engines.insert(engines.begin(), UNCERTAIN);
    if (g.backward && g.any_order) engines = {UNCERTAIN};
    for (int64_t i = 0; i < room && i < static_cast<int64_t>(engines.size()); i++) {
        Shared configuration = find(static_cast<void **>(out)[i]);
        if (!configuration || configuration->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || configuration->finalized)
            return say(CUDNN_STATUS_BAD_PARAM, "results go into fresh engine configurations");
        propose(graph, engines[static_cast<size_t>(i)], *configuration);
        ++*count;
    }
    return say(CUDNN_STATUS_SUCCESS, "");
}

cudnnStatus_t engine_get(const Descriptor &d, int64_t room, int64_t *count, void *out) {
    Shared into = room > 0 ? find(*static_cast<void **>(out)) : nullptr;
    if (!into || into->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR || into->finalized)
        return say(CUDNN_STATUS_BAD_PARAM, "an engine goes into a fresh engine descriptor");
    *into = *d.link(CUDNN_ATTR_ENGINECFG_ENGINE);
    *count = 1;
    return say(CUDNN_STATUS_SUCCESS, "");
}

cudnnStatus_t notes_get(const Descriptor &d, int64_t room, int64_t *count, void *out) {
    Graph g;
    std::string why;
    bool says = graph_of(graph_behind(d), g, why) && !g.any_order &&
                d.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == UNCERTAIN;
    const cudnnBackendNumericalNote_t notes[] = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                                 CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    *count = says ? 2 : 1;
    memcpy(out, notes, static_cast<size_t>(std::min(room, *count)) * sizeof *notes);
    return say(CUDNN_STATUS_SUCCESS, "");
}

// ---- running

struct Addresses {
    std::map<int64_t, void *> device;
    std::map<int64_t, float> value; // read now: the host may change it when the call has returned
};

// A pointer for each tensor that wants one: on this device, as long as it has to be, aligned; or of the host.
bool addresses_read(const State &s, const Graph &g, const Descriptor &pack, Addresses &to, std::string &why) {
    int64_t count = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
    for (int64_t i = 0; i < count; i++) {
        int64_t number = pack.get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i);
        void *p = pack.get<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
        std::string what = "tensor " + std::to_string(number);
        auto it = g.bound.find(number);
        if (it == g.bound.end()) return why = what + " is not in the graph", false;
        const Tensor &t = it->second;
        if (t.by_value) {
            if (!p || range_of(s, p, 1)) return why = what + " is a value of the host", false;
            memcpy(&to.value[number], p, sizeof(float));
            continue;
        }
        const Range *range = range_of(s, p, t.bytes());
        if (!range || range->device != this_device) return why = what + " is not on the device as a whole", false;
        if (reinterpret_cast<uintptr_t>(p) % static_cast<uint64_t>(t.alignment))
            return why = what + " is not aligned", false;
        to.device[number] = p;
    }
    if (to.device.size() + to.value.size() != g.bound.size()) return why = "a tensor has no address", false;
    return true;
}

bool workspace_read(const State &s, const Descriptor &pack, int64_t bytes, void **out, std::string &why) {
    *out = nullptr;
    if (pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)) *out = pack.get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const Range *range = range_of(s, *out, static_cast<size_t>(bytes));
    if (range && range->device == this_device && reinterpret_cast<uintptr_t>(*out) % 16 == 0) return true;
    return why = "the workspace is not on the device as a whole, or not aligned", false;
}

} // namespace

// ---- the calls

size_t cudnnGetVersion(void) {
    State &s = state();
    Lock l(s.lock);
    return s.set.cudnn_version ? static_cast<size_t>(s.set.cudnn_version) : CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (static_cast<int>(status)) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_UNKNOWN";
    }
}

// The words are given once.
void cudnnGetLastErrorString(char *message, size_t room) {
    snprintf(message, room, "%s", last_words);
    last_words[0] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    State &s = state();
    Lock l(s.lock);
    if (usable(s)) return say(CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
    *handle = new cudnnContext{this_device};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    State &s = state();
    Lock l(s.lock);
    CUstream_st *into = stream_of(s, stream);
    if (!handle || !into || into->device != handle->device)
        return say(CUDNN_STATUS_BAD_PARAM, "a stream of another device");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
    Shared d = std::make_shared<Descriptor>();
    d->type = type;
    *out = made(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
    std::lock_guard<std::mutex> l(alive_lock);
    return alive.erase(handle) ? CUDNN_STATUS_SUCCESS : say(CUDNN_STATUS_BAD_PARAM, "no descriptor, or destroyed");
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *from) {
    Shared d = find(handle);
    std::string why;
    if (!d || !from || d->finalized) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor to be set, or finalized");
    Attribute a = {type, count, {}, {}};
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++) {
        Shared value = find(static_cast<void *const *>(from)[i]);
        if (!value) return say(CUDNN_STATUS_BAD_PARAM, "an attribute holds no descriptor");
        a.descriptors.push_back(value);
    }
    if (cudnnStatus_t e = may_set(*d, name, type, count, a.descriptors, why)) return say(e, why);
    a.bytes.resize(static_cast<size_t>(count) * size_of(type));
    memcpy(a.bytes.data(), from, a.bytes.size());
    d->attributes[name] = std::move(a);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
    Shared d = find(handle);
    std::string why;
    Graph g;
    if (!d || d->finalized) return say(CUDNN_STATUS_BAD_PARAM, "no descriptor, or finalized already");
    if (cudnnStatus_t e = may_finalize(*d, why)) return say(e, why);
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && !graph_of(graph_behind(*d), g, why))
        return say(CUDNN_STATUS_NOT_SUPPORTED, why);
    d->finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *out) {
    Shared d = find(handle);
    Graph g;
    std::string why;
    (void)type;
    if (!d || !d->finalized || !count || !out)
        return say(CUDNN_STATUS_NOT_INITIALIZED, "nothing finalized to be asked");
    switch (static_cast<int>(name)) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return results_get(*d, room, count, out);
    case CUDNN_ATTR_ENGINECFG_ENGINE: return engine_get(*d, room, count, out);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return notes_get(*d, room, count, out);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: {
        int64_t number = d->get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
        memcpy(out, &number, sizeof number);
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: {
        graph_of(graph_behind(*d), g, why);
        int64_t bytes = workspace_of(g);
        memcpy(out, &bytes, sizeof bytes);
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    default: return say(CUDNN_STATUS_BAD_PARAM, "an attribute that the emulation does not give");
    }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    Shared p = find(plan), v = find(pack);
    if (!handle || !p || !v || p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !p->finalized ||
        v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !v->finalized)
        return say(CUDNN_STATUS_BAD_PARAM, "want a handle, a plan and a variant pack, finalized");
    if (!p->has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) || p->get<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle)
        return say(CUDNN_STATUS_BAD_PARAM, "the plan is of another handle");
    auto g = std::make_shared<Graph>();
    Addresses to;
    std::string why;
    void *workspace;
    graph_of(graph_behind(*p), *g, why);

    State &s = state();
    Lock l(s.lock);
    if (usable(s)) return say(CUDNN_STATUS_EXECUTION_FAILED, "the device is broken");
    if (handle->device != this_device) return say(CUDNN_STATUS_BAD_PARAM, "the handle is of another device");
    if (!addresses_read(s, *g, *v, to, why) || !workspace_read(s, *v, workspace_of(*g), &workspace, why))
        return say(CUDNN_STATUS_BAD_PARAM, why);
    if (fault(s, EMU_FAULT_ATTENTION)) return say(CUDNN_STATUS_EXECUTION_FAILED, "a fault that was planted");
    std::string name = "attention " + std::to_string(engine_behind(*p)) + " of " + std::to_string(g->heads) + " x " +
                       std::to_string(g->time) + " x " + std::to_string(g->size);
    if (!loaded(s, this_device, name)) {
        break_device(s, this_device, cudaErrorLaunchTimeout);
        return say(CUDNN_STATUS_EXECUTION_FAILED, "loading while transfers are in flight");
    }
    uint64_t seed = engine_behind(*p) == UNCERTAIN ? ++s.counts.attentions : (++s.counts.attentions, 0);
    size_t bytes = static_cast<size_t>(workspace_of(*g));
    Work w = {name, nullptr, [g, to, seed, workspace, bytes] {
                  memset(workspace, 0xff, bytes); // NaN, as far as it may be written
                  compute(*g, to.device, to.value, seed);
              }};
    return enqueue(s, handle->stream, std::move(w)) ? say(CUDNN_STATUS_EXECUTION_FAILED, "not put into the stream")
                                                    : CUDNN_STATUS_SUCCESS;
}
