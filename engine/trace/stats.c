// stats.c - what the kept steps of a trace say: medians of stages and edges, waits, idle time. Before: trace.c. After:
// a run's tables.
#include "trace/trace.h"
#include <math.h>
#include <stdlib.h>

// Nanoseconds of a task in which its rank was busy, and in which it waited.
static int64_t busy_of(const ppl_task *task, const ppl_span *s) {
    switch ((ppl_task_kind)task->kind) {
    case PPL_TASK_F:
    case PPL_TASK_B:
    case PPL_TASK_I:
    case PPL_TASK_W:
    case PPL_TASK_UPDATE: return s->end - s->begin;
    case PPL_TASK_NORM: return s->middle ? s->middle - s->begin : 0;
    case PPL_TASK_CREDIT:
    case PPL_TASK_RECEIVE:
    case PPL_TASK_SEND:
    case PPL_TASK_RELEASE:
    case PPL_TASK_VALIDATE:
    case PPL_TASK_KINDS: break;
    }
    return 0;
}

static int64_t wait_of(const ppl_task *task, const ppl_span *s) {
    switch ((ppl_task_kind)task->kind) {
    case PPL_TASK_CREDIT:
    case PPL_TASK_RECEIVE:
    case PPL_TASK_VALIDATE: return s->end - s->begin;
    case PPL_TASK_NORM: return s->end - (s->middle ? s->middle : s->begin);
    case PPL_TASK_F:
    case PPL_TASK_B:
    case PPL_TASK_I:
    case PPL_TASK_W:
    case PPL_TASK_SEND:
    case PPL_TASK_RELEASE:
    case PPL_TASK_UPDATE:
    case PPL_TASK_KINDS: break;
    }
    return 0;
}

static bool is_program(const ppl_task *t) {
    return t->kind >= PPL_TASK_F && t->kind <= PPL_TASK_W;
}

// The program of the action that runs beside a task's own, on the other stream; -1 none.
static int64_t beside_of(const ppl_rank_plan *r, int64_t at) {
    const ppl_task *task = &r->tasks[at];
    int32_t other = task->stream ? task->action - 1 : task->action + 1;
    if (r->streams < 2 || task->action < 0) return -1;
    for (int64_t i = at; i >= 0 && i < r->count; i += task->stream ? -1 : 1) {
        const ppl_task *t = &r->tasks[i];
        if (t->action == other && t->stream == task->stream) return -1;
        if (t->action == other && is_program(t)) return i;
        if (t->action >= 0 && t->action != other && t->action != task->action) return -1;
    }
    return -1;
}

// Nanoseconds of a task while which its rank was busy on the other stream.
static int64_t shared_of(const ppl_rank_plan *r, const ppl_span *s, int64_t at) {
    int64_t other = beside_of(r, at);
    if (other < 0) return 0;
    int64_t begin = s[at].begin > s[other].begin ? s[at].begin : s[other].begin;
    int64_t end = s[at].end < s[other].end ? s[at].end : s[other].end;
    return end > begin ? end - begin : 0;
}

// The first busy begin and the last end over all ranks. A rank that is done early waits for its next step long before that
// step begins: waits do not count.
static bool step_extent(const ppl_trace *t, int64_t step, int64_t *begin, int64_t *end) {
    bool any = false;
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) {
        const ppl_span *s = ppl_trace_find(t, rank, step);
        const ppl_rank_plan *r = &t->plan->rank[rank];
        if (!s || r->count == 0) continue;
        int64_t first = 0;
        while (first + 1 < r->count && busy_of(&r->tasks[first], &s[first]) == 0) first++;
        if (!any || s[first].begin < *begin) *begin = s[first].begin;
        if (!any || s[r->count - 1].end > *end) *end = s[r->count - 1].end;
        any = true;
    }
    return any;
}

