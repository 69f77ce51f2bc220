// simulate.c - a plan over costs instead of clocks. Before: plan.h. After: trace.h, as if it had run.
//
// Each rank does its tasks in order; a task begins when the one before it and what it waits for are done. Nothing else is
// shared between ranks, so times follow in any order that respects the waits: the walk's (plan/walk.h). A directed link
// carries one message after the other; all of them come from one rank, in the order of its time. Steps are chained. A use's
// times are kept once, not once a step: a credit of the next step is asked for, and passes, before they change.
#include "plan/walk.h"
#include "sim/costs.h"
#include "trace/trace.h"

enum { WAITS_NORM = -2 };                      // in ppl_walk.waits, beside edges and -1
static const size_t TRACE_BYTES = 256u << 20u; // what a simulated trace may take: as many of the newest steps as fit

typedef struct rank_state {
    double now;
    double begin, end, busy; // of the last step's computation
    double all;              // of computation between its begin and its end, whatever step it was for
    int32_t norm_step;       // the last step whose norm it has come to; -1 none
} rank_state;

typedef struct norm_state { // of an even and an odd step
    double when;            // the last rank's arrival
    int32_t step, count;
} norm_state;

typedef struct sim {
    ppl_walk walk;
    const ppl_costs *costs;
    ppl_cost_links links;
    double *link_free;   // [links]: seconds
    ppl_link_load *load; // [links]: of the last step
    double norm_latency;
    int32_t steps;
    bool norms; // someone waits for norms
    ppl_trace *trace;
    rank_state *rank;
    norm_state norm[2];
    double *there;      // as walk.freed: when the reader may see the use, seconds
    double *freed;      // as walk.freed
    double step_end[2]; // of the last step but one, and of the last
} sim;

static double later(double a, double b) {
    return a > b ? a : b;
}

static int64_t nanoseconds(double seconds) {
    return seconds < PPL_COSTS_LONGEST ? (int64_t)(seconds * 1e9 + 0.5) : INT64_MAX;
}

static double credit(const sim *s, const ppl_task *t, int32_t step, double now) {
    const ppl_edge_plan *e = &s->walk.plan->edge[t->edge];
    int32_t back, former = ppl_walk_former(s->walk.plan, t, &back), from = ppl_plan_edge_rank(s->walk.plan, t->edge);
    for (int32_t i = 0; step >= back && i < e->n_readers; i++)
        if (e->reader_rank[i] != from) now = later(now, s->freed[ppl_walk_entry(&s->walk, t->edge, i, former)]);
    return now;
}

static void release(sim *s, const ppl_task *t, double now) {
    s->freed[ppl_walk_entry(&s->walk, t->edge, t->slot, t->sequence)] = now;
    ppl_walk_release(&s->walk, t);
}

static void arrive(sim *s, int32_t rank, int32_t step) {
    norm_state *n = &s->norm[step & 1];
    if (s->rank[rank].norm_step == step) return;
    s->rank[rank].norm_step = step;
    if (n->step != step) *n = (norm_state){.step = step};
    n->when = later(n->when, s->rank[rank].now);
    if (++n->count < s->walk.plan->ranks) return;
    for (int32_t r = 0; r < s->walk.plan->ranks; r++) ppl_walk_wake(&s->walk, r, WAITS_NORM);
}

// When the norms of all ranks for `step` are known on this one; false: not yet.
static bool norm_known(const sim *s, int32_t step, double *now) {
    const norm_state *n = &s->norm[step & 1];
    if (n->step != step || n->count < s->walk.plan->ranks) return false;
    *now = later(*now, n->when + s->norm_latency);
    return true;
}

static void count_message(ppl_link_load *l, double bytes, double free_before, double sent, double free_after,
                          double there) {
    double begin = later(sent, free_before);
    l->messages++;
    l->bytes += (int64_t)bytes;
    l->busy += free_after - begin;
    l->queued += begin - sent;
    l->longest = later(l->longest, there - sent);
}

