// mpi.c - links between ranks of several processes, over the world's wire. Before: exec's SEND, RECEIVE, CREDIT and RELEASE
// tasks. After: the other process's mpi.c. Within a process all is as in local.c, which this link holds one of.
//
// A crossing is an edge with one reader in another process. On the producer's side a send borrows the edge's buffer, and its
// end is that reader's credit: sends are synchronous, so it says that the reader has room. On the reader's side receives are
// posted ahead into a few landings, in the order in which the reader's list receives; its RECEIVE copies from there into the
// reader's own buffer and posts the landing anew. A rank that comes to a RECEIVE has taken all before it: its landing is
// posted by then, which is what the plan's proof asks of a link that copies. Landings and buffers bound what is underway.
// Tags name the crossing and the sequence, so that the two sides' orders may differ.
#include "link/order.h"
#include "world/world.h"

enum { LANDINGS = 2 }; // receives ahead: one is used while the next one arrives

typedef struct sending { // from one of the producer's buffers
    ppl_wire_request request;
    ppl_task task;
    int64_t step;
} sending;

typedef struct landing {
    ppl_wire_request request;
    atomic_llong full; // 1 + the number of the value that is in it, 0 none
    int64_t at;        // when it came
    char *memory;
} landing;

typedef struct crossing {
    int32_t edge, reader, other; // other: process
    int32_t uses;                // a step
    bool sends;
    int64_t tag;          // of sequence 0
    sending *sending;     // [buffers]
    ppl_link_order order; // of the reader's side
    landing *landing;     // [landings]; value n, over all steps in the reader's order, comes into n % landings
    int32_t landings;
    int64_t posted, taken; // values, by the reader's rank alone
    atomic_bool waits;
    bool rewinds; // has begun to
} crossing;

typedef struct mpi_link {
    ppl_arena arena;
    ppl_link_options options;
    ppl_world *world;
    const ppl_plan *plan;
    ppl_link *local;
    void *const *memory;
    void *const *const *reader_memory;
    crossing *crossing;
    int32_t n_crossings;
    crossing **of; // [edges]: the first crossing of each, NULL none; others of the edge follow it
} mpi_link;

static bool is_here(const mpi_link *l, int32_t rank) {
    return ppl_plan_process(l->plan, rank) == l->world->process;
}

static size_t bytes_of(const mpi_link *l, const crossing *c) {
    return l->plan->stages->edges[c->edge].bytes;
}

static size_t stride_of(const mpi_link *l, const crossing *c) {
    return ppl_link_stride(&l->plan->stages->edges[c->edge]);
}

static crossing *crossing_of(const mpi_link *l, int32_t edge, int32_t reader) {
    crossing *c = l->of[edge];
    for (; c && c < l->crossing + l->n_crossings && c->edge == edge; c++)
        if (c->reader == reader) return c;
    return NULL;
}

// ---- opening ----

static ppl_status landing_post(mpi_link *l, crossing *c) {
    landing *at = &c->landing[c->posted % c->landings];
    int32_t sequence = c->order.sequence[c->posted % c->uses];
    atomic_store(&at->full, 0);
    PPL_TRY(l->world->wire.ops->receive(l->world->wire.self, c->other, c->tag + sequence, at->memory, bytes_of(l, c),
                                        &at->request));
    c->posted++;
    return PPL_OK;
}

static ppl_status crossing_init(mpi_link *l, crossing *c) {
    if (c->sends) {
        c->sending = ppl_arena_get(&l->arena, (size_t)l->plan->edge[c->edge].buffers * sizeof *c->sending);
        return c->sending ? PPL_OK : PPL_ERR_MEMORY;
    }
    c->landings = c->uses < LANDINGS ? c->uses : LANDINGS;
    c->landing = ppl_arena_get(&l->arena, (size_t)c->landings * sizeof *c->landing);
    if (!c->landing) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < c->landings; i++)
        if (!(c->landing[i].memory = ppl_arena_get(&l->arena, stride_of(l, c)))) return PPL_ERR_MEMORY;
    PPL_TRY(ppl_link_order_find(&l->arena, l->plan, c->edge, c->reader, "mpi", &c->order));
    pthread_mutex_lock(&l->world->lock);
    ppl_status st = PPL_OK;
    while (c->posted < c->landings && st == PPL_OK) st = landing_post(l, c);
    pthread_mutex_unlock(&l->world->lock);
    return st;
}

