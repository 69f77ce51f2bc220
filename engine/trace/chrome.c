// chrome.c - the kept steps in the Chrome trace format (chrome://tracing, Perfetto): a track a rank, tasks named as
// actions, arrows from SEND to RECEIVE, a counter of live activations a rank. Before: trace.c.
#include "base/json.h"
#include "trace/trace.h"
#include <stdio.h>

enum { TASKS_MAX = 400000 }; // of all steps written; about 60 MB of text

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

static void add_task(ppl_text *x, const ppl_trace *t, int32_t rank, int64_t step, const ppl_task *task,
                     const ppl_span *s) {
    char name[64];
    task_name(t->plan, task, name);
    ppl_text_add(x, ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"name\":\"%s\",\"cat\":\"%s\"", rank, name,
                 task_group[task->kind]);
    add_time(x, "ts", s->begin - t->origin);
    add_time(x, "dur", s->end - s->begin);
    ppl_text_add(x, ",\"args\":{\"step\":%lld", (long long)step);
    int32_t peer = ppl_trace_peer(t->plan, task);
    if (task->stage >= 0) ppl_text_add(x, ",\"stage\":%d", task->stage);
    if (task->edge >= 0) ppl_text_add(x, ",\"edge\":%d,\"peer\":%d", task->edge, peer);
    ppl_text_add(x, "}}");
}

// Both ends of an arrow carry the same id: step, edge, microbatch, reader.
static void add_arrow(ppl_text *x, const ppl_trace *t, int32_t rank, int64_t step, const ppl_task *task, int32_t reader,
                      const ppl_span *s) {
    bool from = task->kind == PPL_TASK_SEND;
    ppl_text_add(x,
                 ",\n{\"ph\":\"%s\",\"pid\":0,\"tid\":%d,\"name\":\"value\",\"cat\":\"link\",\"id\":\"%lld.%d.%d.%d\"",
                 from ? "s" : "f\",\"bp\":\"e", rank, (long long)step, task->edge, task->microbatch, reader);
    add_time(x, "ts", (from ? s->begin : s->end) - t->origin);
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

// Live activations as the plan counts them: from the begin of F to the end of W or B; a forward-only plan frees at once.
static void add_live(ppl_text *x, const ppl_trace *t, int32_t rank, const ppl_task *task, const ppl_span *s,
                     int32_t *live) {
    bool born = task->kind == PPL_TASK_F && !t->plan->options.forward_only;
    bool dies = task->kind == PPL_TASK_B || task->kind == PPL_TASK_W;
    if (!born && !dies) return;
    *live += born ? 1 : -1;
    ppl_text_add(x, ",\n{\"ph\":\"C\",\"pid\":0,\"name\":\"live activations, rank %d\"", rank);
    add_time(x, "ts", (born ? s->begin : s->end) - t->origin);
    ppl_text_add(x, ",\"args\":{\"live\":%d}}", *live);
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
                     "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":");
    ppl_text_json(&x, t->plan->schedule);
    ppl_text_add(&x, "}}");
    for (int32_t rank = 0; rank < t->plan->ranks; rank++) {
        const ppl_rank_plan *r = &t->plan->rank[rank];
        ppl_text_add(&x,
                     ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"rank %d\"}}",
                     rank, rank);
        for (int32_t i = first; i < kept; i++) {
            const ppl_span *s = ppl_trace_find(t, rank, steps[i]);
            int32_t live = 0;
            for (int64_t at = 0; at < r->count; at++) {
                add_task(&x, t, rank, steps[i], &r->tasks[at], &s[at]);
                add_arrows(&x, t, rank, steps[i], &r->tasks[at], &s[at]);
                add_live(&x, t, rank, &r->tasks[at], &s[at], &live);
            }
        }
    }
    ppl_text_add(&x, "\n]}\n");
    ppl_free(steps);
    return ppl_text_write(&x, path);
}
