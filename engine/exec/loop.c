// loop.c - the task loop: a rank's list, step after step, in one switch; what happened is written to the trace here and
// nowhere else. Before: bind.c. After: the client's numbers, the trace.
#include "base/random.h"
#include "exec/rank.h"
#include <math.h>

typedef struct step_run { // a step of this rank
    int64_t tick, step;
    int32_t side;
    const ppl_plan *plan;
    ppl_link *link;
    ppl_span *row; // of its trace; NULL where tasks are not timed
    int64_t link_bytes;
    bool entered; // some of it has run, or may
} step_run;

// ---- programs ----

static ppl_status task_failed(const ppl_rank *r, const step_run *s, const ppl_task *task, int32_t phase,
                              ppl_status st) {
    static const char letter[PPL_PHASES] = {[PPL_PHASE_F] = 'F', [PPL_PHASE_I] = 'I', [PPL_PHASE_W] = 'W'};
    if (st == PPL_ERR_STOPPED) return st;
    return ppl_prefix(st, "rank %d, step %lld, %d%c%d: ", r->rank, (long long)s->step, task->stage, letter[phase],
                      task->microbatch);
}

static ppl_status inputs_fill(ppl_rank *r, const ppl_bound *b, const step_run *s, const ppl_task *task) {
    const ppl_exec *e = r->exec;
    if (!(e->options.device->flags & PPL_DEVICE_COMPUTES)) return PPL_OK; // nobody reads them
    for (int32_t i = 0; i < b->n_fills; i++) {
        const ppl_input_fill *f = &b->fills[i];
        if (r->ahead) PPL_TRY(ppl_ahead_fill(r, f, s->tick, s->step, task, s->plan->microbatches));
        else PPL_TRY(e->client.fill(e->client.self, s->step, task->microbatch, f->value, f->to));
    }
    return PPL_OK;
}

ppl_status ppl_rank_loss(const ppl_rank *r, int64_t step, int32_t stage, int32_t microbatch, double sum) {
    if (!isfinite(sum)) {
        return ppl_fail(PPL_ERR_NUMBER, "step %lld, stage %d, microbatch %d: the loss is %g, want a finite number",
                        (long long)step, stage, microbatch, ppl_number_plain(sum));
    }
    r->exec->client.loss(r->exec->client.self, step, microbatch, sum);
    return PPL_OK;
}

static ppl_status loss_tell(ppl_rank *r, const ppl_bound *b, const step_run *s, const ppl_task *task) {
    const ppl_exec *e = r->exec;
    const ppl_graph *g = s->plan->stages->graph;
    if (r->ahead) return ppl_ahead_loss(r, b->loss, s->tick, task);
    double sum = 0;
    if (g && (e->options.device->flags & PPL_DEVICE_COMPUTES))
        sum = ppl_number_get(b->loss, ppl_graph_type_of(g, g->loss)->dtype, 0);
    bool judged = isfinite(sum) || r->unvalidated < 0; // else the weights may be about to be rolled back
    if (judged && (ppl_exec_leads(e) || !isfinite(sum)))
        return ppl_rank_loss(r, s->step, task->stage, task->microbatch, sum);
    if (ppl_exec_leads(e)) e->client.loss(e->client.self, s->step, task->microbatch, sum);
    else e->peers.losses[s->tick % PPL_EXEC_AHEAD * s->plan->microbatches + task->microbatch] = sum;
    return PPL_OK;
}

static ppl_status program_run(ppl_rank *r, const step_run *s, const ppl_task *task, int32_t phase) {
    const ppl_exec *e = r->exec;
    ppl_bound *b = &r->chunk[s->side][ppl_rank_chunk(r, task->stage)].bound[phase];
    r->env.first_sample = (int64_t)task->microbatch * e->options.samples_per_microbatch;
    ppl_status st;
    PPL_GOTO(ppl_bound_aim(r, b, task, s->tick, ppl_rank_place(r, s->side, task, s->tick)));
    PPL_GOTO(inputs_fill(r, b, s, task));
    ppl_program_run run = {.stage = task->stage,
                           .microbatch = task->microbatch,
                           .kind = phase,
                           .calls = b->calls,
                           .scratch = r->scratch + (size_t)task->stream * r->scratch_bytes,
                           .env = &r->env,
                           .stream = task->stream}; // those of a stream share its workspace: one after the other
    PPL_GOTO(e->options.device->program_run(r->device, b->program, &run));
    return b->has_loss ? loss_tell(r, b, s, task) : PPL_OK;
fail:
    return task_failed(r, s, task, phase, st);
}

