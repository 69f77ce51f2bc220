// nccl.c - links between ranks on different GPUs, of one process or of several: NCCL's sends and receives, enqueued. Before:
// exec's SEND, RECEIVE and CREDIT tasks. After: the reader's programs, which wait on the GPU. Ranks on one GPU hand over as in
// local.c, which this link holds one of.
//
// The host only enqueues. Of a crossing (nccl.h):
//   SEND     ready := event(compute); stream waits for it; ncclSend; done := event(stream)
//   CREDIT   compute waits for done of the buffer's last send
//   RECEIVE  before := event(compute); stream waits for it; ncclRecv; done := event(stream); compute waits for it
// A receive's kernel holds processors while it waits, so it begins when the program before the one that reads has begun,
// and not earlier: early_receive enqueues the part up to done there. Behind a pair of actions that run beside one another
// stream 0 has waited for stream 1, so that `before` on stream 0 stands behind whatever the buffer was read by. NCCL has no
// tags: a communicator passes values in the order in which both sides call. That is the reader's order; a SEND that comes
// before its turn is enqueued with the SEND whose turn it is. Where that held up a credit, the plan's proof would have
// found a circle: there a credit waits for the receive of its buffer's last value, and that receive for all before it in
// the reader's list.
//
// A rollback lets what was sent arrive: the reader takes it into its buffers, then both sides count from the step's begin.
#include "link/nccl.h"
#include "base/clock.h"
#include "world/world.h"
#include <stdio.h>

// ---- open and close ----

static void nccl_close(ppl_link *self) {
    ppl_nccl *l = (ppl_nccl *)self;
    if (!l) return;
    ppl_nccl_part(l);
    if (l->local) ppl_link_local.close(l->local);
    ppl_arena_clear(&l->arena);
    ppl_free(l);
}

// Counts crossings, and (with a list) fills it: of all processes, in the same order everywhere.
static void crossings_find(ppl_nccl *l) {
    const ppl_plan *p = l->plan;
    l->n_crossings = 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        int32_t from = ppl_plan_edge_rank(p, i);
        for (int32_t k = 0; k < p->edge[i].n_readers; k++) {
            int32_t to = p->edge[i].reader_rank[k];
            if (l->unit_of[to] == l->unit_of[from] || p->edge[i].buffers == 0) continue;
            if (l->crossing) {
                ppl_nccl_crossing *c = &l->crossing[l->n_crossings];
                *c = (ppl_nccl_crossing){.edge = i, .reader = k, .from = from, .to = to};
                c->send.device = l->options.devices[from];
                c->receive.device = l->options.devices[to];
                if (!l->of[i]) l->of[i] = c;
            }
            l->n_crossings++;
        }
    }
}

static ppl_status crossings_open(ppl_nccl *l) {
    crossings_find(l);
    l->of = ppl_arena_get(&l->arena, (size_t)l->plan->stages->n_edges * sizeof(ppl_nccl_crossing *));
    ppl_nccl_crossing *list = ppl_arena_get(&l->arena, (size_t)l->n_crossings * sizeof *list);
    if (!l->of || !list) return PPL_ERR_MEMORY;
    l->crossing = list;
    crossings_find(l);
    for (int32_t i = 0; i < l->n_crossings; i++) {
        ppl_nccl_crossing *c = &list[i];
        if (!l->plan->edge[c->edge].reader_buffers[c->reader])
            return ppl_fail(PPL_ERR_PLAN,
                            "nccl: edge %d, from rank %d to rank %d: the plan hands over pointers, want copies",
                            c->edge, c->from, c->to);
        PPL_TRY(ppl_link_order_find(&l->arena, l->plan, c->edge, c->reader, "nccl", &c->order));
    }
    return PPL_OK;
}

// Another process cannot open its links: nobody waits for it any more.
static void failure_hear(void *self, int32_t from, const ppl_words *words, const void *data, size_t bytes) {
    ppl_nccl *l = self;
    if (l->told != PPL_OK) return;
    l->told = (ppl_status)words->kind;
    snprintf(l->told_text, sizeof l->told_text, "process %d: %.*s", from, (int)bytes, (const char *)data);
}

static void failure_tell(const ppl_nccl *l, ppl_status status) {
    ppl_world *w = l->options.world;
    char text[sizeof l->told_text];
    snprintf(text, sizeof text, "%s", ppl_error());
    if (w && l->told == PPL_OK) ppl_world_tell(w, &(ppl_words){.kind = (int32_t)status}, text, strlen(text));
    ppl_fail_text(status, text);
}

