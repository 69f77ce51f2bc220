// trace.c - the rings of spans and their reading as events. Before: exec's task loop or the simulator fills them. After:
// stats.c and chrome.c.
#include "trace/trace.h"
#include "base/clock.h"

ppl_status ppl_trace_build(const ppl_plan *plan, int32_t steps, ppl_trace **out) {
    return ppl_trace_build_rows(plan, steps, steps + PPL_TRACE_AHEAD, out);
}

ppl_status ppl_trace_build_rows(const ppl_plan *plan, int32_t steps, int32_t rows, ppl_trace **out) {
    if (steps < 1) return ppl_fail(PPL_ERR_ARG, "trace: keeps %d steps, want at least 1", steps);
    ppl_trace *t = ppl_alloc(sizeof *t);
    if (!t) return PPL_ERR_MEMORY;
    t->plan = plan;
    t->steps = steps;
    t->rows = rows;
    t->last = -1;
    t->origin = ppl_now();
    t->step_of = ppl_alloc((size_t)t->rows * sizeof *t->step_of);
    t->span = ppl_alloc((size_t)plan->ranks * sizeof *t->span);
    if (!t->step_of || !t->span) goto fail;
    for (int32_t i = 0; i < t->rows; i++) t->step_of[i] = -1;
    for (int32_t rank = 0; rank < plan->ranks; rank++) {
        t->span[rank] = ppl_alloc((size_t)t->rows * (size_t)plan->rank[rank].count * sizeof **t->span);
        if (!t->span[rank]) goto fail;
    }
    *out = t;
    return PPL_OK;
fail:
    ppl_trace_free(t);
    return PPL_ERR_MEMORY;
}

void ppl_trace_free(ppl_trace *t) {
    if (!t) return;
    for (int32_t rank = 0; t->span && rank < t->plan->ranks; rank++) ppl_free(t->span[rank]);
    ppl_free(t->span);
    ppl_free(t->step_of);
    ppl_free(t);
}

size_t ppl_trace_bytes(const ppl_trace *t) {
    size_t bytes = sizeof *t;
    for (int32_t rank = 0; rank < t->plan->ranks; rank++)
        bytes += (size_t)t->rows * (size_t)t->plan->rank[rank].count * sizeof **t->span;
    return bytes;
}

// The two marks are written by rank threads while others may read those of older steps.
void ppl_trace_begin(ppl_trace *t, int64_t step) {
    __atomic_store_n(&t->step_of[step % t->rows], -1, __ATOMIC_RELAXED);
}

void ppl_trace_done(ppl_trace *t, int64_t step) {
    __atomic_store_n(&t->step_of[step % t->rows], step, __ATOMIC_RELAXED);
    __atomic_store_n(&t->last, step, __ATOMIC_RELEASE);
}

static bool is_present(const ppl_trace *t, int64_t step) {
    return step >= 0 && __atomic_load_n(&t->step_of[step % t->rows], __ATOMIC_RELAXED) == step;
}

static bool is_kept(const ppl_trace *t, int64_t step) {
    int64_t last = __atomic_load_n(&t->last, __ATOMIC_ACQUIRE);
    return step <= last && step > last - t->steps && is_present(t, step);
}

int32_t ppl_trace_kept(const ppl_trace *t, int64_t *steps) {
    int64_t last = __atomic_load_n(&t->last, __ATOMIC_ACQUIRE);
    int32_t n = 0;
    for (int64_t step = last - t->steps + 1; step <= last; step++)
        if (is_kept(t, step)) steps[n++] = step;
    return n;
}

const ppl_span *ppl_trace_find(const ppl_trace *t, int32_t rank, int64_t step) {
    if (rank < 0 || rank >= t->plan->ranks || !is_kept(t, step)) return NULL;
    return ppl_trace_before(t, rank, step + 1);
}

const ppl_span *ppl_trace_before(const ppl_trace *t, int32_t rank, int64_t step) {
    step--;
    if (!is_present(t, step)) return NULL;
    return t->span[rank] + (size_t)(step % t->rows) * (size_t)t->plan->rank[rank].count;
}

int32_t ppl_trace_peer(const ppl_plan *p, const ppl_task *task) {
    if (task->edge < 0) return -1;
    int32_t from = ppl_plan_edge_rank(p, task->edge);
    if (task->kind == PPL_TASK_RECEIVE || task->kind == PPL_TASK_RELEASE) return from;
    const ppl_edge_plan *e = &p->edge[task->edge];
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != from) return e->reader_rank[i];
    return -1;
}

ppl_status ppl_trace_events(const ppl_trace *t, int64_t step, ppl_event *events, int64_t max, int64_t *count) {
    if (!is_kept(t, step)) {
        return ppl_fail(PPL_ERR_ARG, "trace: step %lld is not kept, want one of the newest %d up to %lld",
                        (long long)step, t->steps, (long long)t->last);
    }
    int64_t n = 0;
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) {
        const ppl_rank_plan *r = &t->plan->rank[rank];
        const ppl_span *span = ppl_trace_find(t, rank, step);
        for (int64_t at = 0; at < r->count; at++, n++) {
            if (n >= max) continue;
            const ppl_task *task = &r->tasks[at];
            events[n] = (ppl_event){.begin = (double)(span[at].begin - t->origin) * 1e-9,
                                    .end = (double)(span[at].end - t->origin) * 1e-9,
                                    .step = (int32_t)step,
                                    .rank = rank,
                                    .stage = task->stage,
                                    .microbatch = task->microbatch,
                                    .edge = task->edge,
                                    .peer = ppl_trace_peer(t->plan, task),
                                    .kind = task->kind};
        }
    }
    *count = n;
    return PPL_OK;
}
