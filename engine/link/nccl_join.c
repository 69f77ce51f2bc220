// nccl_join.c - how the GPUs of a plan find one another: units, one communicator of all, and by splitting it one of two for
// each crossing; then a value over each, so that nothing is connected within a step. Before: nccl.c opens. After: NCCL.
//
// Splitting is collective over all units. Crossings that share no unit are split off at once: the rounds are the colours of
// an edge colouring (greedy, at most twice the crossings of the busiest unit), the same in every process, so that few calls
// make all communicators whatever the number of ranks. All calls come from one thread for all units of the process, in groups,
// and none of them waits inside of NCCL: progress is looked for until a deadline.
#include "link/nccl.h"
#include "base/clock.h"
#include "device/cuda/errors.h"
#include "world/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

ppl_status ppl_nccl_fail(ncclComm_t comm, ncclResult_t result, const char *what) {
    const char *more = ncclGetLastError(comm);
    return ppl_fail(PPL_ERR_DEVICE, "nccl: %s: %s%s%s", what, ncclGetErrorString(result), more && *more ? ": " : "",
                    more ? more : "");
}

static bool went(ncclResult_t result) { // a call that does not wait may still be at it
    return result == ncclSuccess || result == ncclInProgress;
}

static ppl_status look(const ppl_nccl *l, ncclComm_t comm, const char *what, int64_t deadline, ncclResult_t *state) {
    ncclResult_t asked = ncclCommGetAsyncError(comm, state);
    if (asked != ncclSuccess) return ppl_nccl_fail(comm, asked, what);
    if (*state == ncclSuccess) return PPL_OK;
    if (*state != ncclInProgress) return ppl_nccl_fail(comm, *state, what);
    if (l->options.stop && atomic_load(l->options.stop)) return PPL_ERR_STOPPED;
    if (l->options.world) PPL_TRY(ppl_world_poll(l->options.world));
    if (l->told != PPL_OK) return ppl_fail_text(l->told, l->told_text);
    if (ppl_now() > deadline)
        return ppl_fail(PPL_ERR_STALL,
                        "nccl: %s: other ranks did not come within %.3g s, want all processes to start together and to "
                        "reach each other (NCCL_DEBUG=INFO tells more)",
                        what, l->options.seconds);
    return PPL_OK;
}

static int64_t deadline_of(const ppl_nccl *l) {
    return ppl_now() + (int64_t)(l->options.seconds * 1e9);
}

static ppl_status await(const ppl_nccl *l, ncclComm_t comm, const char *what, int64_t deadline) {
    for (ncclResult_t state = ncclInProgress;;) {
        PPL_TRY(look(l, comm, what, deadline, &state));
        if (state == ncclSuccess) return PPL_OK;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PPL_NCCL_POLL_NS}, NULL);
    }
}

ppl_status ppl_nccl_settle(const ppl_nccl *l, ncclComm_t comm, ncclResult_t result, const char *what) {
    if (result == ncclSuccess) return PPL_OK;
    return result == ncclInProgress ? await(l, comm, what, deadline_of(l)) : ppl_nccl_fail(comm, result, what);
}

// ---- units ----

static bool is_here(const ppl_nccl *l, int32_t process) {
    return process == ppl_world_process_of(l->options.world);
}

// "node3 0000:1b:00.0"
static ppl_status unit_name(const ppl_device_room *room, char *text, size_t n) {
    char host[64] = "";
    if (gethostname(host, sizeof host - 1)) host[0] = 0;
    snprintf(text, n, "%s %s", host, room->name);
    return PPL_OK;
}

static int32_t unit_add(ppl_nccl *l, const ppl_nccl_unit *u) {
    for (int32_t i = 0; i < l->n_units; i++)
        if (l->unit[i].process == u->process && l->unit[i].ordinal == u->ordinal) return i;
    l->unit[l->n_units] = *u;
    return l->n_units++;
}

static ppl_status check_apart(const ppl_nccl *l) {
    for (int32_t i = 0; i < l->n_units; i++)
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(l->unit[i].name, l->unit[k].name))
                return ppl_fail(PPL_ERR_DEVICE,
                                "nccl: processes %d and %d both use GPU %s (ranks %d and %d), want a GPU for each "
                                "process: fewer processes on this host, or all its ranks in one",
                                l->unit[k].process, l->unit[i].process, l->unit[i].name, l->unit[k].rank,
                                l->unit[i].rank);
    return PPL_OK;
}