static ppl_status open_all(ppl_nccl *l) {
    PPL_TRY(ppl_nccl_units(l));
    PPL_TRY(crossings_open(l));
    l->options.unit = l->unit_of;
    PPL_TRY(ppl_link_local.open(l->plan, &l->options, l->memory, l->reader_memory, &l->local));
    return ppl_nccl_join(l);
}

static ppl_status nccl_open(const ppl_plan *plan, const ppl_link_options *options, void *const *memory,
                            void *const *const *reader_memory, ppl_link **out) {
    PPL_TRY(ppl_world_settle(options->world, "the start of links", PPL_OK)); // all have come so far
    ppl_nccl *l = ppl_alloc(sizeof *l);
    if (!l) return PPL_ERR_MEMORY;
    *l = (ppl_nccl){.options = *options, .plan = plan, .memory = memory, .reader_memory = reader_memory};
    if (l->options.seconds <= 0) l->options.seconds = 120;
    if (options->world) ppl_world_round(options->world, failure_hear, l);
    ppl_status st = open_all(l);
    l->failed = st != PPL_OK;
    if (l->failed) failure_tell(l, st);
    if (options->world) ppl_world_deaf(options->world, l);
    if (st != PPL_OK) nccl_close((ppl_link *)l);
    else *out = (ppl_link *)l;
    return st;
}

// ---- values ----

static ppl_nccl_crossing *next_of_edge(const ppl_nccl *l, ppl_nccl_crossing *c) {
    return ++c < l->crossing + l->n_crossings && c->edge == c[-1].edge ? c : NULL;
}

static ppl_nccl_crossing *crossing_of(const ppl_nccl *l, int32_t edge, int32_t reader) {
    ppl_nccl_crossing *c = l->of[edge];
    while (c && c->reader != reader) c = next_of_edge(l, c);
    return c;
}

// The buffer of value n on one side.
static int32_t place_of(const ppl_nccl *l, const ppl_nccl_crossing *c, bool sends, int64_t n) {
    return ppl_plan_place(l->plan, ppl_nccl_buffers(l, c, sends), c->order.uses, n / c->order.uses,
                          c->order.sequence[n % c->order.uses]);
}

static ppl_status failed(const ppl_nccl_crossing *c, ppl_status st) {
    return ppl_prefix(st, "edge %d from rank %d to rank %d: ", c->edge, c->from, c->to);
}

// Enqueues the next value of one side: behind `event`, whose end `done` then tells.
static ppl_status pass(ppl_nccl *l, ppl_nccl_crossing *c, bool sends, void *event) {
    ppl_nccl_end *end = sends ? &c->send : &c->receive;
    const ppl_device_ops *ops = l->options.device;
    int32_t buffer = place_of(l, c, sends, end->enqueued);
    cudaStream_t stream = ops->stream_handle(end->device, end->stream);
    char *at = ppl_nccl_buffer(l, c, sends, buffer);
    size_t bytes = ppl_nccl_bytes(l, c);
    PPL_TRY(ops->event_wait(end->device, event, end->stream));
    ncclResult_t result = sends ? ncclSend(at, bytes, ncclUint8, 1, end->comm, stream)
                                : ncclRecv(at, bytes, ncclUint8, 0, end->comm, stream);
    ppl_status st = ppl_nccl_settle(l, end->comm, result, sends ? "ncclSend" : "ncclRecv");
    if (st != PPL_OK) return failed(c, st);
    end->enqueued++;
    return ops->event_record(end->device, end->done[buffer], end->stream);
}

// The sends whose turn has come.
static ppl_status sends_pass(ppl_nccl *l, ppl_nccl_crossing *c) {
    for (;;) {
        int64_t n = c->send.enqueued, uses = c->order.uses;
        if (c->readied[n % uses] != 1 + n / uses) return PPL_OK;
        int32_t buffer = place_of(l, c, true, n);
        PPL_TRY(pass(l, c, true, c->ready[buffer]));
        c->held[buffer]--;
    }
}

static ppl_status nccl_send(ppl_link *self, const ppl_task *task, int64_t step) {
    ppl_nccl *l = (ppl_nccl *)self;
    PPL_TRY(ppl_link_local.send(l->local, task, step));
    for (ppl_nccl_crossing *c = l->of[task->edge]; c; c = next_of_edge(l, c)) {
        int32_t at = c->order.position[task->sequence];
        int32_t buffer = place_of(l, c, true, step * c->order.uses + at);
        PPL_TRY(l->options.device->event_record(c->send.device, c->ready[buffer], task->stream));
        c->readied[at] = 1 + step;
        c->held[buffer]++;
        PPL_TRY(sends_pass(l, c));
    }
    return PPL_OK;
}