double ppl_trace_iteration(const ppl_trace *t, int64_t step) {
    int64_t begin = 0, end = 0;
    if (!step_extent(t, step, &begin, &end)) return 0;
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) {
        const ppl_span *s = ppl_trace_before(t, rank, step);
        int64_t count = t->plan->rank[rank].count;
        if (s && count && s[count - 1].end > begin) begin = s[count - 1].end;
    }
    return (double)(end - begin) * 1e-9;
}

// Busy time of a rank for the steps on both sides of one, between two moments of it: where steps overlap.
static int64_t busy_beside(const ppl_trace *t, int32_t rank, int64_t step, int64_t begin, int64_t end) {
    const ppl_rank_plan *r = &t->plan->rank[rank];
    const ppl_span *rows[] = {ppl_trace_before(t, rank, step), ppl_trace_find(t, rank, step + 1)};
    int64_t busy = 0;
    for (int32_t i = 0; r->ahead && i < 2; i++)
        for (int64_t at = 0; rows[i] && at < r->count; at++)
            if (rows[i][at].begin >= begin && rows[i][at].begin < end) busy += busy_of(&r->tasks[at], &rows[i][at]);
    return busy;
}

static void rank_step(const ppl_trace *t, int32_t rank, int64_t step, ppl_trace_rank *sum, double *wait_for) {
    const ppl_rank_plan *r = &t->plan->rank[rank];
    const ppl_span *s = ppl_trace_find(t, rank, step);
    int64_t busy = 0, first = -1, last = -1;
    for (int64_t at = 0; at < r->count; at++) {
        int64_t b = busy_of(&r->tasks[at], &s[at]), w = wait_of(&r->tasks[at], &s[at]);
        int64_t shared = shared_of(r, s, at); // is busy once
        if (b > 0) {
            if (first < 0 || s[at].begin < first) first = s[at].begin;
            if (s[at].begin + b > last) last = s[at].begin + b;
            busy += r->tasks[at].stream ? b - shared : b;
        }
        if (w > shared) w -= shared;
        else if (shared) w = 0;
        sum->wait += (double)w * 1e-9;
        int32_t peer = ppl_trace_peer(t->plan, &r->tasks[at]);
        if (w > 0 && peer >= 0 && wait_for) wait_for[peer] += (double)w;
    }
    sum->busy += (double)busy * 1e-9;
    sum->span_idle += (double)(last - first - busy - busy_beside(t, rank, step, first, last)) * 1e-9;
    sum->iteration += ppl_trace_iteration(t, step);
}

void ppl_trace_rank_stats(const ppl_trace *t, int32_t rank, ppl_trace_rank *out) {
    *out = (ppl_trace_rank){.waits_for = -1};
    double *wait_for = ppl_alloc((size_t)t->plan->ranks * sizeof *wait_for);
    int64_t *steps = ppl_alloc((size_t)t->steps * sizeof *steps);
    int32_t n = steps && wait_for ? ppl_trace_kept(t, steps) : 0;
    for (int32_t i = 0; i < n; i++) rank_step(t, rank, steps[i], out, wait_for);
    if (n) {
        out->busy /= n;
        out->wait /= n;
        out->span_idle /= n;
        out->iteration /= n;
        for (int32_t peer = 0; peer < t->plan->ranks; peer++)
            if (wait_for[peer] > 0 && (out->waits_for < 0 || wait_for[peer] > wait_for[out->waits_for]))
                out->waits_for = peer;
    }
    ppl_free(steps);
    ppl_free(wait_for);
}

double ppl_trace_bubble(const ppl_trace *t, int64_t step) {
    double time = ppl_trace_iteration(t, step);
    if (time <= 0) return 0;
    ppl_trace_rank sum = {0};
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) rank_step(t, rank, step, &sum, NULL);
    double idle = 1 - sum.busy / (time * t->plan->ranks);
    return idle > 0 ? idle : 0;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts; the median of an even number of values is the mean of the middle two.
