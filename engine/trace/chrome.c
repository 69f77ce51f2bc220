// chrome.c - the kept steps in the Chrome trace format (chrome://tracing, Perfetto): a track a rank, tasks named as
// actions, waits with their cause, arrows from SEND to RECEIVE, counters of live activations and their bytes. Within a
// track and a counter times ascend, and slices nest. Before: trace.c.
#include "base/json.h"
#include "trace/trace.h"
#include <stdio.h>
#include <stdlib.h>

enum { TASKS_MAX = 40000 }; // of all steps written: about 10 MB of text, unless one step alone has more

static const char *const task_verb[PPL_TASK_KINDS] = {[PPL_TASK_CREDIT] = "credit ",
                                                      [PPL_TASK_RECEIVE] = "receive ",
                                                      [PPL_TASK_F] = "",
                                                      [PPL_TASK_B] = "",
                                                      [PPL_TASK_I] = "",
                                                      [PPL_TASK_W] = "",
                                                      [PPL_TASK_SEND] = "send ",
                                                      [PPL_TASK_RELEASE] = "release ",
                                                      [PPL_TASK_NORM] = "norm",
                                                      [PPL_TASK_UPDATE] = "",
                                                      [PPL_TASK_VALIDATE] = "validate"};
static const char *const task_group[PPL_TASK_KINDS] = {
    [PPL_TASK_CREDIT] = "wait", [PPL_TASK_RECEIVE] = "wait",  [PPL_TASK_F] = "F",          [PPL_TASK_B] = "B",
    [PPL_TASK_I] = "I",         [PPL_TASK_W] = "W",           [PPL_TASK_SEND] = "link",    [PPL_TASK_RELEASE] = "link",
    [PPL_TASK_NORM] = "norm",   [PPL_TASK_UPDATE] = "update", [PPL_TASK_VALIDATE] = "wait"};

// The letter of the action that a task is, or whose value it passes on; 0 for none.
static char task_letter(const ppl_plan *p, const ppl_task *task) {
    switch ((ppl_task_kind)task->kind) {
    case PPL_TASK_F: return 'F';
    case PPL_TASK_B: return 'B';
    case PPL_TASK_I: return 'I';
    case PPL_TASK_W: return 'W';
    case PPL_TASK_UPDATE: return 'U';
    case PPL_TASK_CREDIT:
    case PPL_TASK_RECEIVE:
    case PPL_TASK_SEND:
    case PPL_TASK_RELEASE: return ppl_kind_letter[p->stages->edges[task->edge].kind];
    case PPL_TASK_NORM:
    case PPL_TASK_VALIDATE:
    case PPL_TASK_KINDS: break;
    }
    return 0;
}

// "2F5", "receive 1F5", "2U", "norm"
static void task_name(const ppl_plan *p, const ppl_task *task, char text[64]) {
    char letter = task_letter(p, task);
    int32_t stage = task->edge >= 0 ? p->stages->edges[task->edge].src : task->stage;
    bool one = letter == 'U' || task->microbatch < 0;
    if (!letter) snprintf(text, 64, "%s", task_verb[task->kind]);
    else if (one) snprintf(text, 64, "%s%d%c", task_verb[task->kind], stage, letter);
    else snprintf(text, 64, "%s%d%c%d", task_verb[task->kind], stage, letter, task->microbatch);
}

