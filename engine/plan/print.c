// print.c - a plan read from outside: lengths, lists, and one task for people.
#include "plan/plan.h"
#include "trace/trace.h"
#include <stdio.h>

static const char *const kind_name[] = {
    [PPL_TASK_CREDIT] = "credit",
    [PPL_TASK_RECEIVE] = "receive",
    [PPL_TASK_F] = "F",
    [PPL_TASK_B] = "B",
    [PPL_TASK_I] = "I",
    [PPL_TASK_W] = "W",
    [PPL_TASK_SEND] = "send",
    [PPL_TASK_RELEASE] = "release",
    [PPL_TASK_NORM] = "norm",
    [PPL_TASK_UPDATE] = "update",
    [PPL_TASK_VALIDATE] = "validate",
};
_Static_assert(sizeof kind_name / sizeof *kind_name == PPL_TASK_KINDS, "a name for each kind of task");

static const ppl_rank_plan *rank_of(const ppl_plan *p, int32_t rank) {
    static const ppl_rank_plan none;
    return rank < 0 || rank >= p->ranks ? &none : &p->rank[rank];
}

int32_t ppl_plan_ranks(const ppl_plan *p) {
    return p->ranks;
}
int64_t ppl_plan_length(const ppl_plan *p, int32_t rank) {
    return rank_of(p, rank)->count;
}
const ppl_task *ppl_plan_tasks(const ppl_plan *p, int32_t rank) {
    return rank_of(p, rank)->tasks;
}
int32_t ppl_plan_peak_live(const ppl_plan *p, int32_t rank) {
    return rank_of(p, rank)->peak_live;
}
int32_t ppl_plan_edges(const ppl_plan *p) {
    return p->stages->n_edges;
}
int32_t ppl_plan_versions(const ppl_plan *p, int32_t stage) {
    return stage < 0 || stage >= p->stages->count ? 0 : p->layout[stage].versions;
}
int64_t ppl_plan_ahead(const ppl_plan *p, int32_t rank) {
    return rank_of(p, rank)->ahead;
}
int64_t ppl_plan_turn(const ppl_plan *p, int32_t rank, int64_t k) {
    const ppl_rank_plan *r = rank_of(p, rank);
    return k < 0 || k >= r->count ? -1 : r->turns ? r->turns[k] : k;
}
int32_t ppl_plan_uses(const ppl_plan *p, int32_t edge) {
    return p->stages->edges[edge].kind == PPL_U ? 1 : p->microbatches;
}
int32_t ppl_plan_edge_rank(const ppl_plan *p, int32_t edge) {
    return p->stage_rank[p->stages->edges[edge].src];
}

// Of two actions that may overlap.
static bool is_second(const ppl_plan *p, int32_t rank, const ppl_task *t) {
    const ppl_action *a = t->action > 0 ? &p->actions->rank[rank].actions[t->action] : NULL;
    return a && a->overlap && a[-1].overlap == a->overlap;
}

void ppl_task_print(const ppl_plan *p, int32_t rank, int64_t at, char *text) {
    enum { BYTES = 128 };
    const ppl_rank_plan *r = rank_of(p, rank);
    if (at < 0 || at >= r->count) {
        snprintf(text, BYTES, "no task %lld on rank %d", (long long)at, rank);
        return;
    }
    const ppl_task *t = &r->tasks[at];
    int n = snprintf(text, BYTES, "%lld %s", (long long)at, kind_name[t->kind]);
    char *rest = text + n;
    size_t room = BYTES - (size_t)n;
    switch ((ppl_task_kind)t->kind) {
    case PPL_TASK_CREDIT:
    case PPL_TASK_RECEIVE:
    case PPL_TASK_SEND:
    case PPL_TASK_RELEASE:
        snprintf(rest, room, " %d%c%d edge %d buffer %d%s", t->stage, ppl_kind_letter[p->stages->edges[t->edge].kind],
                 t->microbatch, t->edge, t->buffer, at < r->ahead ? " ahead" : "");
        return;
    case PPL_TASK_F:
    case PPL_TASK_B:
    case PPL_TASK_I:
    case PPL_TASK_W: // the kind's name is the letter: "7 2F5 slot 1"
        n = snprintf(text, BYTES, "%lld %d%s%d slot %d", (long long)at, t->stage, kind_name[t->kind], t->microbatch,
                     t->slot);
        if (t->pending >= 0) n += snprintf(text + n, BYTES - (size_t)n, " pending %d", t->pending);
        if (ppl_plan_flows(p)) n += snprintf(text + n, BYTES - (size_t)n, " version %d", t->version);
        if (is_second(p, rank, t)) n += snprintf(text + n, BYTES - (size_t)n, " beside");
        if (at < r->ahead) snprintf(text + n, BYTES - (size_t)n, " ahead");
        return;
    case PPL_TASK_UPDATE:
        n = snprintf(rest, room, " %d", t->stage);
        if (ppl_plan_flows(p)) snprintf(rest + n, room - (size_t)n, " version %d", t->version);
        return;
    case PPL_TASK_NORM:
    case PPL_TASK_VALIDATE:
    case PPL_TASK_KINDS: return;
    }
}

ppl_status ppl_plan_events(const ppl_plan *p, int32_t step, ppl_event *events, int64_t max, int64_t *count) {
    *count = 0;
    if (!p->trace) return ppl_fail(PPL_ERR_ARG, "plan %s: no events, want ppl_plan_simulate before", p->schedule);
    return ppl_trace_events(p->trace, step, events, max, count);
}

ppl_status ppl_plan_links(const ppl_plan *p, ppl_link_load *out, int32_t max, int32_t *count) {
    *count = 0;
    if (!p->trace) return ppl_fail(PPL_ERR_ARG, "plan %s: no links, want ppl_plan_simulate before", p->schedule);
    for (int32_t i = 0; i < p->n_load && i < max; i++) out[i] = p->load[i];
    *count = p->n_load;
    return PPL_OK;
}

ppl_status ppl_plan_write_trace(const ppl_plan *p, const char *path) {
    if (!p->trace) return ppl_fail(PPL_ERR_ARG, "plan %s: no trace, want ppl_plan_simulate before", p->schedule);
    return ppl_trace_write(p->trace, path);
}
