// ahead.c - ranks on asynchronous devices: the host enqueues a step and goes on; when the device has done it, its losses,
// sums and times are told. Before: loop.c enqueues tasks. After: the client, the norm's board and the trace, as if the step
// had ended just then.
//
// A rank tells of step k after it has enqueued step k + 1, so that its device always has work; at the end of a range it tells
// of all. What the device and the host exchange for a step lies in one of PPL_EXEC_AHEAD places of pinned memory, the
// step's tick modulo that: a place is used again when its step has been told of. In a step the host waits for the device,
// by looking again and again, only where the plan joins ranks or a decision needs a number: NORM with clip stage, VALIDATE,
// and with clip stage each UPDATE of a microbatch alone.
#include "exec/rank.h"
#include <math.h>

enum { MARK_BEGIN, MARK_MIDDLE, MARK_END, MARKS };
enum { NAP_NS = 10000 }; // between two looks for a device

static const ppl_device_ops *ops_of(const ppl_rank *r) {
    return r->exec->options.device;
}

// ---- open and close ----

static int32_t most_microbatches(const ppl_exec *e) {
    int32_t n = e->plan->microbatches;
    return e->options.eval_plan && e->options.eval_plan->microbatches > n ? e->options.eval_plan->microbatches : n;
}

static ppl_status host_get(ppl_rank *r, size_t bytes, void *out) {
    void *p = NULL;
    PPL_TRY(ops_of(r)->host_get(r->device, bytes, &p));
    r->bytes[PPL_MEM_OTHER] += (int64_t)bytes;
    memcpy(out, &p, sizeof p);
    return PPL_OK;
}

static ppl_status fills_open(ppl_rank *r) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    for (int32_t side = 0; side < PPL_SIDES; side++) {
        const ppl_plan *p = r->exec->side[side].plan;
        for (int32_t c = 0; p && c < p->rank[r->rank].n_stages; c++) {
            for (int32_t phase = 0; phase < PPL_PHASES; phase++) {
                ppl_bound *b = &r->chunk[side][c].bound[phase];
                for (int32_t i = 0; i < b->n_fills; i++) {
                    ppl_input_fill *f = &b->fills[i];
                    f->bytes = ppl_type_bytes(&g->values[f->value].type);
                    PPL_TRY(host_get(r, PPL_EXEC_AHEAD * (size_t)p->microbatches * f->bytes, &f->staging));
                }
            }
        }
    }
    return PPL_OK;
}

static ppl_status events_open(ppl_rank *r, ppl_ahead *a) {
    const ppl_exec *e = r->exec;
    for (int32_t i = 0; i < PPL_EXEC_AHEAD; i++) {
        PPL_TRY(ops_of(r)->event_open(r->device, &a->done[i]));
        PPL_TRY(ops_of(r)->event_open(r->device, &a->sums_done[i]));
    }
    PPL_TRY(ops_of(r)->event_open(r->device, &a->still));
    if (e->options.trace_steps == 0) return PPL_OK;
    int64_t timers = PPL_EXEC_AHEAD * e->plan->rank[r->rank].count * MARKS;
    a->timer = ppl_arena_get(&r->arena, (size_t)timers * sizeof *a->timer);
    if (!a->timer) return PPL_ERR_MEMORY;
    for (; a->timers < timers; a->timers++) PPL_TRY(ops_of(r)->timer_open(r->device, &a->timer[a->timers]));
    for (int32_t i = 0; i < PPL_EXEC_AHEAD; i++) PPL_TRY(ops_of(r)->timer_open(r->device, &a->base[i]));
    return PPL_OK;
}

// Square sums of a step: of each parameter, where microbatches step the weights alone of each of them.
static size_t sums_count(const ppl_rank *r) {
    const ppl_plan *p = r->exec->plan;
    return (size_t)r->n_params * (p->weights == PPL_WEIGHTS_STASH ? (size_t)p->microbatches : 1);
}