// Walks all crossings of the plan, in the same order in every process: counts tags, and (with a list) this process's own.
static int64_t crossings_find(mpi_link *l, int64_t tag) {
    const ppl_plan *p = l->plan;
    l->n_crossings = 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        int32_t from = ppl_plan_edge_rank(p, i), source = ppl_plan_process(p, from);
        for (int32_t k = 0; k < p->edge[i].n_readers; k++) {
            int32_t to = ppl_plan_process(p, p->edge[i].reader_rank[k]);
            if (to == source || p->edge[i].buffers == 0) continue;
            if (source == l->world->process || to == l->world->process) {
                if (l->crossing) {
                    crossing *c = &l->crossing[l->n_crossings];
                    bool sends = source == l->world->process;
                    *c = (crossing){.edge = i, .reader = k, .other = sends ? to : source, .sends = sends, .tag = tag};
                    c->uses = ppl_plan_uses(p, i);
                    if (!l->of[i]) l->of[i] = c;
                }
                l->n_crossings++;
            }
            tag += ppl_plan_uses(p, i);
        }
    }
    return tag;
}

static void mpi_link_close(ppl_link *self);

static ppl_status crossings_open(mpi_link *l) {
    int64_t tag = 0, tags = crossings_find(l, 0), most = l->world->wire.ops->most_bytes;
    PPL_TRY(ppl_world_tags(l->world, tags, &tag));
    l->of = ppl_arena_get(&l->arena, (size_t)l->plan->stages->n_edges * sizeof(crossing *));
    crossing *list = ppl_arena_get(&l->arena, (size_t)l->n_crossings * sizeof *list);
    if (!l->of || !list) return PPL_ERR_MEMORY;
    l->crossing = list;
    crossings_find(l, tag);
    for (int32_t i = 0; i < l->n_crossings; i++) {
        if ((int64_t)bytes_of(l, &list[i]) > most)
            return ppl_fail(PPL_ERR_PLAN,
                            "%s: edge %d takes %zu bytes a microbatch, want at most %lld: make microbatches smaller",
                            l->world->wire.ops->name, list[i].edge, bytes_of(l, &list[i]), (long long)most);
        PPL_TRY(crossing_init(l, &list[i]));
    }
    return PPL_OK;
}

static ppl_status mpi_link_open(const ppl_plan *plan, const ppl_link_options *options, void *const *memory,
                                void *const *const *reader_memory, ppl_link **out) {
    mpi_link *l = ppl_alloc(sizeof *l);
    if (!l) return PPL_ERR_MEMORY;
    *l = (mpi_link){
        .options = *options, .world = options->world, .plan = plan, .memory = memory, .reader_memory = reader_memory};
    ppl_status st = ppl_link_local.open(plan, options, memory, reader_memory, &l->local);
    if (st == PPL_OK) st = crossings_open(l);
    if (st != PPL_OK) mpi_link_close((ppl_link *)l);
    else *out = (ppl_link *)l;
    return st;
}

// Takes back what was posted ahead. After a failure sends may be left: nobody asks for them any more.
static void mpi_link_close(ppl_link *self) {
    mpi_link *l = (mpi_link *)self;
    if (!l) return;
    pthread_mutex_lock(&l->world->lock);
    for (int32_t i = 0; i < l->n_crossings && l->crossing; i++)
        for (int32_t k = 0; k < l->crossing[i].landings && l->crossing[i].landing; k++) {
            ppl_wire_request *r = &l->crossing[i].landing[k].request;
            bool gone;
            if (r->active && l->world->lost == PPL_OK) l->world->wire.ops->cancel(l->world->wire.self, r, &gone);
        }
    pthread_mutex_unlock(&l->world->lock);
    ppl_link_local.close(l->local);
    ppl_arena_clear(&l->arena);
    ppl_free(l);
}

// ---- what is underway ----

static ppl_status sending_poll(mpi_link *l, crossing *c, sending *s) {
    if (!s->request.active) return PPL_OK;
    PPL_TRY(l->world->wire.ops->test(l->world->wire.self, &s->request));
    if (s->request.active) return PPL_OK;
    return ppl_link_local.release(l->local, &s->task, c->reader, s->step);
}

static ppl_status landing_poll(mpi_link *l, crossing *c, int32_t slot) {
    landing *at = &c->landing[slot];
    if (!at->request.active) return PPL_OK;
    PPL_TRY(l->world->wire.ops->test(l->world->wire.self, &at->request));
    if (at->request.active) return PPL_OK;
    at->at = ppl_now();
    atomic_store(&at->full, 1);
    if (atomic_load(&c->waits)) ppl_bell_ring(l->options.bells[l->plan->edge[c->edge].reader_rank[c->reader]]);
    return PPL_OK;
}

static ppl_status mpi_link_poll(ppl_link *self) {
    mpi_link *l = (mpi_link *)self;
    ppl_status st = PPL_OK;
    pthread_mutex_lock(&l->world->lock);
    for (int32_t i = 0; i < l->n_crossings && st == PPL_OK; i++) {
        crossing *c = &l->crossing[i];
        for (int32_t b = 0; c->sends && b < l->plan->edge[c->edge].buffers && st == PPL_OK; b++)
            st = sending_poll(l, c, &c->sending[b]);
        for (int32_t k = 0; k < c->landings && st == PPL_OK; k++) st = landing_poll(l, c, k);
    }
    pthread_mutex_unlock(&l->world->lock);
    return st;
}