static double median_of(double *x, int64_t n) {
    if (n == 0) return 0;
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

// Nanoseconds that a task spends in `phase` of its stage; -1 when it has no such part.
static int64_t phase_of(const ppl_task *task, const ppl_span *s, int32_t phase) {
    int32_t kind = task->kind;
    if (kind == PPL_TASK_B && phase == PPL_PHASE_I) return s->middle - s->begin;
    if (kind == PPL_TASK_B && phase == PPL_PHASE_W) return s->end - s->middle;
    static const int8_t whole[PPL_PHASES + 1] = {[PPL_PHASE_F] = PPL_TASK_F,
                                                 [PPL_PHASE_I] = PPL_TASK_I,
                                                 [PPL_PHASE_W] = PPL_TASK_W,
                                                 [PPL_PHASES] = PPL_TASK_UPDATE};
    return kind == whole[phase] ? s->end - s->begin : -1;
}

void ppl_trace_stage_stats(const ppl_trace *t, int32_t stage, int32_t phase, double *median, double *p95,
                           int64_t *samples) {
    *median = *p95 = 0;
    *samples = 0;
    if (phase < 0 || phase > PPL_PHASES || stage < 0 || stage >= t->plan->stages->count) return;
    int32_t rank = t->plan->stage_rank[stage];
    const ppl_rank_plan *r = &t->plan->rank[rank];
    int64_t *steps = ppl_alloc((size_t)t->steps * sizeof *steps);
    double *x = ppl_alloc((size_t)t->steps * (size_t)r->count * sizeof *x);
    int64_t n = 0;
    int32_t kept = steps && x ? ppl_trace_kept(t, steps) : 0;
    for (int32_t i = 0; i < kept; i++) {
        const ppl_span *s = ppl_trace_find(t, rank, steps[i]);
        for (int64_t at = 0; at < r->count; at++) {
            int64_t part = r->tasks[at].stage == stage ? phase_of(&r->tasks[at], &s[at], phase) : -1;
            if (part >= 0) x[n++] = (double)part * 1e-9;
        }
    }
    if (n) {
        *median = median_of(x, n);
        *p95 = x[(int64_t)ceil(0.95 * (double)n) - 1];
    }
    *samples = n;
    ppl_free(x);
    ppl_free(steps);
}

// Position of the task of `kind` in a rank's list that serves (edge, microbatch); -1 none.
static int64_t task_find(const ppl_rank_plan *r, int32_t kind, int32_t edge, int32_t microbatch) {
    for (int64_t at = 0; at < r->count; at++) {
        const ppl_task *task = &r->tasks[at];
        if (task->kind == kind && task->edge == edge && task->microbatch == microbatch) return at;
    }
    return -1;
}

double ppl_trace_edge_median(const ppl_trace *t, int32_t edge, int32_t reader) {
    const ppl_plan *p = t->plan;
    int32_t from = ppl_plan_edge_rank(p, edge), to = p->edge[edge].reader_rank[reader];
    if (from == to) return 0;
    const ppl_rank_plan *r = &p->rank[to];
    int64_t *steps = ppl_alloc((size_t)t->steps * sizeof *steps);
    double *x = ppl_alloc((size_t)t->steps * (size_t)ppl_plan_uses(p, edge) * sizeof *x);
    int64_t n = 0;
    int32_t kept = steps && x ? ppl_trace_kept(t, steps) : 0;
    for (int64_t at = 0; kept && at < r->count; at++) {
        const ppl_task *task = &r->tasks[at];
        if (task->kind != PPL_TASK_RECEIVE || task->edge != edge || task->slot != reader) continue;
        int64_t send = task_find(&p->rank[from], PPL_TASK_SEND, edge, task->microbatch);
        for (int32_t i = 0; send >= 0 && i < kept; i++) {
            const ppl_span *seen = &ppl_trace_find(t, to, steps[i])[at];
            const ppl_span *sent = &ppl_trace_find(t, from, steps[i])[send];
            if (seen->begin < sent->begin) x[n++] = (double)(seen->end - sent->begin) * 1e-9;
        }
    }
    double median = median_of(x, n);
    ppl_free(x);
    ppl_free(steps);
    return median;
}
