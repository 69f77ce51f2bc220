// trace.h - what happened: the begin and end of every task, in rings allocated when the plan is built. Written by the
// executor's task loop (and by the simulator), read between steps.
#ifndef PPL_TRACE_TRACE_H
#define PPL_TRACE_TRACE_H
#include "plan/plan.h"

typedef struct ppl_span { // 24 bytes: one task of one step; which task it was follows from its place
    int64_t begin, end;   // ppl_now nanoseconds
    int64_t middle; // of a B: the end of its I part; of a NORM: where its own work ends and waiting begins; else 0
} ppl_span;

enum { PPL_TRACE_AHEAD = 4 }; // steps by which the fastest rank may be ahead of the last one that is done

typedef struct ppl_trace {
    const ppl_plan *plan; // borrowed
    int32_t steps;        // kept: the newest that are done
    int32_t rows;     // at least steps; the executor's are PPL_TRACE_AHEAD more: a rank ahead overwrites no kept step
    ppl_span **span;  // [ranks]: [rows][tasks of the rank]
    int64_t *step_of; // [rows]: which finished step is in it; -1 none
    int64_t last;     // the last step that was done; -1 none
    int64_t origin;   // ppl_now at the start
} ppl_trace;

ppl_status ppl_trace_build(const ppl_plan *plan, int32_t steps, ppl_trace **out);
// For who reads only when all is written: rows may be as few as steps.
ppl_status ppl_trace_build_rows(const ppl_plan *plan, int32_t steps, int32_t rows, ppl_trace **out);
void ppl_trace_free(ppl_trace *t);
// The row of a step's spans of a rank; the executor writes it, then calls ppl_trace_done once all ranks have finished it.
static inline ppl_span *ppl_trace_row(ppl_trace *t, int32_t rank, int64_t step) {
    return t->span[rank] + (size_t)(step % t->rows) * (size_t)t->plan->rank[rank].count;
}
void ppl_trace_begin(ppl_trace *t, int64_t step); // by every rank before it writes its row: what was there is gone
void ppl_trace_done(ppl_trace *t, int64_t step);
ppl_status ppl_trace_events(const ppl_trace *t, int64_t step, ppl_event *events, int64_t max, int64_t *count);
ppl_status ppl_trace_write(const ppl_trace *t, const char *path); // Chrome trace
size_t ppl_trace_bytes(const ppl_trace *t);

// The kept steps in ascending order; returns how many. steps: room for t->steps of them.
int32_t ppl_trace_kept(const ppl_trace *t, int64_t *steps);
// The kept row of a step; NULL when it is not kept.
const ppl_span *ppl_trace_find(const ppl_trace *t, int32_t rank, int64_t step);
// The row of the step before a kept one, which is there still even where it is no longer kept; NULL where there was none.
const ppl_span *ppl_trace_before(const ppl_trace *t, int32_t rank, int64_t step);
// The rank that a task waits for or hands a value to; -1 none. Of several readers, the first on another rank.
int32_t ppl_trace_peer(const ppl_plan *p, const ppl_task *task);

// What is busy: F, B, I, W, UPDATE and NORM's own sums. What is a wait: CREDIT, RECEIVE, VALIDATE and the rest of NORM.
// Iteration time of a step: from the end of the step before it (or from its own first busy task, where that began later or
// there was no step before) to its own end over all ranks.
typedef struct ppl_trace_rank {              // of one rank over the kept steps, seconds a step
    double busy, wait, span_idle, iteration; // span_idle: not busy between the step's first and last busy task there
    int32_t waits_for;                       // the rank it waited for longest; -1 none
} ppl_trace_rank;
void ppl_trace_rank_stats(const ppl_trace *t, int32_t rank, ppl_trace_rank *out);
// Durations of one stage's part over the kept steps: median and 95th percentile, and how many. phase as in a B's two
// parts; PPL_PHASES: the stage's updates.
void ppl_trace_stage_stats(const ppl_trace *t, int32_t stage, int32_t phase, double *median, double *p95,
                           int64_t *samples);
// Seconds from a send to its reader's seeing it, median over the receives that were already waiting; 0 where none was.
double ppl_trace_edge_median(const ppl_trace *t, int32_t edge, int32_t reader);
double ppl_trace_iteration(const ppl_trace *t, int64_t step); // seconds of a kept step, 0 when it is not kept
// Idle / iteration over all ranks in one kept step, 0 when it is not kept. Never below 0: a step whose work was mostly
// done while the one before still ran has a short iteration.
double ppl_trace_bubble(const ppl_trace *t, int64_t step);

#endif