ppl_status ppl_nccl_units(ppl_nccl *l) {
    size_t ranks = (size_t)l->plan->ranks;
    l->unit = ppl_arena_get(&l->arena, ranks * sizeof *l->unit);
    l->unit_of = ppl_arena_get(&l->arena, ranks * sizeof *l->unit_of);
    if (!l->unit || !l->unit_of) return PPL_ERR_MEMORY;
    for (int32_t r = 0; r < l->plan->ranks; r++) {
        ppl_nccl_unit u = {.process = ppl_plan_process(l->plan, r), .rank = r};
        if (is_here(l, u.process)) {
            ppl_device_room room;
            PPL_TRY(l->options.device->room(l->options.devices[r], &room));
            PPL_TRY(unit_name(&room, u.name, sizeof u.name));
            u.ordinal = room.unit;
        }
        PPL_TRY(ppl_world_share(l->options.world, u.process, &u, sizeof u));
        l->unit_of[r] = unit_add(l, &u);
    }
    return check_apart(l);
}

// ---- communicators ----

static ppl_status check_surroundings(void) {
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING"), *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    PPL_TRY(ppl_nccl_version_check());
    if (blocking && !strcmp(blocking, "1"))
        return ppl_fail(PPL_ERR_ARG, "nccl: CUDA_LAUNCH_BLOCKING=1 makes each launch wait for its end, which a receive "
                                     "reaches only after later ones, want it unset");
    if (order && !strcmp(order, "1"))
        return ppl_fail(PPL_ERR_ARG,
                        "nccl: NCCL_LAUNCH_ORDER_IMPLICIT=1 makes each transfer wait until the one enqueued "
                        "before it, on any edge, has begun, which sends that are ahead of their readers do "
                        "in a circle, want it unset");
    return PPL_OK;
}

// Transfers hold processors of the GPU while they wait for the other side. Of a unit's crossings each may have one underway,
// which together must leave room for the kernels that they wait for: a power of two, the same on all units.
static int32_t ctas_of(const ppl_nccl *l) {
    int32_t most = 0, ctas = PPL_NCCL_CTAS;
    for (int32_t u = 0; u < l->n_units; u++) {
        int32_t ends = 0;
        for (int32_t i = 0; i < l->n_crossings; i++)
            ends += (l->unit_of[l->crossing[i].from] == u) + (l->unit_of[l->crossing[i].to] == u);
        if (ends > most) most = ends;
    }
    while (ctas > 1 && ctas * most > PPL_NCCL_CTAS_ALL) ctas /= 2;
    return ctas;
}

static ncclConfig_t config_of(const ppl_nccl *l) {
    ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
    c.blocking = 0;
    c.maxCTAs = l->ctas;
    c.splitShare = 0;
    return c;
}

static ppl_status all_join(ppl_nccl *l) {
    ncclConfig_t config = config_of(l);
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    ncclResult_t result = ncclSuccess;
    if (is_here(l, 0)) result = ncclGetUniqueId(&id);
    ppl_status st = result == ncclSuccess ? PPL_OK : ppl_nccl_fail(NULL, result, "ncclGetUniqueId");
    PPL_TRY(ppl_world_settle(l->options.world, "the id of the links", st));
    PPL_TRY(ppl_world_share(l->options.world, 0, &id, sizeof id));
    ncclGroupStart();
    for (int32_t i = 0; i < l->n_units && went(result); i++) {
        if (!is_here(l, l->unit[i].process)) continue;
        cudaSetDevice(l->unit[i].ordinal);
        result = ncclCommInitRankConfig(&l->unit[i].all, l->n_units, id, i, &config);
    }
    ncclResult_t end = ncclGroupEnd();
    if (!went(result) || !went(end)) return ppl_nccl_fail(NULL, went(result) ? end : result, "joining all GPUs");
    int64_t deadline = deadline_of(l);
    for (int32_t i = 0; i < l->n_units; i++)
        if (l->unit[i].all) PPL_TRY(await(l, l->unit[i].all, "joining all GPUs", deadline));
    return PPL_OK;
}

