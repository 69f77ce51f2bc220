// local.c - links between ranks of one process: tickets in shared memory. Before: exec's SEND, RECEIVE, CREDIT and RELEASE
// tasks. After: the reader's programs, which read the producer's buffer itself (or, with `copies`, a buffer of their own).
//
// A buffer has one "full" ticket, counted up by its producer at each send, and a "free" ticket for each reader on another
// rank, counted up by that reader when it has read for the last time. Use n of a buffer may be read when full > n, and be
// written when every free >= n. Each ticket has one writer and a cache line of its own.
//
// A bell is rung only for whoever waits for this very ticket: waking a rank for something else costs microseconds on both
// sides. The waiter sets its mark before it looks at the ticket once more, the other side counts the ticket up before it
// looks at the mark: both in sequentially consistent order, so that one of them sees the other.
//
// On asynchronous devices a ticket tells that work is enqueued, not done: the producer records the buffer's "full" event on
// its stream before it counts the ticket up, and the reader makes its own stream wait for it; "free" events go the other way.
// An event is recorded anew only after the other side has taken the ticket, and so has enqueued its wait.
#include "base/random.h"
#include "link/link.h"
#include "sim/costs.h"

typedef struct ticket {
    _Alignas(64) atomic_llong count;
    atomic_llong sent; // full tickets: nanoseconds of the newest send
} ticket;

typedef struct mark {
    _Alignas(64) atomic_int waits; // set and cleared by the waiter alone
} mark;

typedef struct local_edge {
    const ppl_edge_plan *plan;
    int32_t rank, uses;  // the producer's; uses a step
    bool flows;          // buffers are taken in turn over all steps
    const int32_t *unit; // as in the options
    size_t bytes, stride;
    const char *memory;
    void *const *reader_memory;      // [readers]
    ticket *full;                    // [buffers]
    ticket *free;                    // [readers][buffers]
    atomic_llong *visible;           // [readers][buffers]: nanoseconds from when on the newest send may be seen
    mark *producer;                  // waits for a credit
    mark *reader;                    // [readers]: waits for a value
    void **full_event, **free_event; // [buffers], [readers][buffers]; NULL on synchronous devices
} local_edge;

typedef struct local_link {
    ppl_arena arena;
    ppl_link_options options;
    local_edge *edge;
    int32_t n_edges;
    bool delays;
    ppl_cost_links links; // with costs
    double *link_free;    // [links]: ppl_now seconds; each is its sender's alone
} local_link;

// Which use of its buffer a task is about, from 0.
static int64_t use_of(const local_edge *e, const ppl_task *task, int64_t step) {
    if (e->flows) return (step * e->uses + task->sequence) / e->plan->buffers;
    int32_t buffers = e->plan->buffers, a_step = e->uses / buffers + (task->buffer < e->uses % buffers);
    return step * a_step + task->sequence / buffers;
}

static int32_t buffer_of(const local_edge *e, const ppl_task *task, int64_t step) {
    return e->flows ? (int32_t)((step * e->uses + task->sequence) % e->plan->buffers) : task->buffer;
}

// Does this reader, of another rank, read what the producer's unit has?
static bool is_served(const local_edge *e, int32_t reader) {
    int32_t to = e->plan->reader_rank[reader];
    return to != e->rank && (!e->unit || e->unit[to] == e->unit[e->rank]);
}

static ticket *free_of(const local_edge *e, int32_t reader, int32_t buffer) {
    return &e->free[reader * e->plan->buffers + buffer];
}

static ppl_status edge_open(local_link *l, int32_t i) {
    local_edge *e = &l->edge[i];
    size_t buffers = (size_t)e->plan->buffers, readers = (size_t)e->plan->n_readers;
    e->full = ppl_arena_get(&l->arena, buffers * sizeof(ticket));
    e->free = ppl_arena_get(&l->arena, buffers * readers * sizeof(ticket));
    e->visible = ppl_arena_get(&l->arena, buffers * readers * sizeof *e->visible);
    e->producer = ppl_arena_get(&l->arena, sizeof(mark));
    e->reader = ppl_arena_get(&l->arena, readers * sizeof(mark));
    return e->full && e->free && e->visible && e->producer && e->reader ? PPL_OK : PPL_ERR_MEMORY;
}