// Nanoseconds as microseconds with three decimals, whatever the locale.
static void add_time(ppl_text *x, const char *key, int64_t ns) {
    ppl_text_add(x, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

// What a task that waits waits for, as the value of "cause".
static void add_cause(ppl_text *x, const ppl_plan *p, const ppl_task *task) {
    int32_t peer = ppl_trace_peer(p, task);
    bool credit = task->kind == PPL_TASK_CREDIT;
    if (task->kind == PPL_TASK_VALIDATE)
        ppl_text_add(x, ",\"cause\":\"waits for the gradient norm of the step before\"");
    if (!credit && task->kind != PPL_TASK_RECEIVE) return;
    char value[32];
    char letter = ppl_kind_letter[p->stages->edges[task->edge].kind];
    if (letter == 'U') snprintf(value, sizeof value, "%dU", p->stages->edges[task->edge].src);
    else snprintf(value, sizeof value, "%d%c%d", p->stages->edges[task->edge].src, letter, task->microbatch);
    if (credit) ppl_text_add(x, ",\"cause\":\"waits for rank %d to have read the buffer of %s\"", peer, value);
    else ppl_text_add(x, ",\"cause\":\"waits for %s from rank %d\"", value, peer);
}

// Slices of a track lie inside one another or apart: what runs beside something else has a track of its own.
static int32_t track_of(const ppl_trace *t, int32_t rank, const ppl_task *task) {
    return task->stream ? t->plan->ranks + rank : rank;
}

static void add_slice(ppl_text *x, const ppl_trace *t, int32_t track, const char *name, const char *group,
                      int64_t begin, int64_t end) {
    ppl_text_add(x, ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"name\":\"%s\",\"cat\":\"%s\"", track, name, group);
    add_time(x, "ts", begin - t->origin);
    add_time(x, "dur", end - begin);
}

// The parts of a task that has two: a B's I and W, a NORM's wait for the other ranks. They lie inside its slice.
static void add_parts(ppl_text *x, const ppl_trace *t, int32_t track, const ppl_task *task, const ppl_span *s) {
    if (!s->middle || s->middle < s->begin || s->middle > s->end) return;
    char name[64];
    if (task->kind == PPL_TASK_B) {
        snprintf(name, sizeof name, "%dI%d", task->stage, task->microbatch);
        add_slice(x, t, track, name, "I", s->begin, s->middle);
        ppl_text_add(x, "}");
        snprintf(name, sizeof name, "%dW%d", task->stage, task->microbatch);
        add_slice(x, t, track, name, "W", s->middle, s->end);
        ppl_text_add(x, "}");
    }
    if (task->kind == PPL_TASK_NORM) {
        add_slice(x, t, track, "wait for norms", "wait", s->middle, s->end);
        ppl_text_add(x, ",\"args\":{\"cause\":\"waits for the gradient norms of all ranks\"}}");
    }
}

static void add_task(ppl_text *x, const ppl_trace *t, int32_t rank, int64_t step, const ppl_task *task,
                     const ppl_span *s) {
    char name[64];
    task_name(t->plan, task, name);
    add_slice(x, t, track_of(t, rank, task), name, task_group[task->kind], s->begin, s->end);
    ppl_text_add(x, ",\"args\":{\"step\":%lld", (long long)step);
    if (task->stage >= 0) ppl_text_add(x, ",\"stage\":%d", task->stage);
    if (task->edge >= 0) ppl_text_add(x, ",\"edge\":%d,\"peer\":%d", task->edge, ppl_trace_peer(t->plan, task));
    add_cause(x, t->plan, task);
    ppl_text_add(x, "}}");
    add_parts(x, t, track_of(t, rank, task), task, s);
}

// The number that both ends of an arrow carry, from step, edge, microbatch and reader. Perfetto takes numbers alone.
static int64_t arrow_id(const ppl_trace *t, int64_t step, const ppl_task *task, int32_t reader) {
    const ppl_plan *p = t->plan;
    int64_t id = (step - (t->last - t->steps)) * p->stages->n_edges + task->edge;
    id = id * (p->microbatches + 1) + task->microbatch + 1;
    return id * (p->stages->count + 1) + reader;
}

// Each end lies inside its slice, or readers of the format would not know to which slice it belongs: at the SEND's begin,
// and just before the RECEIVE's end.
static void add_arrow(ppl_text *x, const ppl_trace *t, int32_t rank, int64_t step, const ppl_task *task, int32_t reader,
                      const ppl_span *s) {
    bool from = task->kind == PPL_TASK_SEND;
    ppl_text_add(x, ",\n{\"ph\":\"%s\",\"pid\":0,\"tid\":%d,\"name\":\"value\",\"cat\":\"link\",\"id\":%lld",
                 from ? "s" : "f\",\"bp\":\"e", track_of(t, rank, task), (long long)arrow_id(t, step, task, reader));
    add_time(x, "ts", (from || s->end == s->begin ? s->begin : s->end - 1) - t->origin);
    ppl_text_add(x, "}");
}

static void add_arrows(ppl_text *x, const ppl_trace *t, int32_t rank, int64_t step, const ppl_task *task,
                       const ppl_span *s) {
    if (task->kind == PPL_TASK_RECEIVE) add_arrow(x, t, rank, step, task, task->slot, s);
    if (task->kind != PPL_TASK_SEND) return;
    const ppl_edge_plan *e = &t->plan->edge[task->edge];
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != rank) add_arrow(x, t, rank, step, task, i, s);
}

typedef struct counters { // of a rank
    int64_t live, bytes, pending;
} counters;

static void add_counter(ppl_text *x, const ppl_trace *t, int32_t rank, const char *what, int64_t at) {
    ppl_text_add(x, ",\n{\"ph\":\"C\",\"pid\":0,\"tid\":%d,\"name\":\"%s, rank %d\"", rank, what, rank);
    add_time(x, "ts", at - t->origin);
}

// Live activations as the plan counts them: from the begin of F to the end of W or B; a forward-only plan frees at once.
// What I keeps for W lives from the begin of I to the end of W, inside a B too.
static void add_live(ppl_text *x, const ppl_trace *t, int32_t rank, const ppl_task *task, bool begins, int64_t at,
                     counters *now) {
    bool forward = task->kind == PPL_TASK_F, both = task->kind == PPL_TASK_B;
    bool born = begins && forward, dies = !begins && (both || task->kind == PPL_TASK_W);
    bool kept = begins && (both || task->kind == PPL_TASK_I);
    if ((!born && !dies && !kept) || t->plan->options.forward_only) return;
    const ppl_stage_layout *l = t->plan->layout ? &t->plan->layout[task->stage] : NULL;
    int64_t bytes = l ? (int64_t)l->slot_bytes : 0, pending = l ? (int64_t)l->pending_bytes : 0;
    if (born) now->live++, now->bytes += bytes;
    if (kept && task->pending >= 0) now->pending += pending;
    if (dies) now->live--, now->bytes -= bytes, now->pending -= task->pending >= 0 ? pending : 0;
    if (!kept) {
        add_counter(x, t, rank, "live activations", at);
        ppl_text_add(x, ",\"args\":{\"live\":%lld}}", (long long)now->live);
    }
    add_counter(x, t, rank, "memory in use", at);
    ppl_text_add(x, ",\"args\":{\"activations\":%lld,\"kept for W\":%lld}}", (long long)now->bytes,
                 (long long)now->pending);
}

static void add_rank(ppl_text *x, const ppl_trace *t, int32_t rank) {
    const ppl_rank_plan *r = &t->plan->rank[rank];
    ppl_text_add(x, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"rank %d", rank,
                 rank);
    for (int32_t i = 0; i < r->n_stages; i++)
        ppl_text_add(x, "%s%d", i ? ", " : r->n_stages > 1 ? ": stages " : ": stage ", r->stages[i]);
    ppl_text_add(x,
                 "\"}},\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_sort_index\","
                 "\"args\":{\"sort_index\":%d}}",
                 rank, rank);
    if (r->streams > 1)
        ppl_text_add(x,
                     ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\","
                     "\"args\":{\"name\":\"rank %d, beside\"}}"
                     ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_sort_index\","
                     "\"args\":{\"sort_index\":%d}}",
                     t->plan->ranks + rank, rank, t->plan->ranks + rank, rank);
}

typedef struct place { // one task of one step
    int64_t step, at;
    const ppl_span *span;
} place;

// Steps may flow into each other: then a rank's tasks of two steps alternate.
static int by_time(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->span->begin != y->span->begin) return x->span->begin < y->span->begin ? -1 : 1;
    if (x->span->end != y->span->end) return x->span->end < y->span->end ? -1 : 1; // what takes no time comes first
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static ppl_status add_tasks(ppl_text *x, const ppl_trace *t, int32_t rank, const int64_t *steps, int32_t n) {
    const ppl_rank_plan *r = &t->plan->rank[rank];
    place *places = ppl_alloc((size_t)n * (size_t)r->count * sizeof *places);
    if (!places && n && r->count) return PPL_ERR_MEMORY;
    int64_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        const ppl_span *s = ppl_trace_find(t, rank, steps[i]);
        for (int64_t at = 0; s && at < r->count; at++) places[count++] = (place){steps[i], at, &s[at]};
    }
    if (count) qsort(places, (size_t)count, sizeof *places, by_time);
    counters now = {0};
    for (int64_t i = 0; i < count; i++) {
        const ppl_task *task = &r->tasks[places[i].at];
        const ppl_span *s = places[i].span;
        add_task(x, t, rank, places[i].step, task, s);
        add_arrows(x, t, rank, places[i].step, task, s);
        add_live(x, t, rank, task, true, s->begin, &now);
        add_live(x, t, rank, task, false, s->end, &now);
    }
    ppl_free(places);
    return PPL_OK;
}

ppl_status ppl_trace_write(const ppl_trace *t, const char *path) {
    int64_t *steps = ppl_alloc((size_t)t->steps * sizeof *steps);
    if (!steps) return PPL_ERR_MEMORY;
    int32_t kept = ppl_trace_kept(t, steps), first = 0;
    int64_t tasks = 0;
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) tasks += t->plan->rank[rank].count;
    while (kept - first > 1 && tasks * (kept - first) > TASKS_MAX) first++; // the newest steps, at least one
    ppl_text x = {0};
    ppl_text_add(&x, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                     "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":");
    ppl_text_json(&x, t->plan->schedule);
    ppl_text_add(&x, "}}");
    ppl_status status = PPL_OK;
    for (int32_t rank = 0; rank < t->plan->ranks && status == PPL_OK; rank++) {
        add_rank(&x, t, rank);
        status = add_tasks(&x, t, rank, steps + first, kept - first);
    }
    ppl_text_add(&x, "\n]}\n");
    ppl_free(steps);
    if (status == PPL_OK) return ppl_text_write(&x, path);
    ppl_text_clear(&x);
    return status;
}
