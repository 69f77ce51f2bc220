// bench_plan.c - how much CPU time compiling, proving and simulating take (one thread), by the number of actions. One line
// a size:
// "plan p=64 m=1024 chunks=1 actions=131072 tasks=... compile_ms=... simulate_ms=... tasks_per_s=...".
#include "support/schedules.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu(void) { // seconds of this process, which other load does not change much
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Every B of a schedule as an I and a W: three actions a stage and microbatch.
static ppl_schedule *split(ppl_schedule *whole) {
    ppl_schedule *s;
    ppl_status st = ppl_schedule_open("split", whole->ranks, whole->stages, whole->stage_rank, whole->microbatches, &s);
    for (int32_t r = 0; st == PPL_OK && r < whole->ranks; r++)
        for (size_t at = 0; at < whole->rank[r].count; at++) {
            const ppl_action *a = &whole->rank[r].actions[at];
            st = ppl_schedule_add(s, r, a->kind == PPL_B ? PPL_I : a->kind, a->stage, a->microbatch, 0);
            if (st == PPL_OK && a->kind == PPL_B) st = ppl_schedule_add(s, r, PPL_W, a->stage, a->microbatch, 0);
        }
    ppl_schedule_close(whole);
    if (st == PPL_OK) return s;
    fprintf(stderr, "bench_plan: %s\n", ppl_error());
    exit(1);
}

static int measure(order o, int32_t p, int32_t m, int32_t chunks, bool splits) {
    ppl_schedule *s = schedule_make(o, p, m, chunks);
    if (splits) s = split(s);
    ppl_plan *plan;
    double begin = cpu();
    if (ppl_schedule_check(s) != PPL_OK || ppl_plan_abstract(s, &plan) != PPL_OK) {
        fprintf(stderr, "bench_plan: %s\n", ppl_error());
        return 1;
    }
    double compiled = cpu();
    double *cost = malloc((size_t)(p * chunks) * sizeof *cost);
    for (int32_t k = 0; k < p * chunks; k++) cost[k] = 1e-3;
    ppl_costs costs = {.f = cost, .i = cost, .w = cost, .latency = 1e-6};
    ppl_sim_result r;
    if (ppl_plan_simulate(plan, &costs, 1, &r) != PPL_OK) {
        fprintf(stderr, "bench_plan: %s\n", ppl_error());
        return 1;
    }
    double simulated = cpu();
    int64_t tasks = 0, actions = 0;
    for (int32_t k = 0; k < p; k++) tasks += ppl_plan_length(plan, k), actions += ppl_schedule_length(s, k);
    printf("plan %s%s p=%d m=%d chunks=%d actions=%lld tasks=%lld compile_ms=%.1f simulate_ms=%.1f us_per_action=%.2f "
           "tasks_per_s=%.3g\n",
           order_name[o], splits ? " split" : "", p, m, chunks, (long long)actions, (long long)tasks,
           (compiled - begin) * 1e3, (simulated - compiled) * 1e3, (simulated - begin) * 1e6 / (double)actions,
           (double)tasks / (simulated - compiled));
    free(cost);
    ppl_plan_close(plan);
    ppl_schedule_close(s);
    return 0;
}

// Wanted: 800,000 actions in 2 seconds, the same time an action whatever the size, 5 million simulated tasks a second.
int main(void) {
    int bad = 0;
    bad |= measure(ORDER_1F1B, 64, 256, 1, false);
    bad |= measure(ORDER_1F1B, 64, 1024, 1, false);
    bad |= measure(ORDER_1F1B, 64, 4096, 1, false);
    bad |= measure(ORDER_ZB_H1, 64, 1024, 1, false);
    bad |= measure(ORDER_GPIPE, 64, 1024, 1, false);
    bad |= measure(ORDER_INTERLEAVED, 64, 256, 4, true);
    bad |= measure(ORDER_INTERLEAVED, 64, 512, 4, true);
    bad |= measure(ORDER_INTERLEAVED, 64, 1024, 4, true);
    bad |= measure(ORDER_INTERLEAVED, 64, 2048, 4, true);
    return bad;
}
