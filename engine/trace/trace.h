// trace.h - what happened: the begin and end of every task, in rings allocated when the plan is built. Written by the
// executor's task loop (and by the simulator), read between steps.
#ifndef PPL_TRACE_TRACE_H
#define PPL_TRACE_TRACE_H
#include "plan/plan.h"

typedef struct ppl_span { // 24 bytes: one task of one step; which task it was follows from its place
    int64_t begin, end;   // ppl_now nanoseconds
    int64_t middle;       // of a B: the end of its I part; else 0
} ppl_span;

typedef struct ppl_trace {
    const ppl_plan *plan; // borrowed
    int32_t steps;        // kept
    ppl_span **span;      // [ranks]: [steps][tasks of the rank]
    int64_t *step_of;     // [steps]: which step is in it; -1 none
    int64_t origin;       // ppl_now at the start
} ppl_trace;

ppl_status ppl_trace_build(const ppl_plan *plan, int32_t steps, ppl_trace **out);
void ppl_trace_free(ppl_trace *t);
// The row of a step's spans of a rank; the executor writes it, then calls ppl_trace_done once all ranks have finished it.
static inline ppl_span *ppl_trace_row(ppl_trace *t, int32_t rank, int64_t step) {
    return t->span[rank] + (size_t)(step % t->steps) * (size_t)t->plan->rank[rank].count;
}
void ppl_trace_done(ppl_trace *t, int64_t step);
ppl_status ppl_trace_events(const ppl_trace *t, int64_t step, ppl_event *events, int64_t max, int64_t *count);
ppl_status ppl_trace_write(const ppl_trace *t, const char *path); // Chrome trace

typedef struct ppl_trace_rank { // of one rank over the kept steps, seconds a step
    double busy, wait, span_idle, iteration;
    int32_t waits_for; // -1 none
} ppl_trace_rank;
void ppl_trace_rank_stats(const ppl_trace *t, int32_t rank, ppl_trace_rank *out);
// Durations of one stage's part over the kept steps: median and 95th percentile, and how many. phase as in a B's two parts.
void ppl_trace_stage_stats(const ppl_trace *t, int32_t stage, int32_t phase, double *median, double *p95, int64_t *samples);
// Idle / iteration over all ranks in one kept step.
double ppl_trace_bubble(const ppl_trace *t, int64_t step);

#endif
