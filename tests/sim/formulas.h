// formulas.h - plans simulated in one call, and what the papers say the time is.
#ifndef PPL_TESTS_SIM_FORMULAS_H
#define PPL_TESTS_SIM_FORMULAS_H
#include "graph/tiny.h"
#include "support/schedules.h"
#include "plan/plan.h"
#include <math.h>

typedef struct sim_case {
    int32_t steps, barrier;
    bool copies, validate;
    double latency, update;
} sim_case;

// each: seconds of F, I and W of a whole rank; its chunks take their share.
static inline ppl_sim_result simulate_schedule(const ppl_schedule *s, const double *each, const sim_case *c) {
    int32_t chunks = s->stages / s->ranks;
    double cost[3][64];
    for (int32_t k = 0; k < s->stages; k++)
        for (int32_t i = 0; i < 3; i++) cost[i][k] = each[i] / chunks;
    ppl_costs costs = {
        .f = cost[0], .i = cost[1], .w = cost[2], .latency = c->latency, .update = c->update, .barrier = c->barrier};
    ppl_stages *stages;
    ppl_plan *plan;
    ppl_sim_result r;
    OK(ppl_stages_chain(s->stages, &stages));
    OK(ppl_plan_build(s, stages, &(ppl_plan_options){.copy_links = c->copies, .validate = c->validate}, &plan));
    OK(ppl_plan_simulate(plan, &costs, c->steps, &r));
    ppl_plan_close(plan);
    ppl_stages_free(stages);
    return r;
}

static inline ppl_sim_result simulate(order o, int32_t p, int32_t m, const double *each, const sim_case *c) {
    ppl_schedule *s = schedule_make(o, p, m, 2);
    ppl_sim_result r = simulate_schedule(s, each, c);
    ppl_schedule_close(s);
    return r;
}

// ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism"): 2 (p - r) - 1 forwards first, W put off by 2 r microbatches.
static inline ppl_sim_result simulate_zb_h2(int32_t p, int32_t m, const double *each, const sim_case *c) {
    int32_t place[64];
    for (int32_t r = 0; r < p; r++) place[r] = r;
    ppl_schedule *s;
    OK(ppl_schedule_open("zb-h2", p, p, place, m, &s));
    for (int32_t r = 0; r < p; r++) {
        int32_t warm = 2 * (p - r) - 1, f = 0, i = 0, w = 0;
        while (f < warm && f < m) OK(ppl_schedule_add(s, r, PPL_F, r, f++, 0));
        while (i < m) {
            OK(ppl_schedule_add(s, r, PPL_I, r, i++, 0));
            if (i > 2 * r) OK(ppl_schedule_add(s, r, PPL_W, r, w++, 0));
            if (f < m) OK(ppl_schedule_add(s, r, PPL_F, r, f++, 0));
        }
        while (w < m) OK(ppl_schedule_add(s, r, PPL_W, r, w++, 0));
    }
    ppl_sim_result r = simulate_schedule(s, each, c);
    ppl_schedule_close(s);
    return r;
}

// Idle seconds of a rank in a step by the papers; -1 where they give no formula.
static inline double formula_idle(order o, int32_t p, int32_t m, const double *e) {
    double f = e[0], b = e[1] + e[2];
    switch (o) {
    case ORDER_NAIVE: return m * (p - 1) * (f + b);
    case ORDER_GPIPE:
    case ORDER_1F1B: return (p - 1) * (f + b);
    case ORDER_ZB_H1: return e[2] <= e[1] && m >= p ? (p - 1) * (f + e[1] - e[2]) : -1;
    case ORDER_LOOP: return m >= p ? (p - 1) * (f + b) / 2 : -1;
    case ORDER_INTERLEAVED: return (p - 1) * (f + b) / 2;
    case ORDER_V:
    case ORDERS: break;
    }
    return -1;
}

static inline void check_formula(order o, int32_t p, int32_t m, const double *each, bool copies) {
    double idle = formula_idle(o, p, m, each), work = m * (each[0] + each[1] + each[2]);
    ppl_sim_result r = simulate(o, p, m, each, &(sim_case){.steps = 1, .copies = copies});
    assert_float_equal(r.busy, p * work, 1e-9);
    assert_float_equal(r.bubble_ratio, 1 - work / r.makespan, 1e-9);
    assert_float_equal(r.bubble_overhead, r.makespan / work - 1, 1e-9);
    if (idle >= 0 && fabs(r.makespan - work - idle) > 1e-9)
        fail_msg("%s p=%d m=%d F=%g I=%g W=%g copies=%d: idle %g, want %g", order_name[o], p, m, each[0], each[1],
                 each[2], copies, r.makespan - work, idle);
}

#endif
