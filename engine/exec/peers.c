// peers.c - the other processes of a run: what they are told of this one's ranks, and what their words do here. Before:
// loop.c, norm.c and wait.c, where something joins all ranks. After: world.h.
//
// Process 0 leads: square sums, ends of steps, meetings, interrupts and faults go to it, and what follows of them comes from
// it, so that all see it in one order. It hears of another process's ranks as of its own: spans go into its trace, losses and
// ends of steps to its client. Words come in on whichever thread polls: the caller's, which does so while ranks work, and
// those of ranks that wait.
#include "exec/rank.h"

typedef enum said {
    SAID_SUMS = 0,  // to 0: square sums of the process's parameters; a tick, b step, rank 1: a stage was clipped
    SAID_NORM,      // from 0: a tick, b step, x norm, y scale
    SAID_DONE,      // to 0: rank has ended a tick; a tick, b step, x peak_live, y link bytes; spans, losses
    SAID_COMPLETED, // from 0: all ranks have ended a ticks
    SAID_MEET,      // to 0: the process's ranks are at a meeting
    SAID_MET,       // from 0: all are at meeting a
    SAID_INTERRUPT, // to 0: somebody wants the run to stop
    SAID_FREEZE,    // from 0: begin no further tick
    SAID_BEGUN,     // to 0: a ticks were begun
    SAID_LIMIT,     // from 0: none from a on is begun
    SAID_FAULT,     // to 0, then from 0: a status; the text
    SAID_PULSE      // to 0: marks of the process's ranks; from 0: a sign of life
} said;

typedef struct mark { // where a rank is
    int64_t pulse, at, step, tick, where;
} mark;

static ppl_status tell(ppl_exec *e, int32_t to, ppl_words words, const void *data, size_t bytes) {
    return ppl_world_post(e->peers.world, to, &words, data, bytes);
}

static ppl_status tell_all(ppl_exec *e, ppl_words words, const void *data, size_t bytes) {
    return ppl_world_tell(e->peers.world, &words, data, bytes);
}

// ---- opening ----

static int64_t report_bytes(const ppl_exec *e, int32_t rank) {
    return e->plan->rank[rank].count * (int64_t)sizeof(ppl_span) + e->plan->microbatches * (int64_t)sizeof(double);
}

static ppl_status params_find(ppl_exec *e) {
    const ppl_stages *s = e->plan->stages;
    size_t n = s->graph ? s->graph->n_params : 0;
    e->peers.param_process = ppl_arena_get(&e->arena, n * sizeof(int32_t));
    if (!e->peers.param_process) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) e->peers.param_process[i] = -1;
    for (int32_t k = s->count - 1; k >= 0; k--) // the lowest stage's rank publishes
        for (int32_t i = 0; n && i < s->stage[k].n_params; i++)
            e->peers.param_process[s->stage[k].params[i]] = ppl_plan_process(e->plan, e->plan->stage_rank[k]);
    return PPL_OK;
}

ppl_status ppl_peers_open(ppl_exec *e) {
    ppl_world *w = e->options.world;
    int32_t ranks = e->plan->ranks;
    e->peers.world = w;
    e->end = ranks;
    if (!w) return PPL_OK;
    for (e->first = 0; ppl_plan_process(e->plan, e->first) < w->process;) e->first++;
    for (e->end = e->first; e->end < ranks && ppl_plan_process(e->plan, e->end) == w->process;) e->end++;
    atomic_store(&e->peers.limit, -1);
    e->peers.heard = ppl_arena_get(&e->arena, (size_t)w->processes * sizeof *e->peers.heard);
    e->peers.losses = ppl_arena_get(&e->arena, PPL_EXEC_AHEAD * (size_t)e->plan->microbatches * sizeof(double));
    e->peers.marks = ppl_arena_get(&e->arena, (size_t)(e->end - e->first) * sizeof(mark));
    if (!e->peers.heard || !e->peers.losses || !e->peers.marks) return PPL_ERR_MEMORY;
    for (int32_t i = e->first; i < e->end && w->process > 0; i++)
        if (!(e->rank[i].report = ppl_arena_get(&e->arena, (size_t)report_bytes(e, i)))) return PPL_ERR_MEMORY;
    return params_find(e);
}

void ppl_peers_close(ppl_exec *e) {
    if (e->peers.world) ppl_world_deaf(e->peers.world, e);
}

// ---- what process 0 hears ----