// The round in which each crossing is split off; returns how many rounds there are, -1 without memory.
static int32_t rounds_find(const ppl_nccl *l, int32_t *round) {
    size_t units = (size_t)l->n_units;
    int32_t *count = ppl_alloc(units * sizeof *count), most = 0, rounds = 0;
    if (!count) return -1;
    for (int32_t i = 0; i < l->n_crossings; i++) {
        const ppl_nccl_crossing *c = &l->crossing[i];
        int32_t a = ++count[l->unit_of[c->from]], b = ++count[l->unit_of[c->to]];
        if (a > most) most = a;
        if (b > most) most = b;
    }
    bool *taken = ppl_alloc(units * 2 * (size_t)most);
    for (int32_t i = 0; taken && i < l->n_crossings; i++) {
        bool *from = taken + (size_t)l->unit_of[l->crossing[i].from] * 2 * (size_t)most;
        bool *to = taken + (size_t)l->unit_of[l->crossing[i].to] * 2 * (size_t)most;
        round[i] = 0;
        while (from[round[i]] || to[round[i]]) round[i]++;
        from[round[i]] = to[round[i]] = true;
        if (round[i] >= rounds) rounds = round[i] + 1;
    }
    ppl_free(count);
    ppl_free(taken);
    return taken ? rounds : -1;
}

// One unit's part in a round: its crossing there, or none.
static ncclResult_t unit_split(ppl_nccl *l, int32_t unit, int32_t round, const int32_t *rounds) {
    ncclConfig_t config = config_of(l);
    ncclComm_t none = NULL;
    cudaSetDevice(l->unit[unit].ordinal);
    for (int32_t i = 0; i < l->n_crossings; i++) {
        ppl_nccl_crossing *c = &l->crossing[i];
        bool sends = l->unit_of[c->from] == unit;
        if (rounds[i] != round || (!sends && l->unit_of[c->to] != unit)) continue;
        return ncclCommSplit(l->unit[unit].all, i, sends ? 0 : 1, sends ? &c->send.comm : &c->receive.comm, &config);
    }
    return ncclCommSplit(l->unit[unit].all, NCCL_SPLIT_NOCOLOR, 0, &none, &config);
}

static ppl_status round_split(ppl_nccl *l, int32_t round, const int32_t *rounds) {
    static const char what[] = "joining the GPUs of each edge";
    ncclResult_t result = ncclSuccess;
    ncclGroupStart();
    for (int32_t u = 0; u < l->n_units && went(result); u++)
        if (l->unit[u].all) result = unit_split(l, u, round, rounds);
    ncclResult_t end = ncclGroupEnd();
    if (!went(result) || !went(end)) return ppl_nccl_fail(NULL, went(result) ? end : result, what);
    int64_t deadline = deadline_of(l);
    for (int32_t u = 0; u < l->n_units; u++)
        if (l->unit[u].all) PPL_TRY(await(l, l->unit[u].all, what, deadline));
    for (int32_t i = 0; i < l->n_crossings; i++) {
        if (rounds[i] != round) continue;
        if (l->crossing[i].send.comm) PPL_TRY(await(l, l->crossing[i].send.comm, what, deadline));
        if (l->crossing[i].receive.comm) PPL_TRY(await(l, l->crossing[i].receive.comm, what, deadline));
    }
    return PPL_OK;
}

static ppl_status all_split(ppl_nccl *l) {
    int32_t *round = ppl_alloc((size_t)l->n_crossings * sizeof *round);
    int32_t rounds = round ? rounds_find(l, round) : -1;
    ppl_status st = rounds < 0 ? PPL_ERR_MEMORY : PPL_OK;
    for (int32_t k = 0; k < rounds && st == PPL_OK; k++) st = round_split(l, k, round);
    ppl_free(round);
    return st;
}

// ---- streams, and the first value over each ----

static ppl_status end_open(ppl_nccl *l, const ppl_nccl_crossing *c, ppl_nccl_end *end, bool sends) {
    const ppl_device_ops *ops = l->options.device;
    int32_t buffers = ppl_nccl_buffers(l, c, sends);
    if (!end->device) return PPL_OK;
    end->done = ppl_arena_get(&l->arena, (size_t)buffers * sizeof *end->done);
    if (!end->done) return PPL_ERR_MEMORY;
    PPL_TRY(ops->stream_open(end->device, &end->stream));
    end->has_stream = true;
    PPL_TRY(ops->event_open(end->device, &end->before));
    for (int32_t b = 0; b < buffers; b++) PPL_TRY(ops->event_open(end->device, &end->done[b]));
    return PPL_OK;
}