static void publish(sim *s, const ppl_task *t, int32_t step, double now) {
    const ppl_edge_plan *e = &s->walk.plan->edge[t->edge];
    double bytes = s->links.bytes[t->edge];
    for (int32_t i = 0; i < e->n_readers; i++) {
        int32_t at = s->links.of[t->edge][i];
        if (at < 0) continue;
        double before = s->link_free[at], jitter = ppl_costs_message_jitter(s->costs, step, t->edge, i, t->sequence);
        double there = ppl_cost_link_send(&s->links.link[at], bytes, jitter, now, &s->link_free[at]);
        s->there[ppl_walk_entry(&s->walk, t->edge, i, t->sequence)] = there;
        if (step == s->steps - 1) count_message(&s->load[at], bytes, before, now, s->link_free[at], there);
    }
    ppl_walk_send(&s->walk, t);
}

// Seconds of a program.
static double takes(const sim *s, const ppl_task *t, int32_t step, const double *of, int32_t phase) {
    return of[t->stage] * ppl_costs_program_jitter(s->costs, step, t->stage, phase, t->microbatch);
}

// Runs the rank's next task; false: it must wait.
static bool run_task(sim *s, int32_t rank, const ppl_task *t, int32_t step, ppl_span *span) {
    ppl_walk *w = &s->walk;
    const ppl_costs *c = s->costs;
    rank_state *r = &s->rank[rank];
    double begin = r->now, middle = 0, end = begin;
    switch ((ppl_task_kind)t->kind) {
    case PPL_TASK_CREDIT:
        w->waits[rank] = t->edge;
        if (!ppl_walk_credit(w, t, step)) return false;
        end = credit(s, t, step, begin);
        break;
    case PPL_TASK_RECEIVE:
        w->waits[rank] = t->edge;
        if (!ppl_walk_receive(w, t, step)) return false;
        end = later(begin, s->there[ppl_walk_entry(w, t->edge, t->slot, t->sequence)]);
        if (w->plan->edge[t->edge].reader_buffers[t->slot]) release(s, t, end);
        break;
    case PPL_TASK_F: end += takes(s, t, step, c->f, PPL_PHASE_F); break;
    case PPL_TASK_B:
        middle = begin + takes(s, t, step, c->i, PPL_PHASE_I);
        end = middle + takes(s, t, step, c->w, PPL_PHASE_W);
        break;
    case PPL_TASK_I: end += takes(s, t, step, c->i, PPL_PHASE_I); break;
    case PPL_TASK_W: end += takes(s, t, step, c->w, PPL_PHASE_W); break;
    case PPL_TASK_SEND: publish(s, t, step, begin); break;
    case PPL_TASK_RELEASE: release(s, t, begin); break;
    case PPL_TASK_NORM:
        middle = begin; // it has no work of its own here
        if (!s->norms) break;
        arrive(s, rank, step);
        w->waits[rank] = WAITS_NORM;
        if (c->barrier && !norm_known(s, step, &end)) return false;
        break;
    case PPL_TASK_UPDATE: end += c->update; break;
    case PPL_TASK_VALIDATE:
        w->waits[rank] = WAITS_NORM;
        if (step && !norm_known(s, step - 1, &end)) return false;
        break;
    case PPL_TASK_KINDS: break;
    }
    w->waits[rank] = -1;
    r->now = end;
    *span = (ppl_span){.begin = nanoseconds(begin), .end = nanoseconds(end), .middle = nanoseconds(middle)};
    return true;
}

static bool computes(const ppl_task *t) {
    return (t->kind >= PPL_TASK_F && t->kind <= PPL_TASK_W) || t->kind == PPL_TASK_UPDATE;
}

static void run_rank(sim *s, int32_t rank) {
    ppl_walk *w = &s->walk;
    rank_state *r = &s->rank[rank];
    int32_t step;
    for (const ppl_task *t; (t = ppl_walk_task(w, rank, &step)); w->at[rank]++) {
        double begin = r->now;
        if (!run_task(s, rank, t, step, ppl_trace_row(s->trace, rank, step) + (t - w->plan->rank[rank].tasks))) return;
        int32_t left = s->steps - 1 - step;
        if (left < 2) s->step_end[1 - left] = later(s->step_end[1 - left], r->now);
        if (!computes(t) || (left && r->begin < 0)) continue;
        if (r->begin < 0) r->begin = begin;
        r->all += r->now - begin;
        if (left) continue;
        r->end = r->now;
        r->busy += r->now - begin;
    }
}