ppl_status ppl_ahead_open(ppl_rank *r) {
    const ppl_exec *e = r->exec;
    if (!(e->options.device->flags & PPL_DEVICE_ASYNC)) return PPL_OK;
    ppl_ahead *a = r->ahead = ppl_arena_get(&r->arena, sizeof *a);
    if (!a) return PPL_ERR_MEMORY;
    size_t microbatches = (size_t)most_microbatches(e), sums_bytes = sums_count(r) * sizeof(double);
    a->loss_stage = -1;
    PPL_TRY(fills_open(r));
    PPL_TRY(events_open(r, a));
    PPL_TRY(ppl_streams_open(r));
    PPL_TRY(host_get(r, PPL_EXEC_AHEAD * microbatches * sizeof(double), &a->loss));
    PPL_TRY(host_get(r, PPL_EXEC_AHEAD * sizeof(double), &a->seed));
    PPL_TRY(host_get(r, PPL_EXEC_AHEAD * sums_bytes, &a->sums_host));
    if ((a->sums = ppl_joint_sums(r))) return PPL_OK;
    void *sums = NULL;
    PPL_TRY(ops_of(r)->memory_get(r->device, sums_bytes, &sums));
    a->sums = sums;
    r->bytes[PPL_MEM_OTHER] += (int64_t)sums_bytes;
    return PPL_OK;
}

static void fills_close(ppl_rank *r) {
    for (int32_t side = 0; side < PPL_SIDES; side++) {
        const ppl_plan *p = r->exec->side[side].plan;
        for (int32_t c = 0; p && r->chunk[side] && c < p->rank[r->rank].n_stages; c++)
            for (int32_t phase = 0; phase < PPL_PHASES; phase++)
                for (int32_t i = 0; i < r->chunk[side][c].bound[phase].n_fills; i++)
                    ops_of(r)->host_free(r->device, r->chunk[side][c].bound[phase].fills[i].staging);
    }
}

void ppl_ahead_close(ppl_rank *r) {
    ppl_ahead *a = r->ahead;
    if (!a) return;
    ops_of(r)->synchronize(r->device); // after a fault there may be copies underway
    fills_close(r);
    for (int32_t i = 0; i < PPL_EXEC_AHEAD; i++) {
        ops_of(r)->event_close(r->device, a->done[i]);
        ops_of(r)->event_close(r->device, a->sums_done[i]);
        ops_of(r)->event_close(r->device, a->base[i]);
    }
    ops_of(r)->event_close(r->device, a->still);
    ppl_streams_close(r);
    for (int64_t i = 0; i < a->timers; i++) ops_of(r)->event_close(r->device, a->timer[i]);
    ops_of(r)->host_free(r->device, a->loss);
    ops_of(r)->host_free(r->device, a->seed);
    ops_of(r)->host_free(r->device, a->sums_host);
    if (a->sums && !r->joint) ops_of(r)->memory_free(r->device, a->sums);
    r->ahead = NULL;
}

// ---- while a step is enqueued ----

static size_t place_of(int64_t tick) {
    return (size_t)(tick % PPL_EXEC_AHEAD);
}

ppl_status ppl_ahead_seed(ppl_rank *r, int64_t tick, int32_t dtype, double value) {
    double *at = &r->ahead->seed[place_of(tick)];
    ppl_number_set(at, dtype, 0, value);
    return ops_of(r)->copy_in(r->device, r->seed, at, ppl_dtype_size(dtype), 0);
}

ppl_status ppl_ahead_fill(ppl_rank *r, const ppl_input_fill *f, int64_t tick, int64_t step, const ppl_task *task,
                          int32_t microbatches) {
    const ppl_exec_client *client = &r->exec->client;
    char *at = f->staging + (place_of(tick) * (size_t)microbatches + (size_t)task->microbatch) * f->bytes;
    PPL_TRY(client->fill(client->self, step, task->microbatch, f->value, at));
    return ops_of(r)->copy_in(r->device, f->to, at, f->bytes, task->stream);
}

ppl_status ppl_ahead_loss(ppl_rank *r, const void *loss, int64_t tick, const ppl_task *task) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    ppl_ahead *a = r->ahead;
    a->loss_stage = task->stage;
    double *at = &a->loss[place_of(tick) * (size_t)most_microbatches(r->exec) + (size_t)task->microbatch];
    return ops_of(r)->copy_back(r->device, at, loss, ppl_dtype_size(ppl_graph_type_of(g, g->loss)->dtype),
                                task->stream);
}