static ppl_status nccl_credit(ppl_link *self, const ppl_task *task, int64_t step, bool *done) {
    ppl_nccl *l = (ppl_nccl *)self;
    PPL_TRY(ppl_link_local.credit(l->local, task, step, done));
    for (ppl_nccl_crossing *c = l->of[task->edge]; c && *done; c = next_of_edge(l, c)) {
        int32_t buffer = place_of(l, c, true, step * c->order.uses + c->order.position[task->sequence]);
        *done = c->held[buffer] == 0;
        if (*done) PPL_TRY(l->options.device->event_wait(c->send.device, c->send.done[buffer], task->stream));
    }
    return PPL_OK;
}

// Enqueues a crossing's receive of value n, if it is not underway, behind what the reader's device has so far.
static ppl_status receive_begin(ppl_nccl *l, ppl_nccl_crossing *c, int64_t n) {
    if (n < c->receive.enqueued) return PPL_OK;
    if (n > c->receive.enqueued)
        return ppl_fail(PPL_ERR_PLAN, "nccl: edge %d: value %lld is received as number %lld", c->edge, (long long)n,
                        (long long)c->receive.enqueued);
    PPL_TRY(l->options.device->event_record(c->receive.device, c->receive.before, 0));
    return pass(l, c, false, c->receive.before);
}

static ppl_status nccl_early_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    ppl_nccl *l = (ppl_nccl *)self;
    ppl_nccl_crossing *c = crossing_of(l, task->edge, reader);
    return c ? receive_begin(l, c, step * c->order.uses + c->order.position[task->sequence]) : PPL_OK;
}

static ppl_status nccl_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step, bool *done) {
    ppl_nccl *l = (ppl_nccl *)self;
    ppl_nccl_crossing *c = crossing_of(l, task->edge, reader);
    if (!c) return ppl_link_local.receive(l->local, task, reader, step, done);
    int64_t n = step * c->order.uses + c->order.position[task->sequence];
    PPL_TRY(receive_begin(l, c, n));
    *done = true;
    void *there = c->receive.done[place_of(l, c, false, n)];
    return l->options.device->event_wait(c->receive.device, there, task->stream);
}

static ppl_nccl_unit *unit_led(const ppl_nccl *l, int32_t rank) {
    ppl_nccl_unit *u = &l->unit[l->unit_of[rank]];
    return u->rank == rank && u->all ? u : NULL;
}

static ppl_status nccl_sum(ppl_link *self, int32_t rank) {
    ppl_nccl *l = (ppl_nccl *)self;
    ppl_nccl_unit *u = unit_led(l, rank);
    return u ? ppl_nccl_sum(l, u) : ppl_link_local.sum(l->local, rank);
}

static ppl_status nccl_release(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    return ppl_link_local.release(((ppl_nccl *)self)->local, task, reader, step);
}

// ---- while ranks wait ----

static ppl_status comm_check(ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) return PPL_OK;
    return ppl_nccl_fail(comm, state, "a transfer has failed");
}

static ppl_status end_check(const ppl_nccl_crossing *c, const ppl_nccl_end *end) {
    ppl_status st = comm_check(end->comm);
    return st == PPL_OK ? PPL_OK : failed(c, st);
}

static ppl_status nccl_check(ppl_link *self, int32_t rank) {
    const ppl_nccl *l = (const ppl_nccl *)self;
    const ppl_nccl_unit *u = unit_led(l, rank);
    if (u) PPL_TRY(comm_check(u->all));
    for (int32_t i = 0; i < l->n_crossings; i++) {
        const ppl_nccl_crossing *c = &l->crossing[i];
        if (c->from == rank) PPL_TRY(end_check(c, &c->send));
        if (c->to == rank) PPL_TRY(end_check(c, &c->receive));
    }
    return PPL_OK;
}

static ppl_status nccl_poll(ppl_link *self) {
    return ppl_link_local.poll(((ppl_nccl *)self)->local); // NCCL has threads of its own
}

// ---- rolling back ----

// How many values of a step have been sent, in the reader's order, when all have come to their VALIDATE.
static int32_t sent_before(const ppl_nccl_crossing *c) {
    int32_t n = 0;
    while (n < c->order.uses && c->order.before[c->order.sequence[n]]) n++;
    return n;
}

