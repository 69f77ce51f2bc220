// bench_exec.c - what the executor itself costs: with programs that take no time, from the end of one task to the end of
// the next, and from a value's send to its reader's seeing it; and how near a step of programs that do take time comes to
// the simulated one. Prints medians, seconds.
#include "exec/fake.h"
#include <stdlib.h>

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile(int64_t *x, size_t n, double part) {
    if (n == 0) return 0;
    qsort(x, n, sizeof *x, by_size);
    return (double)x[(size_t)((double)(n - 1) * part)] * 1e-9;
}

static bool waits(const ppl_task *t) {
    return t->kind == PPL_TASK_CREDIT || t->kind == PPL_TASK_RECEIVE || t->kind == PPL_TASK_NORM;
}

enum { KEPT = 200 };

typedef struct samples {
    int64_t *task, *hand;
    size_t tasks, hands;
} samples;

// Programs that take no time: their spans are what the loop spends around them.
static void take_tasks(const ppl_plan *p, const ppl_trace *t, int64_t step, samples *out) {
    for (int32_t r = 0; r < p->ranks; r++) {
        const ppl_span *s = ppl_trace_find(t, r, step);
        for (int64_t at = 0; s && at < p->rank[r].count; at++)
            if (!waits(&p->rank[r].tasks[at])) out->task[out->tasks++] = s[at].end - s[at].begin;
    }
}

// Readers that were there before the value.
static void take_hands(const ppl_plan *p, const ppl_trace *t, int64_t step, samples *out) {
    for (int32_t r = 0; r < p->ranks; r++) {
        const ppl_span *seen = ppl_trace_find(t, r, step);
        for (int64_t at = 0; seen && at < p->rank[r].count; at++) {
            const ppl_task *task = &p->rank[r].tasks[at];
            if (task->kind != PPL_TASK_RECEIVE) continue;
            int32_t from = ppl_plan_edge_rank(p, task->edge);
            const ppl_span *sent = ppl_trace_find(t, from, step);
            for (int64_t k = 0; k < p->rank[from].count; k++) {
                const ppl_task *send = &p->rank[from].tasks[k];
                if (send->kind == PPL_TASK_SEND && send->edge == task->edge && send->microbatch == task->microbatch &&
                    seen[at].begin < sent[k].begin)
                    out->hand[out->hands++] = seen[at].end - sent[k].begin;
            }
        }
    }
}

static void measure(int32_t order_of, int32_t ranks, int32_t microbatches, const char *what) {
    chain c = chain_of(schedule_make(order_of, ranks, microbatches, 1), false, false);
    fake f;
    ppl_exec_client client = fake_client(&f, PPL_CLIP_NONE);
    ppl_exec_options o = fake_options(NULL);
    o.trace_steps = KEPT;
    ppl_exec *e;
    int64_t done, tasks = 0;
    if (ppl_exec_open(c.plan, NULL, &o, &client, &e) != PPL_OK || ppl_exec_steps(e, 0, 2 * KEPT, &done) != PPL_OK) {
        fprintf(stderr, "bench_exec: %s\n", ppl_error());
        exit(1);
    }
    for (int32_t r = 0; r < ranks; r++) tasks += c.plan->rank[r].count;
    samples s = {.task = calloc((size_t)tasks * KEPT, sizeof(int64_t)),
                 .hand = calloc((size_t)tasks * KEPT, sizeof(int64_t))};
    for (int64_t step = KEPT; step < 2 * KEPT; step++) {
        take_tasks(c.plan, ppl_exec_trace(e), step, &s);
        take_hands(c.plan, ppl_exec_trace(e), step, &s);
    }
    printf("%s: task median %.3g p99 %.3g, hand over median %.3g p99 %.3g of %zu\n", what,
           percentile(s.task, s.tasks, 0.5), percentile(s.task, s.tasks, 0.99), percentile(s.hand, s.hands, 0.5),
           percentile(s.hand, s.hands, 0.99), s.hands);
    free(s.task);
    free(s.hand);
    ppl_exec_close(e);
    chain_close(&c);
}

static void compare(int32_t order_of, int32_t ranks, int32_t microbatches, double part) {
    double f[FAKE_RANKS * 2];
    for (int i = 0; i < FAKE_RANKS * 2; i++) f[i] = part;
    ppl_costs costs = {.f = f, .i = f, .w = f, .update = part};
    chain c = chain_of(schedule_make(order_of, ranks, microbatches, 1), false, false);
    fake fk;
    ppl_exec_client client = fake_client(&fk, PPL_CLIP_NONE);
    ppl_exec_options o = fake_options(NULL);
    o.device_options.costs = &costs;
    o.trace_steps = 6;
    ppl_exec *e;
    int64_t done;
    ppl_sim_result sim;
    if (ppl_exec_open(c.plan, NULL, &o, &client, &e) != PPL_OK || ppl_exec_steps(e, 0, 8, &done) != PPL_OK ||
        ppl_plan_simulate(c.plan, &costs, 8, &sim) != PPL_OK) {
        fprintf(stderr, "bench_exec: %s\n", ppl_error());
        exit(1);
    }
    ppl_trace_rank stats;
    ppl_trace_rank_stats(ppl_exec_trace(e), 0, &stats);
    printf("%s, %d ranks, %d microbatches of %.3g s: iteration %.4g, simulated %.4g, ratio %.3f\n",
           order_name[order_of], ranks, microbatches, part, stats.iteration, sim.iteration,
           stats.iteration / sim.iteration);
    ppl_exec_close(e);
    chain_close(&c);
}

int main(void) {
    int32_t cores = ppl_cpu_cores();
    measure(ORDER_1F1B, 1, 32, "1 rank");
    if (cores >= 2) measure(ORDER_1F1B, 2, 32, "2 ranks");
    // One rank works at a time: what is measured is the waking of a sleeper, not the queue for a core.
    measure(ORDER_NAIVE, 4 * cores, 32, "4 ranks a core, one at work");
    measure(ORDER_1F1B, 4 * cores, 32, "4 ranks a core, all at work");
    compare(ORDER_1F1B, 4, 8, 2e-3);
    compare(ORDER_ZB_H1, 8, 16, 2e-3);
    compare(ORDER_1F1B, 64, 64, 5e-3);
    return 0;
}