// ---- tasks ----

static ppl_status mpi_link_credit(ppl_link *self, const ppl_task *task, int64_t step, bool *done) {
    return ppl_link_local.credit(((mpi_link *)self)->local, task, step, done);
}

static ppl_status mpi_link_send(ppl_link *self, const ppl_task *task, int64_t step) {
    mpi_link *l = (mpi_link *)self;
    PPL_TRY(ppl_link_local.send(l->local, task, step));
    ppl_status st = PPL_OK;
    int32_t buffers = l->plan->edge[task->edge].buffers;
    int32_t buffer = ppl_plan_place(l->plan, buffers, ppl_plan_uses(l->plan, task->edge), step, task->sequence);
    for (crossing *c = l->of[task->edge];
         c && c < l->crossing + l->n_crossings && c->edge == task->edge && st == PPL_OK; c++) {
        sending *s = &c->sending[buffer];
        pthread_mutex_lock(&l->world->lock);
        s->task = *task;
        s->step = step;
        st = l->world->wire.ops->send(l->world->wire.self, c->other, c->tag + task->sequence,
                                      (char *)l->memory[task->edge] + (size_t)buffer * stride_of(l, c), bytes_of(l, c),
                                      &s->request);
        pthread_mutex_unlock(&l->world->lock);
    }
    return st;
}

// From when on a value that has landed may be seen.
static int64_t visible_at(const mpi_link *l, const landing *at, const ppl_task *task, int64_t step) {
    return at->at + (l->options.delay_seed ? ppl_link_delay(&l->options, task, step) : 0);
}

static bool has_landed(const mpi_link *l, const landing *at, const ppl_task *task, int64_t step) {
    return atomic_load(&at->full) && (!l->options.delay_seed || ppl_now() >= visible_at(l, at, task, step));
}

static int64_t mpi_link_due(const ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    const mpi_link *l = (const mpi_link *)self;
    const crossing *c = crossing_of(l, task->edge, reader);
    if (!c) return ppl_link_local.due(l->local, task, reader, step);
    const landing *at = &c->landing[(step * c->uses + c->order.position[task->sequence]) % c->landings];
    return l->options.delay_seed && atomic_load(&at->full) ? visible_at(l, at, task, step) : 0;
}

static ppl_status mpi_link_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step, bool *done) {
    mpi_link *l = (mpi_link *)self;
    crossing *c = crossing_of(l, task->edge, reader);
    if (!c) return ppl_link_local.receive(l->local, task, reader, step, done);
    int64_t n = step * c->uses + c->order.position[task->sequence];
    if (n != c->taken)
        return ppl_fail(PPL_ERR_PLAN, "mpi: edge %d: value %lld is received as number %lld", c->edge, (long long)n,
                        (long long)c->taken);
    landing *at = &c->landing[n % c->landings];
    *done = has_landed(l, at, task, step);
    if (!*done) {
        atomic_store(&c->waits, true);
        *done = has_landed(l, at, task, step);
    }
    if (!*done) return PPL_OK;
    atomic_store(&c->waits, false);
    int32_t buffers = l->plan->edge[c->edge].reader_buffers[reader];
    size_t own = (size_t)ppl_plan_place(l->plan, buffers, c->uses, step, task->sequence);
    memcpy((char *)l->reader_memory[c->edge][reader] + own * stride_of(l, c), at->memory, bytes_of(l, c));
    c->taken++;
    pthread_mutex_lock(&l->world->lock);
    ppl_status st = landing_post(l, c);
    pthread_mutex_unlock(&l->world->lock);
    return st;
}

static ppl_status mpi_link_early_receive(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    return ppl_link_local.early_receive(((mpi_link *)self)->local, task, reader, step); // landings see to it
}

static ppl_status mpi_link_sum(ppl_link *self, int32_t rank) {
    (void)self;
    return ppl_fail(PPL_ERR_PLAN, "mpi: rank %d asks for a sum on its device, want links that reach it", rank);
}

static ppl_status mpi_link_check(ppl_link *self, int32_t rank) {
    return ppl_link_local.check(((mpi_link *)self)->local, rank);
}

static ppl_status mpi_link_release(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step) {
    return ppl_link_local.release(((mpi_link *)self)->local, task, reader, step);
}

// ---- rolling back ----

// What of value n's step has been sent, when `begun` steps were sent up to their VALIDATE.
static bool was_sent(const crossing *c, int64_t n, int64_t step, bool begun) {
    return begun && n / c->uses == step && c->order.before[c->order.sequence[n % c->uses]];
}