// ---- links ----

static bool is_program(const ppl_task *t) {
    return t->kind == PPL_TASK_F || t->kind == PPL_TASK_B || t->kind == PPL_TASK_I || t->kind == PPL_TASK_W;
}

// A value that is there already, or a buffer that is free, costs one look.
static ppl_status link_wait(ppl_rank *r, const step_run *s, const ppl_task *task) {
    const ppl_link_ops *link = r->exec->options.link;
    for (int64_t begin = 0;;) {
        unsigned seen = ppl_rank_heard(r);
        bool done = false;
        if (task->kind == PPL_TASK_CREDIT) PPL_TRY(link->credit(s->link, task, s->tick, &done));
        else PPL_TRY(link->receive(s->link, task, task->slot, s->tick, &done));
        if (done) return PPL_OK;
        int64_t due = task->kind == PPL_TASK_RECEIVE ? link->due(s->link, task, task->slot, s->tick) : 0;
        if (due) ppl_wait_until(due, &r->exec->stop);
        PPL_TRY(due ? ppl_rank_go_on(r) : ppl_rank_pause(r, &begin, seen));
    }
}

static ppl_status value_send(const ppl_rank *r, step_run *s, const ppl_task *task) {
    const ppl_edge_plan *e = &s->plan->edge[task->edge];
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != r->rank) s->link_bytes += (int64_t)s->plan->stages->edges[task->edge].bytes;
    return r->exec->options.link->send(s->link, task, s->tick);
}

// The step that the rank's k-th turn is of, now_step or next; NULL: of none.
static step_run *step_at(const ppl_rank_plan *own, int64_t k, step_run *now_step, step_run *next, int64_t *at) {
    *at = own->turns ? own->turns[k] : k;
    return *at < own->ahead ? next : now_step;
}

// What the program behind turn k's receives, begun while that one runs: the plan has its buffers free by then, and no more
// than one action before.
static ppl_status receives_begin(const ppl_rank *r, const ppl_rank_plan *own, int64_t k, step_run *now_step,
                                 step_run *next) {
    int64_t at;
    while (++k < own->count) {
        const step_run *s = step_at(own, k, now_step, next, &at);
        const ppl_task *t = &own->tasks[at];
        if (!s || !s->entered || is_program(t) || t->kind == PPL_TASK_VALIDATE || t->kind == PPL_TASK_NORM)
            return PPL_OK;
        if (t->kind == PPL_TASK_RECEIVE) PPL_TRY(r->exec->options.link->early_receive(s->link, t, t->slot, s->tick));
    }
    return PPL_OK;
}

// ---- steps ----