static ppl_status events_open(local_link *l, local_edge *e) {
    const ppl_link_options *o = &l->options;
    size_t buffers = (size_t)e->plan->buffers, readers = (size_t)e->plan->n_readers;
    if (!o->devices) return PPL_OK;
    e->full_event = ppl_arena_get(&l->arena, buffers * sizeof(void *));
    e->free_event = ppl_arena_get(&l->arena, buffers * readers * sizeof(void *));
    if (!e->full_event || !e->free_event) return PPL_ERR_MEMORY;
    for (size_t b = 0; b < buffers && o->devices[e->rank]; b++)
        PPL_TRY(o->device->event_open(o->devices[e->rank], &e->full_event[b]));
    for (size_t k = 0; k < readers * buffers; k++)
        if (is_served(e, (int32_t)(k / buffers)) && o->devices[e->rank])
            PPL_TRY(o->device->event_open(o->devices[e->plan->reader_rank[k / buffers]], &e->free_event[k]));
    return PPL_OK;
}

static void events_close(const local_link *l, const local_edge *e) {
    const ppl_link_options *o = &l->options;
    if (!o->devices || !e->plan) return;
    size_t buffers = (size_t)e->plan->buffers, readers = (size_t)e->plan->n_readers;
    for (size_t b = 0; e->full_event && b < buffers; b++)
        if (e->full_event[b]) o->device->event_close(o->devices[e->rank], e->full_event[b]);
    for (size_t k = 0; e->free_event && k < readers * buffers; k++)
        if (e->free_event[k]) o->device->event_close(o->devices[e->plan->reader_rank[k / buffers]], e->free_event[k]);
}

// Links that take no time are left as they are.
static ppl_status costs_open(local_link *l, const ppl_plan *plan) {
    if (!l->options.costs) return PPL_OK;
    PPL_TRY(ppl_cost_links_build(&l->arena, "links", plan, l->options.costs, &l->links));
    bool takes = false;
    for (int32_t i = 0; i < l->links.count; i++) takes |= l->links.link[i].latency > 0 || l->links.link[i].per_byte > 0;
    if (!takes) l->options.costs = NULL;
    l->delays |= takes;
    l->link_free = ppl_arena_get(&l->arena, (size_t)l->links.count * sizeof *l->link_free);
    return l->link_free ? PPL_OK : PPL_ERR_MEMORY;
}

static void local_close(ppl_link *self) {
    local_link *l = (local_link *)self;
    if (!l) return;
    for (int32_t i = 0; l->edge && i < l->n_edges; i++) events_close(l, &l->edge[i]);
    ppl_arena_clear(&l->arena);
    ppl_free(l);
}

static ppl_status local_open(const ppl_plan *plan, const ppl_link_options *options, void *const *memory,
                             void *const *const *reader_memory, ppl_link **out) {
    local_link *l = ppl_alloc(sizeof *l);
    if (!l) return PPL_ERR_MEMORY;
    l->options = *options;
    l->n_edges = plan->stages->n_edges;
    l->edge = ppl_arena_get(&l->arena, (size_t)l->n_edges * sizeof *l->edge);
    ppl_status st = PPL_ERR_MEMORY;
    if (!l->edge) goto fail;
    l->delays = options->delay_seed != 0;
    for (int32_t i = 0; i < l->n_edges; i++) {
        local_edge *e = &l->edge[i];
        *e = (local_edge){.plan = &plan->edge[i],
                          .rank = ppl_plan_edge_rank(plan, i),
                          .uses = ppl_plan_uses(plan, i),
                          .flows = ppl_plan_flows(plan),
                          .unit = options->unit,
                          .bytes = plan->stages->edges[i].bytes,
                          .stride = ppl_link_stride(&plan->stages->edges[i]),
                          .memory = memory[i],
                          .reader_memory = reader_memory[i]};
        PPL_GOTO(edge_open(l, i));
        PPL_GOTO(events_open(l, e));
    }
    PPL_GOTO(costs_open(l, plan));
    *out = (ppl_link *)l;
    return PPL_OK;
fail:
    local_close((ppl_link *)l);
    return st;
}

static void mark_set(mark *m, int waits) {
    if (atomic_load_explicit(&m->waits, memory_order_relaxed) != waits) atomic_store(&m->waits, waits);
}

static bool is_free(const local_edge *e, int32_t buffer, int64_t use) {
    for (int32_t i = 0; i < e->plan->n_readers; i++) {
        if (is_served(e, i) && atomic_load(&free_of(e, i, buffer)->count) < use) return false;
    }
    return true;
}

// The producer's stream waits until the readers' streams have read the buffer.
static ppl_status free_await(const local_link *l, const local_edge *e, int32_t buffer, int32_t stream) {
    const ppl_link_options *o = &l->options;
    for (int32_t i = 0; i < e->plan->n_readers; i++) {
        if (!is_served(e, i)) continue;
        PPL_TRY(o->device->event_wait(o->devices[e->rank], e->free_event[i * e->plan->buffers + buffer], stream));
    }
    return PPL_OK;
}