static void **timer_of(const ppl_rank *r, int64_t tick, int64_t at) {
    return &r->ahead->timer[((int64_t)place_of(tick) * r->exec->plan->rank[r->rank].count + at) * MARKS];
}

static ppl_status mark(ppl_rank *r, int64_t tick, int32_t which) {
    if (!r->ahead->timer) return PPL_OK;
    int64_t at = atomic_load_explicit(&r->at, memory_order_relaxed);
    int32_t stream = r->exec->plan->rank[r->rank].tasks[at].stream;
    return ops_of(r)->event_record(r->device, timer_of(r, tick, at)[which], stream);
}

ppl_status ppl_ahead_begin(ppl_rank *r, int64_t tick) {
    return mark(r, tick, MARK_BEGIN);
}
ppl_status ppl_ahead_middle(ppl_rank *r, int64_t tick) {
    return mark(r, tick, MARK_MIDDLE);
}
ppl_status ppl_ahead_end(ppl_rank *r, int64_t tick) {
    return mark(r, tick, MARK_END);
}

// stage -1: of all.
static ppl_status sums_enqueue(ppl_rank *r, int32_t stage, double *out) {
    for (int32_t i = 0; i < r->n_params; i++) {
        const ppl_rank_param *p = &r->params[i];
        const ppl_update *u = &p->update;
        if (p->counts && (stage < 0 || p->stage == stage))
            PPL_TRY(ops_of(r)->square_sum_at(r->device, p->grads, u->uses, u->dtype, u->n, &out[i]));
    }
    return PPL_OK;
}

// The step's sums come back, behind all that is enqueued.
static ppl_status sums_fetch(ppl_rank *r, size_t place) {
    ppl_ahead *a = r->ahead;
    size_t count = sums_count(r);
    PPL_TRY(ops_of(r)->copy_back(r->device, &a->sums_host[place * count], a->sums, count * sizeof(double), 0));
    return ops_of(r)->event_record(r->device, a->sums_done[place], 0);
}

ppl_status ppl_ahead_sums(ppl_rank *r, int64_t tick, int64_t step) {
    ppl_ahead *a = r->ahead;
    size_t place = place_of(tick);
    if (r->exec->plan->weights != PPL_WEIGHTS_STASH) PPL_TRY(sums_enqueue(r, -1, a->sums));
    PPL_TRY(sums_fetch(r, place));
    a->sums_out[place] = true;
    a->sums_tick[place] = tick;
    a->sums_step[place] = step;
    return PPL_OK;
}

ppl_status ppl_ahead_sums_alone(ppl_rank *r, int32_t stage, int32_t microbatch) {
    return sums_enqueue(r, stage, &r->ahead->sums[microbatch * r->n_params]);
}

// ---- when the device has done it ----

// Tasks that the device has ended are signs of life, as tasks that the host begins: a step may take long.
static ppl_status pulses_count(ppl_rank *r) {
    ppl_ahead *a = r->ahead;
    int64_t count = r->exec->plan->rank[r->rank].count;
    int64_t at = atomic_load_explicit(&r->tick, memory_order_relaxed) * count +
                 atomic_load_explicit(&r->at, memory_order_relaxed);
    while (a->timer && a->seen < at) {
        bool done = false;
        void *end = timer_of(r, a->seen / count, a->seen % count)[MARK_END];
        PPL_TRY(ops_of(r)->event_done(r->device, end, &done));
        if (!done) break;
        a->seen++;
        atomic_fetch_add_explicit(&r->pulse, 1, memory_order_relaxed);
    }
    return PPL_OK;
}

static ppl_status links_check(ppl_rank *r) {
    const ppl_exec *e = r->exec;
    ppl_link *link = e->side[e->range_side].link;
    return link ? e->options.link->check(link, r->rank) : PPL_OK;
}