static ppl_status sums_hear(ppl_exec *e, int32_t from, const ppl_words *words, const double *sums, size_t count) {
    ppl_board_slot *slot = ppl_board_at(e, words->a);
    int64_t ranks = 0, all = (int64_t)e->plan->ranks * (words->a / PPL_EXEC_AHEAD + 1);
    for (size_t i = 0; i < count; i++)
        if (e->peers.param_process[i] == from) slot->sums[i] = sums[i];
    for (int32_t i = 0; i < e->plan->ranks; i++) ranks += ppl_plan_process(e->plan, i) == from;
    if (words->rank) atomic_store(&slot->clipped, words->a + 1);
    return atomic_fetch_add(&slot->arrived, ranks) + ranks == all ? ppl_exec_norm(e, words->a, words->b) : PPL_OK;
}

// A rank of another process has ended a step.
static ppl_status done_hear(ppl_exec *e, const ppl_words *words, const char *data, size_t bytes) {
    ppl_rank *r = &e->rank[words->rank];
    int64_t tick = words->a, step = words->b;
    size_t row = 0;
    bool traced = e->range_side == PPL_SIDE_TRAIN && e->options.trace_steps > 0;
    if (traced) {
        row = (size_t)e->plan->rank[words->rank].count * sizeof(ppl_span);
        ppl_trace_begin(e->trace, step);
        memcpy(ppl_trace_row(e->trace, words->rank, step), data, row);
    }
    const ppl_plan *p = e->side[e->range_side].plan;
    for (int32_t mb = 0; bytes > row && mb < p->microbatches; mb++) {
        double sum;
        memcpy(&sum, data + row + (size_t)mb * sizeof sum, sizeof sum);
        e->client.loss(e->client.self, step, mb, sum);
    }
    if (e->range_side == PPL_SIDE_TRAIN) {
        int64_t all = (int64_t)e->plan->ranks * (tick / PPL_EXEC_AHEAD + 1);
        if (atomic_fetch_add(&ppl_board_at(e, tick)->finished, 1) + 1 == all && traced) ppl_trace_done(e->trace, step);
        e->client.rank_done(e->client.self, words->rank, step, (int32_t)words->x, (int64_t)words->y);
    }
    ppl_rank_finish(r, tick);
    return ppl_peers_completed(e);
}

static ppl_status limit_set(ppl_exec *e, int64_t limit) {
    atomic_store(&e->peers.limit, limit);
    ppl_exec_ring_all(e);
    return ppl_exec_leads(e) ? tell_all(e, (ppl_words){.kind = SAID_LIMIT, .a = limit}, NULL, 0) : PPL_OK;
}

static ppl_status begun_hear(ppl_exec *e, int64_t begun) {
    if (begun > e->peers.most_begun) e->peers.most_begun = begun;
    return ++e->peers.frozen == e->peers.world->processes ? limit_set(e, e->peers.most_begun) : PPL_OK;
}

// Process 0: freezes all, once a range.
static ppl_status freeze(ppl_exec *e) {
    if (e->peers.frozen) return PPL_OK;
    PPL_TRY(tell_all(e, (ppl_words){.kind = SAID_FREEZE}, NULL, 0));
    return begun_hear(e, ppl_gate_freeze(e));
}

static ppl_status meet_hear(ppl_exec *e) {
    if (++e->peers.came < e->peers.world->processes) return PPL_OK;
    e->peers.came = 0;
    int64_t meeting = atomic_fetch_add(&e->meetings, 1) + 1;
    ppl_exec_ring_all(e);
    return tell_all(e, (ppl_words){.kind = SAID_MET, .a = meeting}, NULL, 0);
}

static void pulse_hear(ppl_exec *e, int32_t from, const mark *marks, size_t count) {
    for (int32_t i = 0, k = 0; i < e->plan->ranks && k < (int32_t)count; i++) {
        if (ppl_plan_process(e->plan, i) != from) continue;
        ppl_rank *r = &e->rank[i];
        atomic_store(&r->pulse, marks[k].pulse);
        atomic_store(&r->at, marks[k].at);
        atomic_store(&r->step, marks[k].step);
        atomic_store(&r->tick, marks[k].tick);
        atomic_store(&r->where, (int)marks[k].where);
        k++;
    }
}

// ---- what the others hear ----

static void norm_hear(ppl_exec *e, const ppl_words *words) {
    ppl_board_slot *slot = ppl_board_at(e, words->a);
    slot->norm = words->x;
    slot->scale = words->y;
    atomic_store_explicit(&slot->ready, words->a + 1, memory_order_release);
    ppl_exec_ring_all(e);
}

static void completed_hear(ppl_exec *e, int64_t ticks) {
    for (int32_t i = 0; i < e->plan->ranks; i++)
        if (i < e->first || i >= e->end) atomic_store(&e->rank[i].completed, ticks);
    if (atomic_load(&e->in_window)) ppl_exec_ring_all(e);
}