// For tests: half of the tasks begin later, by a time that the seed, the rank and the place give.
static void delay(const ppl_rank *r, const step_run *s, int64_t at) {
    const ppl_exec_options *o = &r->exec->options;
    uint32_t bits[4];
    ppl_philox(ppl_mix_key(o->delay_seed, 2 + (uint64_t)r->rank), (uint64_t)s->tick, (uint64_t)at, bits);
    if (bits[0] & 1 || o->delay <= 0) return;
    int64_t ns = (int64_t)(ppl_unit(bits[1]) * o->delay * 1e9);
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void live_add(ppl_rank *r, const step_run *s, int32_t by) {
    if (s->plan->options.forward_only) return;
    r->live += by;
    if (r->live > r->peak_live) r->peak_live = r->live;
}

static ppl_status task_run(ppl_rank *r, step_run *s, const ppl_task *task, ppl_span *span, bool *redo) {
    switch ((ppl_task_kind)task->kind) {
    // The producer may not write yet: a reader on another rank still needs what lies in the buffer.
    case PPL_TASK_CREDIT:
    // The microbatch's value must be in the edge's buffer (with copying links: in this reader's own) before it is read.
    case PPL_TASK_RECEIVE: return link_wait(r, s, task);
    // Fills the stage's inputs, runs its forward, tells the loss. The activation slot is live from here to W or B.
    case PPL_TASK_F: live_add(r, s, 1); return program_run(r, s, task, PPL_PHASE_F);
    // I, then W: the same programs and the same order of sums as when a schedule runs them apart.
    case PPL_TASK_B:
        PPL_TRY(program_run(r, s, task, PPL_PHASE_I));
        if (r->ahead) PPL_TRY(ppl_ahead_middle(r, s->tick));
        else if (s->row) span->middle = ppl_now();
        PPL_TRY(program_run(r, s, task, PPL_PHASE_W));
        live_add(r, s, -1);
        return PPL_OK;
    // Gradients on the way to the stage before; keeps in `pending` what W needs.
    case PPL_TASK_I: return program_run(r, s, task, PPL_PHASE_I);
    // Gradients of parameters, added to the accumulators in order of microbatches. Ends the slot's life.
    case PPL_TASK_W:
        PPL_TRY(program_run(r, s, task, PPL_PHASE_W));
        live_add(r, s, -1);
        return PPL_OK;
    // The value in the edge's buffer is complete: readers on other ranks may see it.
    case PPL_TASK_SEND: return value_send(r, s, task);
    // This reader has read the buffer for the last time: its producer may write it again.
    case PPL_TASK_RELEASE: return r->exec->options.link->release(s->link, task, task->slot, s->tick);
    // Square sums of the gradients of all stages of this rank to all ranks; waits for theirs when clipping comes before.
    case PPL_TASK_NORM: return ppl_rank_norm(r, s->tick, s->step, span);
    // The optimizer steps the parameters whose lowest stage on this rank this is.
    case PPL_TASK_UPDATE: return ppl_rank_update(r, task, s->tick, s->step);
    // The norm of the step before must not ask for clipping; if it does, that step is done again and this one begins anew.
    case PPL_TASK_VALIDATE: return ppl_rank_validate(r, s->tick, true, redo);
    case PPL_TASK_KINDS: break;
    }
    return ppl_fail(PPL_ERR_PLAN, "rank %d: task kind %d, want one of 0..%d", r->rank, task->kind, PPL_TASK_KINDS - 1);
}

// A step's first task on this rank; entered stays false when the run was interrupted before any rank had begun the step.
static ppl_status step_enter(ppl_rank *r, step_run *s) {
    ppl_exec *e = r->exec;
    bool may;
    PPL_TRY(ppl_gate_enter(r, s->tick, &may));
    if (!may) return PPL_OK;
    PPL_TRY(ppl_rank_window(r, s->tick));
    s->entered = true;
    if (s->side != PPL_SIDE_TRAIN || e->untimed) return PPL_OK;
    ppl_trace_begin(e->trace, s->step);
    s->row = ppl_trace_row(e->trace, r->rank, s->step);
    return r->ahead ? ppl_ahead_enter(r, s->tick, s->tick == e->side[s->side].ticks) : PPL_OK;
}

static void step_set(ppl_rank *r, const step_run *s) {
    atomic_store_explicit(&r->step, s->step, memory_order_relaxed);
    atomic_store_explicit(&r->tick, s->tick, memory_order_relaxed);
    r->env.step = s->step;
}

// One round of the rank's list: the tasks of a step (NULL: of none, before the first) and, in between, those of the next one
// that run ahead (NULL: there is none).
static ppl_status tasks_run(ppl_rank *r, step_run *now_step, step_run *next) {
    const step_run *any = now_step ? now_step : next;
    const ppl_rank_plan *own = &any->plan->rank[r->rank];
    bool delays = r->exec->options.delay_seed != 0;
    ppl_span unused;
    const step_run *of = NULL;
    int64_t now = ppl_now();
    for (int64_t k = 0; k < own->count; k++) {
        int64_t at;
        step_run *s = step_at(own, k, now_step, next, &at);
        if (s && !s->entered) PPL_TRY(step_enter(r, s));
        if (!s || !s->entered) continue;
        if (s != of) step_set(r, of = s);
        atomic_store_explicit(&r->at, at, memory_order_relaxed);
        int64_t pulse = atomic_load_explicit(&r->pulse, memory_order_relaxed);
        atomic_store_explicit(&r->pulse, pulse + 1, memory_order_relaxed);
        if (delays) {
            delay(r, s, at);
            if (s->row) now = ppl_now();
        }
        bool timed = s->row && !r->ahead; // else the device's events tell
        ppl_span *span = timed ? &s->row[at] : &unused;
        span->begin = now;
        span->middle = 0;
        bool redo = false;
        if (r->ahead && s->side == PPL_SIDE_TRAIN) PPL_TRY(ppl_streams_enter(r, at, &own->tasks[at]));
        if (any->plan->options.receive_early && is_program(&own->tasks[at]))
            PPL_TRY(receives_begin(r, own, k, now_step, next));
        if (s->row && r->ahead) PPL_TRY(ppl_ahead_begin(r, s->tick));
        void *label = r->label[s->side] ? r->label[s->side][at] : NULL;
        const ppl_task *task = &own->tasks[at];
        if (label) r->exec->options.device->label_begin(r->device, label, task->kind, s->step);
        ppl_status st = task_run(r, s, task, span, &redo);
        if (label) r->exec->options.device->label_end(r->device, label);
        PPL_TRY(st);
        if (timed) now = span->end = ppl_now();
        if (s->row && r->ahead) PPL_TRY(ppl_ahead_end(r, s->tick));
        if (redo) {
            r->live = 0;
            k = -1; // the forwards before the VALIDATE again, with the weights as they should have been
        }
    }
    return ppl_streams_join(r);
}

// The last rank to end a step of training marks it done in the trace before the client hears of this rank's end.
ppl_status ppl_rank_end(ppl_rank *r, const ppl_step_end *s) {
    ppl_exec *e = r->exec;
    ppl_span *row = s->timed ? ppl_trace_row(e->trace, r->rank, s->step) : NULL;
    if (s->side == PPL_SIDE_TRAIN) {
        int64_t all = ppl_exec_expects(e) * (s->tick / PPL_EXEC_AHEAD + 1);
        if (atomic_fetch_add(&ppl_board_at(e, s->tick)->finished, 1) + 1 == all && row)
            ppl_trace_done(e->trace, s->step);
        e->client.rank_done(e->client.self, r->rank, s->step, s->peak_live, s->link_bytes);
    }
    if (!ppl_exec_leads(e)) PPL_TRY(ppl_peers_done(r, s->tick, s->step, row, s->link_bytes));
    ppl_rank_finish(r, s->tick);
    return e->peers.world ? ppl_peers_completed(e) : PPL_OK;
}

static ppl_status step_end(ppl_rank *r, const step_run *s) {
    ppl_step_end end = {.tick = s->tick,
                        .step = s->step,
                        .side = s->side,
                        .peak_live = r->peak_live,
                        .link_bytes = s->link_bytes,
                        .timed = s->row != NULL};
    return r->ahead ? ppl_ahead_push(r, &end) : ppl_rank_end(r, &end);
}

// What gradients are multiplied by: one over the weight of all targets of the step; where a microbatch steps the weights
// alone, as if the step were so many of it.
static ppl_status seed_set(ppl_rank *r, const step_run *s) {
    const ppl_graph *g = s->plan->stages->graph;
    double weight = r->exec->client.step_weight(r->exec->client.self, s->step);
    double parts = s->plan->weights == PPL_WEIGHTS_STASH ? s->plan->microbatches : 1;
    double seed = weight > 0 ? parts / weight : 0; // nothing counts: no gradient
    if (r->ahead) return ppl_ahead_seed(r, s->tick, ppl_dtype_acc(g->dtype), seed);
    if (g) ppl_number_set(r->seed, ppl_dtype_acc(g->dtype), 0, seed);
    return PPL_OK;
}

static ppl_status round_run(ppl_rank *r, step_run *s, step_run *next) {
    r->peak_live = r->live;
    if (s) PPL_TRY(seed_set(r, s));
    atomic_store_explicit(&r->where, PPL_AT_TASK, memory_order_relaxed);
    PPL_TRY(tasks_run(r, s, next));
    atomic_store_explicit(&r->where, PPL_AT_REST, memory_order_relaxed);
    return s ? step_end(r, s) : PPL_OK;
}

static step_run step_of(const ppl_exec *e, int64_t i) {
    const ppl_side *side = &e->side[e->range_side];
    return (step_run){.tick = side->ticks + i,
                      .step = e->range_first + i,
                      .side = e->range_side,
                      .plan = side->plan,
                      .link = side->link};
}

ppl_status ppl_rank_steps(ppl_rank *r) {
    ppl_exec *e = r->exec;
    bool ahead = e->side[e->range_side].plan->rank[r->rank].ahead > 0;
    step_run s[2] = {step_of(e, 0)}; // the step in progress, and the one after it, of which some may run ahead
    r->env.seed = e->options.seed;
    r->env.training = e->range_side == PPL_SIDE_TRAIN;
    r->live = 0;
    for (int64_t i = ahead ? -1 : 0; i < e->range_n; i++) {
        step_run *now = i < 0 ? NULL : &s[i & 1], *next = &s[(i + 1) & 1];
        *next = step_of(e, i + 1);
        if (now && !now->entered) PPL_TRY(step_enter(r, now));
        if (now && !now->entered) break;
        PPL_TRY(round_run(r, now, i + 1 < e->range_n ? next : NULL));
    }
    bool redo; // the last step is judged too; nothing is begun after it
    if (e->range_side == PPL_SIDE_TRAIN) PPL_TRY(ppl_rank_validate(r, r->unvalidated + 1, false, &redo));
    return ppl_ahead_drain(r);
}