// The host looks again and again: it must see a stop, and a device or a link that has failed.
static ppl_status event_await(ppl_rank *r, void *event, int64_t nap_ns) {
    int was = atomic_exchange_explicit(&r->where, PPL_AT_DEVICE, memory_order_relaxed);
    bool done = false;
    ppl_status st = PPL_OK;
    for (;;) {
        st = ops_of(r)->event_done(r->device, event, &done);
        if (st != PPL_OK || done) break;
        if ((st = ppl_rank_go_on(r)) != PPL_OK || (st = pulses_count(r)) != PPL_OK) break;
        if ((st = links_check(r)) != PPL_OK) break;
        if (nap_ns) clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = nap_ns}, NULL);
    }
    atomic_store_explicit(&r->where, was, memory_order_relaxed);
    return st;
}

// When the device has done an event that is recorded here, by the host's clock: between two looks. A host that is held up
// between them tries again, with more patience each time.
static ppl_status event_time(ppl_rank *r, void *event, int64_t *out) {
    enum { TRIES = 14, NEAR_NS = 4000 };
    for (int32_t i = 0; i < TRIES; i++) {
        int64_t before, after = ppl_now(); // it is not done before it is recorded
        PPL_TRY(ops_of(r)->event_record(r->device, event, 0));
        bool done = false;
        do {
            before = after;
            after = ppl_now();
            PPL_TRY(ppl_rank_go_on(r));
            PPL_TRY(ops_of(r)->event_done(r->device, event, &done));
        } while (!done);
        after = ppl_now();
        *out = before + (after - before) / 2;
        if (after - before <= (int64_t)NEAR_NS << i) return PPL_OK;
    }
    return PPL_OK;
}

// The device's clock is tied to the host's where a range begins, while the device has nothing else to do. From then on each
// step's times go by its own first event, whose distance to the one before is added up.
ppl_status ppl_ahead_enter(ppl_rank *r, int64_t tick, bool first) {
    ppl_ahead *a = r->ahead;
    void *base = a->base[place_of(tick)];
    if (!first) return ops_of(r)->event_record(r->device, base, 0);
    a->base_at = -1;
    a->seen = tick * r->exec->plan->rank[r->rank].count;
    int was = atomic_exchange_explicit(&r->where, PPL_AT_DEVICE, memory_order_relaxed);
    ppl_status st = event_time(r, base, &a->base_ns);
    atomic_store_explicit(&r->where, was, memory_order_relaxed);
    return st;
}

ppl_status ppl_ahead_still(ppl_rank *r) {
    if (!r->ahead) return PPL_OK;
    PPL_TRY(ops_of(r)->event_record(r->device, r->ahead->still, 0));
    return event_await(r, r->ahead->still, NAP_NS);
}

ppl_status ppl_ahead_sums_await(ppl_rank *r, int64_t tick, int32_t microbatch, const double **out) {
    size_t place = place_of(tick);
    PPL_TRY(sums_fetch(r, place));
    *out = &r->ahead->sums_host[place * sums_count(r) + (size_t)(microbatch * r->n_params)];
    return event_await(r, r->ahead->sums_done[place], NAP_NS);
}

// Of microbatches that stepped the weights alone, the sums are added in their order, into the first's.
static const double *sums_add(const ppl_rank *r, double *sums) {
    for (size_t i = (size_t)r->n_params; i < sums_count(r); i++) sums[i % (size_t)r->n_params] += sums[i];
    return sums;
}

ppl_status ppl_ahead_publish(ppl_rank *r, int64_t tick) {
    ppl_ahead *a = r->ahead;
    size_t place = place_of(tick);
    if (!a || !a->sums_out[place]) return PPL_OK;
    a->sums_out[place] = false;
    PPL_TRY(event_await(r, a->sums_done[place], NAP_NS));
    return ppl_rank_arrive(r, tick, a->sums_step[place], sums_add(r, &a->sums_host[place * sums_count(r)]));
}