static ppl_status hear(ppl_exec *e, int32_t from, const ppl_words *words, const void *data, size_t bytes) {
    switch ((said)words->kind) {
    case SAID_SUMS: return sums_hear(e, from, words, data, bytes / sizeof(double));
    case SAID_NORM: norm_hear(e, words); return PPL_OK;
    case SAID_DONE: return done_hear(e, words, data, bytes);
    case SAID_COMPLETED: completed_hear(e, words->a); return PPL_OK;
    case SAID_MEET: return meet_hear(e);
    case SAID_MET:
        atomic_store(&e->meetings, words->a);
        ppl_exec_ring_all(e);
        return PPL_OK;
    case SAID_INTERRUPT: return freeze(e);
    case SAID_FREEZE: return tell(e, 0, (ppl_words){.kind = SAID_BEGUN, .a = ppl_gate_freeze(e)}, NULL, 0);
    case SAID_BEGUN: return begun_hear(e, words->a);
    case SAID_LIMIT: return limit_set(e, words->a);
    case SAID_FAULT: return ppl_fail((ppl_status)words->a, "%.*s", (int)bytes, (const char *)data);
    case SAID_PULSE: pulse_hear(e, from, data, bytes / sizeof(mark)); return PPL_OK;
    }
    return ppl_fail(PPL_ERR_DEVICE, "process %d: words of kind %d, want one of 0..%d", from, words->kind, SAID_PULSE);
}

static void handle(void *self, int32_t from, const ppl_words *words, const void *data, size_t bytes) {
    ppl_exec *e = self;
    atomic_store(&e->peers.heard[from], ppl_now());
    ppl_status st = hear(e, from, words, data, bytes);
    if (st != PPL_OK) ppl_exec_fault(e, st);
}

// ---- what this process says ----

ppl_status ppl_peers_begin(ppl_exec *e) {
    ppl_peers *p = &e->peers;
    if (!p->world) return PPL_OK;
    atomic_store(&p->limit, -1);
    p->frozen = 0;
    p->most_begun = 0;
    p->completed = e->side[e->range_side].ticks;
    for (int32_t i = 0; i < p->world->processes; i++) atomic_store(&p->heard[i], ppl_now());
    ppl_world_round(p->world, handle, e);
    return PPL_OK;
}

ppl_status ppl_peers_poll(ppl_exec *e, bool try) {
    ppl_world *w = e->peers.world;
    if (!try) pthread_mutex_lock(&w->lock);
    else if (pthread_mutex_trylock(&w->lock)) return PPL_OK;
    ppl_status st = ppl_world_poll(w);
    if (st == PPL_OK) st = ppl_world_lose(w, e->options.link->poll(e->side[e->range_side].link));
    pthread_mutex_unlock(&w->lock);
    return st;
}

ppl_status ppl_peers_sums(ppl_exec *e, int64_t tick, int64_t step) {
    const ppl_board_slot *slot = ppl_board_at(e, tick);
    const ppl_graph *g = e->plan->stages->graph;
    bool clipped = atomic_load(&slot->clipped) == tick + 1;
    return tell(e, 0, (ppl_words){.kind = SAID_SUMS, .rank = clipped, .a = tick, .b = step}, slot->sums,
                (g ? g->n_params : 0) * sizeof(double));
}

ppl_status ppl_peers_norm(ppl_exec *e, int64_t tick, int64_t step) {
    const ppl_board_slot *slot = ppl_board_at(e, tick);
    return tell_all(e, (ppl_words){.kind = SAID_NORM, .a = tick, .b = step, .x = slot->norm, .y = slot->scale}, NULL,
                    0);
}

ppl_status ppl_peers_done(ppl_rank *r, int64_t tick, int64_t step, const ppl_span *row, int64_t link_bytes) {
    ppl_exec *e = r->exec;
    const ppl_plan *p = e->side[e->range_side].plan;
    int64_t count = row ? p->rank[r->rank].count : 0;
    ppl_span *spans = r->report;
    for (int64_t i = 0; i < count; i++) { // on the clock of process 0
        spans[i] = row[i];
        spans[i].begin += e->peers.world->clock;
        spans[i].end += e->peers.world->clock;
        if (spans[i].middle) spans[i].middle += e->peers.world->clock;
    }
    size_t bytes = (size_t)count * sizeof *spans, losses = (size_t)p->microbatches * sizeof(double);
    if (p->stage_rank[p->stages->count - 1] == r->rank) {
        memcpy((char *)r->report + bytes, &e->peers.losses[tick % PPL_EXEC_AHEAD * p->microbatches], losses);
        bytes += losses;
    }
    ppl_words words = {.kind = SAID_DONE, .rank = r->rank, .a = tick, .b = step};
    words.x = r->peak_live;
    words.y = (double)link_bytes;
    return tell(e, 0, words, r->report, bytes);
}