static ppl_status ready_open(ppl_nccl *l, ppl_nccl_crossing *c) {
    size_t buffers = (size_t)l->plan->edge[c->edge].buffers;
    if (!c->send.device) return PPL_OK;
    c->ready = ppl_arena_get(&l->arena, buffers * sizeof *c->ready);
    c->held = ppl_arena_get(&l->arena, buffers * sizeof *c->held);
    c->readied = ppl_arena_get(&l->arena, (size_t)c->order.uses * sizeof *c->readied);
    if (!c->ready || !c->held || !c->readied) return PPL_ERR_MEMORY;
    for (size_t b = 0; b < buffers; b++) PPL_TRY(l->options.device->event_open(c->send.device, &c->ready[b]));
    return PPL_OK;
}

static cudaStream_t stream_of(const ppl_nccl *l, const ppl_nccl_end *end) {
    return l->options.device->stream_handle(end->device, end->stream);
}

// Until all that a stream has is done.
static ppl_status stream_await(const ppl_nccl *l, ppl_device *device, int32_t stream, void *event, ncclComm_t comm,
                               const char *what, int64_t deadline) {
    PPL_TRY(l->options.device->event_record(device, event, stream));
    for (bool done = false; !done;) {
        ncclResult_t state;
        PPL_TRY(l->options.device->event_done(device, event, &done));
        PPL_TRY(look(l, comm, what, deadline, &state));
        if (!done && ppl_now() > deadline)
            return ppl_fail(PPL_ERR_STALL, "nccl: %s: it is not there after %.3g s, want it to arrive", what,
                            l->options.seconds);
        if (!done) clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PPL_NCCL_POLL_NS}, NULL);
    }
    return PPL_OK;
}

static ppl_status connected_await(const ppl_nccl *l, const ppl_nccl_end *end, int64_t deadline) {
    static const char what[] = "passing a first value over each edge";
    if (!end->device) return PPL_OK;
    PPL_TRY(await(l, end->comm, what, deadline));
    return stream_await(l, end->device, end->stream, end->before, end->comm, what, deadline);
}

ppl_status ppl_nccl_sum(const ppl_nccl *l, const ppl_nccl_unit *u) {
    const ppl_link_options *o = &l->options;
    ncclResult_t result = ncclAllReduce(o->sum_from[u->rank], o->sum_to[u->rank], o->sums, ncclFloat64, ncclSum, u->all,
                                        o->device->stream_handle(o->devices[u->rank], 0));
    return ppl_nccl_settle(l, u->all, result, "ncclAllReduce");
}

static ppl_status sum_await(const ppl_nccl *l, const ppl_nccl_unit *u, const char *what, int64_t deadline) {
    ppl_device *device = l->options.devices[u->rank];
    void *event = NULL;
    PPL_TRY(l->options.device->event_open(device, &event));
    ppl_status st = stream_await(l, device, 0, event, u->all, what, deadline);
    l->options.device->event_close(device, event);
    return st;
}

// The first sum: nothing is connected, or loaded, in a step.
static ppl_status sums_connect(ppl_nccl *l) {
    static const char what[] = "adding up over all GPUs";
    const ppl_link_options *o = &l->options;
    ncclResult_t result = ncclSuccess;
    if (!o->sum_from || o->sums == 0) return PPL_OK;
    ncclGroupStart();
    for (int32_t i = 0; i < l->n_units && went(result); i++) {
        const ppl_nccl_unit *u = &l->unit[i];
        if (u->all)
            result = ncclAllReduce(o->sum_from[u->rank], o->sum_to[u->rank], o->sums, ncclFloat64, ncclSum, u->all,
                                   o->device->stream_handle(o->devices[u->rank], 0));
    }
    ncclResult_t end = ncclGroupEnd();
    if (!went(result) || !went(end)) return ppl_nccl_fail(NULL, went(result) ? end : result, what);
    int64_t deadline = deadline_of(l);
    for (int32_t i = 0; i < l->n_units; i++)
        if (l->unit[i].all) PPL_TRY(await(l, l->unit[i].all, what, deadline));
    for (int32_t i = 0; i < l->n_units; i++)
        if (l->unit[i].all) PPL_TRY(sum_await(l, &l->unit[i], what, deadline));
    return PPL_OK;
}

