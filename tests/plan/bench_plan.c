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

static int measure(order o, int32_t p, int32_t m, int32_t chunks) {
    ppl_schedule *s = schedule_make(o, p, m, chunks);
    ppl_plan *plan;
    double begin = cpu();
    if (ppl_plan_abstract(s, &plan) != PPL_OK) {
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
    printf("plan %s p=%d m=%d chunks=%d actions=%lld tasks=%lld compile_ms=%.1f simulate_ms=%.1f tasks_per_s=%.3g\n",
           order_name[o], p, m, chunks, (long long)actions, (long long)tasks, (compiled - begin) * 1e3,
           (simulated - compiled) * 1e3, (double)tasks / (simulated - compiled));
    free(cost);
    ppl_plan_close(plan);
    ppl_schedule_close(s);
    return 0;
}

int main(void) {
    int bad = 0;
    bad |= measure(ORDER_1F1B, 64, 256, 1);
    bad |= measure(ORDER_1F1B, 64, 1024, 1);
    bad |= measure(ORDER_1F1B, 64, 4096, 1);
    bad |= measure(ORDER_ZB_H1, 64, 1024, 1);
    bad |= measure(ORDER_GPIPE, 64, 1024, 1);
    bad |= measure(ORDER_INTERLEAVED, 64, 1024, 4);
    return bad;
}