ppl_status ppl_peers_completed(ppl_exec *e) {
    if (!ppl_exec_leads(e)) return PPL_OK;
    ppl_world *w = e->peers.world;
    ppl_status st = PPL_OK;
    pthread_mutex_lock(&w->lock);
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < e->plan->ranks; i++) {
        int64_t completed = atomic_load(&e->rank[i].completed);
        if (completed < least) least = completed;
    }
    if (least > e->peers.completed) {
        e->peers.completed = least;
        st = tell_all(e, (ppl_words){.kind = SAID_COMPLETED, .a = least}, NULL, 0);
    }
    pthread_mutex_unlock(&w->lock);
    return st;
}

ppl_status ppl_peers_meet(ppl_exec *e) {
    if (!ppl_exec_leads(e)) return tell(e, 0, (ppl_words){.kind = SAID_MEET}, NULL, 0);
    pthread_mutex_lock(&e->peers.world->lock);
    ppl_status st = meet_hear(e);
    pthread_mutex_unlock(&e->peers.world->lock);
    return st;
}

// Best effort: who cannot be told any more is found silent.
void ppl_peers_fault(ppl_exec *e) {
    ppl_words words = {.kind = SAID_FAULT, .a = e->fault};
    if (ppl_exec_leads(e)) tell_all(e, words, e->fault_text, strlen(e->fault_text));
    else tell(e, 0, words, e->fault_text, strlen(e->fault_text));
}

ppl_status ppl_peers_pulse(ppl_exec *e) {
    mark *marks = e->peers.marks;
    if (ppl_exec_leads(e)) return tell_all(e, (ppl_words){.kind = SAID_PULSE}, NULL, 0);
    int32_t n = 0;
    for (int32_t i = e->first; i < e->end; i++) {
        ppl_rank *r = &e->rank[i];
        marks[n++] = (mark){.pulse = atomic_load_explicit(&r->pulse, memory_order_relaxed),
                            .at = atomic_load_explicit(&r->at, memory_order_relaxed),
                            .step = atomic_load_explicit(&r->step, memory_order_relaxed),
                            .tick = atomic_load_explicit(&r->tick, memory_order_relaxed),
                            .where = atomic_load_explicit(&r->where, memory_order_relaxed)};
    }
    return tell(e, 0, (ppl_words){.kind = SAID_PULSE}, marks, (size_t)n * sizeof *marks);
}

// An interrupt of this process goes to process 0.
ppl_status ppl_peers_interrupt(ppl_exec *e) {
    if (!atomic_load_explicit(&e->peers.wants_stop, memory_order_relaxed)) return PPL_OK;
    if (!atomic_exchange(&e->peers.wants_stop, false)) return PPL_OK;
    if (!ppl_exec_leads(e)) return tell(e, 0, (ppl_words){.kind = SAID_INTERRUPT}, NULL, 0);
    pthread_mutex_lock(&e->peers.world->lock);
    ppl_status st = freeze(e);
    pthread_mutex_unlock(&e->peers.world->lock);
    return st;
}

// ---- for the caller that waits ----

// Where this process's own ranks stopped, all others stop too.
static bool has_ended(const ppl_exec *e, int32_t process) {
    int64_t own = atomic_load(&e->rank[e->first].completed);
    for (int32_t i = 0; i < e->plan->ranks; i++)
        if (ppl_plan_process(e->plan, i) == process && atomic_load(&e->rank[i].completed) < own) return false;
    return atomic_load(&e->running) == 0;
}

bool ppl_peers_end(const ppl_exec *e) {
    if (!e->peers.world || !ppl_exec_leads(e) || atomic_load(&e->stop)) return true;
    for (int32_t p = 1; p < e->peers.world->processes; p++)
        if (!has_ended(e, p)) return false;
    return true;
}

ppl_status ppl_peers_silent(ppl_exec *e, int64_t now, double limit) {
    ppl_world *w = e->peers.world;
    if ((double)(now - e->peers.looked) > limit * 1e9 / 2) // this process itself was held up: nobody was listened to
        for (int32_t p = 0; p < w->processes; p++) atomic_store(&e->peers.heard[p], now);
    e->peers.looked = now;
    int32_t first = ppl_exec_leads(e) ? 1 : 0, end = ppl_exec_leads(e) ? w->processes : 1;
    for (int32_t p = first; p < end; p++) {
        if ((double)(now - atomic_load(&e->peers.heard[p])) < limit * 1e9 || (p && has_ended(e, p))) continue;
        int32_t rank = 0;
        while (ppl_plan_process(e->plan, rank) < p) rank++;
        return ppl_world_lose(w, ppl_fail(PPL_ERR_STALL,
                                          "run: process %d, which holds ranks from %d on, has not been heard of for "
                                          "%.3g s, want a sign of life within %.3g s",
                                          p, rank, limit, limit));
    }
    return PPL_OK;
}