// Drops, value by value, what the reader has not taken of what was sent; then everything is as before the step.
static ppl_status reader_rewind(mpi_link *l, crossing *c, int64_t step, bool begun, bool *done) {
    const ppl_wire_ops *ops = l->world->wire.ops;
    for (int64_t n = c->taken; n < c->posted && !c->rewinds; n++) { // what is not sent must not wait for the step anew
        ppl_wire_request *r = &c->landing[n % c->landings].request;
        bool gone;
        if (r->active && !was_sent(c, n, step, begun)) PPL_TRY(ops->cancel(l->world->wire.self, r, &gone));
    }
    c->rewinds = true;
    for (; begun && c->taken < (step + 1) * c->uses; c->taken++) {
        bool sent = was_sent(c, c->taken, step, begun);
        if (c->posted == c->taken) {
            if (sent) PPL_TRY(landing_post(l, c));
            else c->posted++; // nothing comes
        }
        if (sent && c->landing[c->taken % c->landings].request.active) return PPL_OK; // *done stays false
    }
    c->taken = c->posted = step * c->uses;
    c->rewinds = false;
    for (int32_t i = 0; i < c->landings; i++) PPL_TRY(landing_post(l, c));
    *done = true;
    return PPL_OK;
}

static ppl_status sender_rewind(mpi_link *l, crossing *c, int64_t step, bool *done) {
    for (int32_t b = 0; b < l->plan->edge[c->edge].buffers; b++)
        if (c->sending[b].request.active) return PPL_OK;
    // Its reader's credits lie here, where no rank stands for them.
    *done = true;
    bool at_once;
    return ppl_link_local.rewind(l->local, l->plan->edge[c->edge].reader_rank[c->reader], step, false, &at_once);
}

static ppl_status mpi_link_rewind(ppl_link *self, int32_t rank, int64_t step, bool begun, bool *done) {
    mpi_link *l = (mpi_link *)self;
    bool all = true;
    pthread_mutex_lock(&l->world->lock);
    ppl_status st = mpi_link_poll(self);
    for (int32_t i = 0; i < l->n_crossings && st == PPL_OK; i++) {
        crossing *c = &l->crossing[i];
        const ppl_edge_plan *e = &l->plan->edge[c->edge];
        bool one = true;
        if (c->sends && ppl_plan_edge_rank(l->plan, c->edge) == rank) one = false, st = sender_rewind(l, c, step, &one);
        if (!c->sends && e->reader_rank[c->reader] == rank) one = false, st = reader_rewind(l, c, step, begun, &one);
        all &= one;
    }
    pthread_mutex_unlock(&l->world->lock);
    if (st != PPL_OK || !all) return st;
    return ppl_link_local.rewind(l->local, rank, step, begun, done);
}

// ---- for reports ----

static int64_t mpi_link_bytes(const ppl_link *self, int32_t rank) {
    const mpi_link *l = (const mpi_link *)self;
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->n_crossings; i++) {
        const crossing *c = &l->crossing[i];
        if (!c->sends && l->plan->edge[c->edge].reader_rank[c->reader] == rank)
            bytes += (int64_t)((size_t)c->landings * stride_of(l, c));
    }
    return bytes;
}

static void mpi_link_waits_for(const ppl_link *self, const ppl_task *task, int64_t step, int32_t *rank) {
    const mpi_link *l = (const mpi_link *)self;
    ppl_link_local.waits_for(l->local, task, step, rank);
    // Of a rank in another process that waits for a credit the tickets are not here: the first reader stands for all.
    if (task->kind != PPL_TASK_CREDIT || is_here(l, ppl_plan_edge_rank(l->plan, task->edge))) return;
    const ppl_edge_plan *e = &l->plan->edge[task->edge];
    for (int32_t i = e->n_readers - 1; i >= 0; i--)
        if (e->reader_rank[i] != ppl_plan_edge_rank(l->plan, task->edge)) *rank = e->reader_rank[i];
}

static double mpi_link_sent_at(const ppl_link *self, const ppl_task *task, int64_t step) {
    return ppl_link_local.sent_at(((const mpi_link *)self)->local, task, step);
}

const ppl_link_ops ppl_link_mpi = {
    .name = "mpi",
    .receives_ahead = LANDINGS,
    .copies = true,
    .streams = false,
    .open = mpi_link_open,
    .close = mpi_link_close,
    .credit = mpi_link_credit,
    .send = mpi_link_send,
    .receive = mpi_link_receive,
    .release = mpi_link_release,
    .early_receive = mpi_link_early_receive,
    .sum = mpi_link_sum,
    .check = mpi_link_check,
    .rewind = mpi_link_rewind,
    .due = mpi_link_due,
    .poll = mpi_link_poll,
    .bytes = mpi_link_bytes,
    .waits_for = mpi_link_waits_for,
    .sent_at = mpi_link_sent_at,
};