static ppl_status local_credit(ppl_link *self, const ppl_task *task, int64_t step, bool *done) {
    const local_edge *e = &((local_link *)self)->edge[task->edge];
    int64_t use = use_of(e, task, step);
    int32_t buffer = buffer_of(e, task, step);
    *done = is_free(e, buffer, use);
    if (!*done) {
        mark_set(e->producer, 1);
        *done = is_free(e, buffer, use);
    }
    if (!*done) return PPL_OK;
    mark_set(e->producer, 0);
    return e->free_event && use > 0 ? free_await((const local_link *)self, e, buffer, task->stream) : PPL_OK;
}

int64_t ppl_link_delay(const ppl_link_options *o, const ppl_task *task, int64_t step) {
    uint32_t bits[4];
    ppl_philox(ppl_mix_key(o->delay_seed, 1), (uint64_t)step, (uint64_t)task->edge << 32 | (uint32_t)task->sequence,
               bits);
    return (int64_t)(ppl_unit(bits[0]) * o->delay * 1e9);
}

static atomic_llong *visible_of(const local_edge *e, int32_t reader, int32_t buffer) {
    return &e->visible[reader * e->plan->buffers + buffer];
}

// Notes from when on each reader may see what is sent now.
static void delay_send(local_link *l, const ppl_task *task, int32_t buffer, int64_t step, int64_t now) {
    const local_edge *e = &l->edge[task->edge];
    for (int32_t i = 0; i < e->plan->n_readers; i++) {
        int64_t when = l->options.delay_seed ? now + ppl_link_delay(&l->options, task, step) : now;
        int32_t at = l->options.costs ? l->links.of[task->edge][i] : -1;
        if (at >= 0) {
            double jitter = ppl_costs_message_jitter(l->options.costs, step, task->edge, i, task->sequence);
            double there = ppl_cost_link_send(&l->links.link[at], l->links.bytes[task->edge], jitter,
                                              (double)when * 1e-9, &l->link_free[at]);
            when = (int64_t)(there * 1e9);
        }
        atomic_store_explicit(visible_of(e, i, buffer), when, memory_order_relaxed);
    }
}

static ppl_status local_send(ppl_link *self, const ppl_task *task, int64_t step) {
    local_link *l = (local_link *)self;
    const local_edge *e = &l->edge[task->edge];
    int32_t buffer = buffer_of(e, task, step);
    ticket *full = &e->full[buffer];
    int64_t now = ppl_now();
    if (e->full_event)
        PPL_TRY(l->options.device->event_record(l->options.devices[e->rank], e->full_event[buffer], task->stream));
    atomic_store_explicit(&full->sent, now, memory_order_relaxed);
    if (l->delays) delay_send(l, task, buffer, step, now);
    atomic_store(&full->count, use_of(e, task, step) + 1);
    for (int32_t i = 0; i < e->plan->n_readers; i++)
        if (atomic_load(&e->reader[i].waits)) ppl_bell_ring(l->options.bells[e->plan->reader_rank[i]]);
    return PPL_OK;
}

static ppl_status local_release(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    local_link *l = (local_link *)self;
    const local_edge *e = &l->edge[task->edge];
    int32_t buffer = buffer_of(e, task, step);
    if (e->free_event)
        PPL_TRY(l->options.device->event_record(l->options.devices[e->plan->reader_rank[reader]],
                                                e->free_event[reader * e->plan->buffers + buffer], task->stream));
    atomic_store(&free_of(e, reader, buffer)->count, use_of(e, task, step) + 1);
    if (atomic_load(&e->producer->waits)) ppl_bell_ring(l->options.bells[e->rank]);
    return PPL_OK;
}

static bool is_sent(const local_edge *e, int32_t buffer, int64_t use) {
    return atomic_load(&e->full[buffer].count) > use;
}

// From when on the reader may see what was sent, ppl_now nanoseconds.
static int64_t visible_at(const local_edge *e, int32_t reader, int32_t buffer) {
    return atomic_load_explicit(visible_of(e, reader, buffer), memory_order_relaxed);
}

static bool is_full(const local_link *l, const local_edge *e, int32_t reader, int32_t buffer, int64_t use) {
    return is_sent(e, buffer, use) && (!l->delays || ppl_now() >= visible_at(e, reader, buffer));
}

static int64_t local_due(const ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    const local_link *l = (const local_link *)self;
    const local_edge *e = &l->edge[task->edge];
    int32_t buffer = buffer_of(e, task, step);
    return l->delays && is_sent(e, buffer, use_of(e, task, step)) ? visible_at(e, reader, buffer) : 0;
}