// Whether nothing of this side is on its way any more; from then on it counts from the step's begin.
static ppl_status end_rewind(const ppl_nccl *l, ppl_nccl_end *end, int64_t first) {
    bool done = false;
    if (end->rewind == PPL_NCCL_GOES_ON)
        PPL_TRY(l->options.device->event_record(end->device, end->before, end->stream));
    end->rewind = PPL_NCCL_DRAINS;
    PPL_TRY(l->options.device->event_done(end->device, end->before, &done));
    if (!done) return PPL_OK;
    end->rewind = PPL_NCCL_REWOUND;
    end->enqueued = first;
    return PPL_OK;
}

static ppl_status reader_rewind(ppl_nccl *l, ppl_nccl_crossing *c, int64_t step, bool begun) {
    int64_t first = step * c->order.uses, end = begun ? first + sent_before(c) : first;
    if (c->receive.rewind == PPL_NCCL_REWOUND) return PPL_OK;
    while (c->receive.enqueued < end) PPL_TRY(receive_begin(l, c, c->receive.enqueued));
    return end_rewind(l, &c->receive, first);
}

static ppl_status sender_rewind(ppl_nccl *l, ppl_nccl_crossing *c, int64_t step) {
    if (c->send.rewind == PPL_NCCL_REWOUND) return PPL_OK;
    for (int32_t i = 0; i < c->order.uses; i++)
        if (c->readied[i] > step) c->readied[i] = 0;
    for (int32_t b = 0; b < l->plan->edge[c->edge].buffers; b++) c->held[b] = 0;
    return end_rewind(l, &c->send, step * c->order.uses);
}

static ppl_status nccl_rewind(ppl_link *self, int32_t rank, int64_t step, bool begun, bool *done) {
    ppl_nccl *l = (ppl_nccl *)self;
    bool all = true;
    PPL_TRY(nccl_check(self, rank));
    for (int32_t i = 0; i < l->n_crossings; i++) {
        ppl_nccl_crossing *c = &l->crossing[i];
        if (c->from == rank) PPL_TRY(sender_rewind(l, c, step));
        if (c->to == rank) PPL_TRY(reader_rewind(l, c, step, begun));
        all &= (c->from != rank || c->send.rewind == PPL_NCCL_REWOUND) &&
               (c->to != rank || c->receive.rewind == PPL_NCCL_REWOUND);
    }
    for (int32_t i = 0; all && i < l->n_crossings; i++) {
        if (l->crossing[i].from == rank) l->crossing[i].send.rewind = PPL_NCCL_GOES_ON;
        if (l->crossing[i].to == rank) l->crossing[i].receive.rewind = PPL_NCCL_GOES_ON;
    }
    return all ? ppl_link_local.rewind(l->local, rank, step, begun, done) : PPL_OK;
}

// ---- for reports ----

static int64_t nccl_bytes(const ppl_link *self, int32_t rank) {
    return ppl_link_local.bytes(((const ppl_nccl *)self)->local, rank);
}

static int64_t nccl_due(const ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    const ppl_nccl *l = (const ppl_nccl *)self;
    return crossing_of(l, task->edge, reader) ? 0 : ppl_link_local.due(l->local, task, reader, step);
}

static void nccl_waits_for(const ppl_link *self, const ppl_task *task, int64_t step, int32_t *rank) {
    const ppl_nccl *l = (const ppl_nccl *)self;
    ppl_link_local.waits_for(l->local, task, step, rank);
    if (task->kind == PPL_TASK_CREDIT && l->of[task->edge]) *rank = l->of[task->edge]->to;
}

static double nccl_sent_at(const ppl_link *self, const ppl_task *task, int64_t step) {
    return ppl_link_local.sent_at(((const ppl_nccl *)self)->local, task, step);
}

const ppl_link_ops ppl_link_nccl = {
    .name = "nccl",
    .receives_ahead = 1,
    .copies = true,
    .early = true,
    .streams = true,
    .open = nccl_open,
    .close = nccl_close,
    .credit = nccl_credit,
    .send = nccl_send,
    .receive = nccl_receive,
    .release = nccl_release,
    .early_receive = nccl_early_receive,
    .sum = nccl_sum,
    .check = nccl_check,
    .rewind = nccl_rewind,
    .poll = nccl_poll,
    .bytes = nccl_bytes,
    .due = nccl_due,
    .waits_for = nccl_waits_for,
    .sent_at = nccl_sent_at,
};