static void sum_up(const sim *s, ppl_sim_result *out) {
    int32_t ranks = s->walk.plan->ranks;
    *out = (ppl_sim_result){.makespan = s->step_end[1]}; // the first task begins at 0
    out->iteration = s->steps > 1 ? s->step_end[1] - s->step_end[0] : s->step_end[1];
    for (int32_t r = 0; r < ranks; r++) {
        const rank_state *k = &s->rank[r];
        out->busy += k->busy;
        out->span_idle = later(out->span_idle, k->end - k->begin - k->all);
    }
    double idle = later(0, out->iteration * ranks - out->busy);
    if (out->iteration > 0) out->bubble_ratio = idle / (out->iteration * ranks);
    if (out->busy > 0) out->bubble_overhead = idle / out->busy;
}

static ppl_status open_trace(const ppl_plan *p, int32_t steps, ppl_trace **out) {
    size_t row = 1;
    for (int32_t r = 0; r < p->ranks; r++) row += (size_t)p->rank[r].count * sizeof(ppl_span);
    size_t fit = TRACE_BYTES / row, kept = fit < 1 ? 1 : fit < (size_t)steps ? fit : (size_t)steps;
    PPL_TRY(ppl_trace_build_rows(p, (int32_t)kept, (int32_t)kept, out));
    (*out)->origin = 0;
    return PPL_OK;
}

static ppl_status open_sim(sim *s, ppl_arena *arena, const ppl_plan *p) {
    PPL_TRY(ppl_walk_init(&s->walk, p, s->steps));
    PPL_TRY(ppl_cost_links_build(arena, "simulation", p, s->costs, &s->links));
    size_t links = (size_t)s->links.count;
    s->rank = ppl_arena_get(arena, (size_t)p->ranks * sizeof *s->rank);
    s->freed = ppl_arena_get(arena, s->walk.entries * sizeof *s->freed);
    s->there = ppl_arena_get(arena, s->walk.entries * sizeof *s->there);
    s->link_free = ppl_arena_get(arena, links * sizeof *s->link_free);
    s->load = ppl_alloc(links * sizeof *s->load);
    if (!s->rank || !s->freed || !s->there || !s->link_free || !s->load) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < links; i++)
        s->load[i] = (ppl_link_load){.from = s->links.link[i].from, .to = s->links.link[i].to};
    for (int32_t r = 0; r < p->ranks; r++) s->rank[r] = (rank_state){.begin = -1, .norm_step = -1};
    s->norms = s->costs->barrier || p->options.validate;
    s->norm_latency = ppl_costs_latency(s->costs, p->ranks);
    s->norm[0].step = s->norm[1].step = -1;
    return open_trace(p, s->steps, &s->trace);
}

static ppl_status run(sim *s, ppl_sim_result *out) {
    while (s->walk.n_ready) run_rank(s, s->walk.ready[--s->walk.n_ready]);
    if (s->step_end[1] > PPL_COSTS_LONGEST)
        return ppl_fail(PPL_ERR_ARG,
                        "simulation: the steps take %g seconds, want %g at most: lower costs, or fewer steps",
                        s->step_end[1], PPL_COSTS_LONGEST);
    for (int32_t k = s->trace->steps; k > 0; k--) ppl_trace_done(s->trace, s->steps - k);
    sum_up(s, out);
    return PPL_OK;
}

static void keep(sim *s, ppl_plan *p) {
    ppl_trace_free(p->trace);
    ppl_free(p->load);
    p->trace = s->trace;
    p->load = s->load;
    p->n_load = s->links.count;
}

ppl_status ppl_plan_simulate(ppl_plan *p, const ppl_costs *costs, int32_t steps, ppl_sim_result *out) {
    if (steps < 1) return ppl_fail(PPL_ERR_ARG, "simulation: %d steps, want at least 1", steps);
    PPL_TRY(ppl_costs_check("simulation", costs, p->stages->count));
    ppl_arena arena = {0};
    sim s = {.costs = costs, .steps = steps};
    ppl_status st = open_sim(&s, &arena, p);
    if (st == PPL_OK) st = run(&s, out);
    if (st == PPL_OK) {
        keep(&s, p);
    } else {
        ppl_trace_free(s.trace);
        ppl_free(s.load);
    }
    ppl_walk_clear(&s.walk);
    ppl_arena_clear(&arena);
    return st;
}