static ppl_status local_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step, bool *done) {
    const local_link *l = (local_link *)self;
    const local_edge *e = &l->edge[task->edge];
    int32_t buffer = buffer_of(e, task, step);
    int64_t use = use_of(e, task, step);
    *done = is_full(l, e, reader, buffer, use);
    if (!*done) {
        mark_set(&e->reader[reader], 1);
        *done = is_full(l, e, reader, buffer, use);
    }
    if (!*done) return PPL_OK;
    mark_set(&e->reader[reader], 0);
    const ppl_link_options *o = &l->options;
    ppl_device *device = e->full_event ? o->devices[e->plan->reader_rank[reader]] : NULL;
    if (device) PPL_TRY(o->device->event_wait(device, e->full_event[buffer], task->stream));
    if (!e->reader_memory[reader]) return PPL_OK;
    size_t own = (size_t)(((e->flows ? step * e->uses : 0) + task->sequence) % e->plan->reader_buffers[reader]);
    char *to = (char *)e->reader_memory[reader] + own * e->stride;
    const char *from = e->memory + (size_t)buffer * e->stride;
    if (device) PPL_TRY(o->device->copy(device, to, from, e->bytes, task->stream));
    else memcpy(to, from, e->bytes);
    return local_release(self, task, reader, step);
}

// The executor calls this while all ranks stand still, in the order of its own barriers.
static ppl_status local_rewind(ppl_link *self, int32_t rank, int64_t step, bool begun, bool *done) {
    (void)begun;
    local_link *l = (local_link *)self;
    for (int32_t i = 0; i < l->n_edges; i++) {
        const local_edge *e = &l->edge[i];
        for (int16_t b = 0; b < e->plan->buffers; b++) {
            int64_t used = use_of(e, &(ppl_task){.buffer = b}, step); // before the step's first use
            if (e->rank == rank) atomic_store_explicit(&e->full[b].count, used, memory_order_release);
            for (int32_t k = 0; k < e->plan->n_readers; k++)
                if (e->plan->reader_rank[k] == rank && is_served(e, k))
                    atomic_store_explicit(&free_of(e, k, b)->count, used, memory_order_release);
        }
    }
    *done = true;
    return PPL_OK;
}

static ppl_status local_early_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    (void)self, (void)task, (void)reader, (void)step;
    return PPL_OK;
}

static ppl_status local_sum(ppl_link *self, int32_t rank) {
    const ppl_link_options *o = &((local_link *)self)->options;
    return o->device->copy(o->devices[rank], o->sum_to[rank], o->sum_from[rank], o->sums * sizeof(double), 0);
}

static ppl_status local_check(ppl_link *self, int32_t rank) {
    (void)self, (void)rank;
    return PPL_OK;
}

static ppl_status local_poll(ppl_link *self) {
    (void)self;
    return PPL_OK;
}

static int64_t local_bytes(const ppl_link *self, int32_t rank) {
    (void)self;
    (void)rank;
    return 0;
}

static void local_waits_for(const ppl_link *self, const ppl_task *task, int64_t step, int32_t *rank) {
    const local_edge *e = &((const local_link *)self)->edge[task->edge];
    *rank = e->rank;
    if (task->kind != PPL_TASK_CREDIT) return;
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < e->plan->n_readers; i++) {
        if (!is_served(e, i)) continue;
        int64_t count = atomic_load_explicit(&free_of(e, i, buffer_of(e, task, step))->count, memory_order_relaxed);
        if (count >= least) continue;
        least = count;
        *rank = e->plan->reader_rank[i];
    }
}

static double local_sent_at(const ppl_link *self, const ppl_task *task, int64_t step) {
    const local_edge *e = &((const local_link *)self)->edge[task->edge];
    return (double)atomic_load_explicit(&e->full[buffer_of(e, task, step)].sent, memory_order_relaxed) * 1e-9;
}

const ppl_link_ops ppl_link_local = {
    .name = "local",
    .receives_ahead = INT32_MAX,
    .copies = false,
    .streams = true,
    .open = local_open,
    .close = local_close,
    .credit = local_credit,
    .send = local_send,
    .receive = local_receive,
    .release = local_release,
    .early_receive = local_early_receive,
    .sum = local_sum,
    .check = local_check,
    .rewind = local_rewind,
    .poll = local_poll,
    .bytes = local_bytes,
    .due = local_due,
    .waits_for = local_waits_for,
    .sent_at = local_sent_at,
};