// A rank that waits for others looks after its own sums: others may wait for them.
ppl_status ppl_ahead_poll(ppl_rank *r, bool *out) {
    *out = false;
    for (int64_t i = 0; r->ahead && i < PPL_EXEC_AHEAD; i++) {
        bool done = false;
        if (!r->ahead->sums_out[i]) continue;
        PPL_TRY(ops_of(r)->event_done(r->device, r->ahead->sums_done[i], &done));
        if (done) PPL_TRY(ppl_ahead_publish(r, r->ahead->sums_tick[i]));
        else *out = true;
    }
    return PPL_OK;
}

static ppl_status losses_tell(ppl_rank *r, const ppl_step_end *s) {
    const ppl_exec *e = r->exec;
    const ppl_graph *g = e->plan->stages->graph;
    ppl_ahead *a = r->ahead;
    if (a->loss_stage < 0) return PPL_OK;
    int32_t dtype = ppl_graph_type_of(g, g->loss)->dtype;
    for (int32_t i = 0; i < e->side[s->side].plan->microbatches; i++) {
        double sum = ppl_number_get(&a->loss[place_of(s->tick) * (size_t)most_microbatches(e) + (size_t)i], dtype, 0);
        if (ppl_exec_leads(e) || !isfinite(sum)) PPL_TRY(ppl_rank_loss(r, s->step, a->loss_stage, i, sum));
        else e->peers.losses[(int64_t)place_of(s->tick) * e->side[s->side].plan->microbatches + i] = sum;
    }
    return PPL_OK;
}

static ppl_status when(ppl_rank *r, size_t place, void *timer, int64_t *out) {
    double seconds = 0;
    PPL_TRY(ops_of(r)->timer_between(r->device, r->ahead->base[place], timer, &seconds));
    *out = r->ahead->base_ns + (int64_t)(seconds * 1e9);
    return PPL_OK;
}

static ppl_status times_read(ppl_rank *r, const ppl_step_end *s) {
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    ppl_ahead *a = r->ahead;
    size_t place = place_of(s->tick);
    double since = 0;
    if (a->base_at >= 0) PPL_TRY(ops_of(r)->timer_between(r->device, a->base[a->base_at], a->base[place], &since));
    a->base_ns += (int64_t)(since * 1e9);
    a->base_at = (int32_t)place;
    ppl_span *row = ppl_trace_row(r->exec->trace, r->rank, s->step);
    for (int64_t at = 0; at < own->count; at++) {
        void **timer = timer_of(r, s->tick, at);
        int32_t kind = own->tasks[at].kind;
        row[at].middle = 0;
        PPL_TRY(when(r, place, timer[MARK_BEGIN], &row[at].begin));
        PPL_TRY(when(r, place, timer[MARK_END], &row[at].end));
        if (kind == PPL_TASK_B || kind == PPL_TASK_NORM) PPL_TRY(when(r, place, timer[MARK_MIDDLE], &row[at].middle));
    }
    return PPL_OK;
}

static ppl_status step_tell(ppl_rank *r, const ppl_step_end *s) {
    ppl_status st;
    PPL_GOTO(event_await(r, r->ahead->done[place_of(s->tick)], NAP_NS));
    if (s->side == PPL_SIDE_TRAIN) PPL_GOTO(ppl_ahead_publish(r, s->tick));
    if (s->timed) PPL_GOTO(times_read(r, s));
    PPL_TRY(losses_tell(r, s));
    return ppl_rank_end(r, s);
fail:
    return st == PPL_ERR_STOPPED ? st : ppl_prefix(st, "rank %d, step %lld: ", r->rank, (long long)s->step);
}

ppl_status ppl_ahead_push(ppl_rank *r, const ppl_step_end *s) {
    ppl_ahead *a = r->ahead;
    PPL_TRY(ops_of(r)->event_record(r->device, a->done[place_of(s->tick)], 0));
    ppl_step_end before = a->last;
    bool any = a->pending;
    a->last = *s;
    a->pending = true;
    return any ? step_tell(r, &before) : PPL_OK;
}

ppl_status ppl_ahead_drain(ppl_rank *r) {
    if (!r->ahead || !r->ahead->pending) return PPL_OK;
    r->ahead->pending = false;
    return step_tell(r, &r->ahead->last);
}