// A whole value, so that every channel that a later one may use is there.
static ppl_status all_connect(ppl_nccl *l) {
    ncclResult_t result = ncclSuccess;
    ncclGroupStart();
    for (int32_t i = 0; i < l->n_crossings && went(result); i++) {
        ppl_nccl_crossing *c = &l->crossing[i];
        size_t bytes = ppl_nccl_bytes(l, c);
        if (c->send.device)
            result =
                ncclSend(ppl_nccl_buffer(l, c, true, 0), bytes, ncclUint8, 1, c->send.comm, stream_of(l, &c->send));
        if (c->receive.device && went(result))
            result = ncclRecv(ppl_nccl_buffer(l, c, false, 0), bytes, ncclUint8, 0, c->receive.comm,
                              stream_of(l, &c->receive));
    }
    ncclResult_t end = ncclGroupEnd();
    if (!went(result) || !went(end)) return ppl_nccl_fail(NULL, went(result) ? end : result, "connecting the edges");
    int64_t deadline = deadline_of(l);
    for (int32_t i = 0; i < l->n_crossings; i++) {
        PPL_TRY(connected_await(l, &l->crossing[i].send, deadline));
        PPL_TRY(connected_await(l, &l->crossing[i].receive, deadline));
    }
    return PPL_OK;
}

ppl_status ppl_nccl_join(ppl_nccl *l) {
    if (l->n_crossings == 0) return PPL_OK;
    PPL_TRY(check_surroundings());
    l->ctas = ctas_of(l);
    PPL_TRY(all_join(l));
    PPL_TRY(all_split(l));
    for (int32_t i = 0; i < l->n_crossings; i++) {
        PPL_TRY(end_open(l, &l->crossing[i], &l->crossing[i].send, true));
        PPL_TRY(end_open(l, &l->crossing[i], &l->crossing[i].receive, false));
        PPL_TRY(ready_open(l, &l->crossing[i]));
    }
    PPL_TRY(all_connect(l));
    return sums_connect(l);
}

// ---- the end ----

typedef void comm_call(ncclComm_t *comm);

static void comms_each(ppl_nccl *l, comm_call *call) {
    for (int32_t i = 0; l->crossing && i < l->n_crossings; i++) {
        if (l->crossing[i].send.comm) call(&l->crossing[i].send.comm);
        if (l->crossing[i].receive.comm) call(&l->crossing[i].receive.comm);
    }
    for (int32_t i = 0; i < l->n_units; i++)
        if (l->unit[i].all) call(&l->unit[i].all);
}

static void comm_abort(ncclComm_t *comm) {
    ncclCommAbort(*comm);
    *comm = NULL;
}

static void comm_finalize(ncclComm_t *comm) {
    ncclResult_t result = ncclCommFinalize(*comm);
    if (result != ncclSuccess && result != ncclInProgress) comm_abort(comm);
}

static void comm_destroy(ncclComm_t *comm) {
    ncclResult_t state = ncclInProgress;
    for (int64_t end = ppl_now() + 5000000000; state == ncclInProgress && ppl_now() < end;)
        if (ncclCommGetAsyncError(*comm, &state) != ncclSuccess) break;
    if (state == ncclSuccess) ncclCommDestroy(*comm);
    else ncclCommAbort(*comm);
    *comm = NULL;
}

static void end_close(const ppl_nccl *l, const ppl_nccl_crossing *c, ppl_nccl_end *end, bool sends) {
    const ppl_device_ops *ops = l->options.device;
    if (!end->device) return;
    if (end->before) ops->event_close(end->device, end->before);
    for (int32_t b = 0; end->done && b < ppl_nccl_buffers(l, c, sends); b++)
        if (end->done[b]) ops->event_close(end->device, end->done[b]);
    for (int32_t b = 0; sends && c->ready && b < l->plan->edge[c->edge].buffers; b++)
        if (c->ready[b]) ops->event_close(end->device, c->ready[b]);
    if (end->has_stream) ops->stream_close(end->device, end->stream);
}

void ppl_nccl_part(ppl_nccl *l) {
    if (l->failed || (l->options.stop && atomic_load(l->options.stop))) comms_each(l, comm_abort);
    comms_each(l, comm_finalize);
    comms_each(l, comm_destroy);
    for (int32_t i = 0; l->crossing && i < l->n_crossings; i++) {
        end_close(l, &l->crossing[i], &l->crossing[i].send, true);
        end_close(l, &l->crossing[i], &l->crossing[i].receive, false);
    }
}
