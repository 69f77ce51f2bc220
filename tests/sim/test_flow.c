// test_flow.c - simulated times of asynchronous schedules: no bubble between their steps, and what idle means where the steps
// of a rank lie in one another.
#include "schedule/schedule.h"
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { STEPS = 10 };

static ppl_plan *simulate(int32_t weights, int32_t p, int32_t m, double latency, int32_t steps, ppl_sim_result *r) {
    double one[16];
    for (int32_t k = 0; k < 16; k++) one[k] = 1;
    ppl_schedule *s = schedule_make(ORDER_1F1B, p, m, 1);
    ppl_schedule_set_weights(s, weights);
    ppl_plan *plan;
    if (ppl_plan_abstract(s, &plan) != PPL_OK ||
        ppl_plan_simulate(plan, &(ppl_costs){.f = one, .i = one, .w = one, .latency = latency}, steps, r) != PPL_OK)
        fail_msg("%s", ppl_error());
    ppl_schedule_close(s);
    return plan;
}

// design: p=4, m=8, F=1, B=2: 33 units a step with a barrier, 24.9 over ten steps without, and 24, the work itself, once the
// pipeline is full: one fill and one drain for all steps.
static void test_known(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        ppl_sim_result r;
        ppl_plan_close(simulate(weights, 4, 8, 0, 1, &r));
        assert_float_equal(r.makespan, 33, 1e-9);
        assert_float_equal(r.span_idle, 9, 1e-9);
        ppl_plan_close(simulate(weights, 4, 8, 0, STEPS, &r));
        assert_float_equal(r.makespan / STEPS, 24.9, 1e-9);
        assert_float_equal(r.iteration, 24, 1e-9);
        assert_float_equal(r.bubble_ratio, 0, 1e-9);
        assert_float_equal(r.busy, 4 * 24, 1e-9);
    }
}

// Over a grid with p <= m: the work of all steps and one step's bubble.
static void test_grid(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++)
        for (int32_t p = 1; p <= 8; p++)
            for (int32_t m = p; m <= 2 * p + 3; m++) {
                ppl_sim_result r;
                ppl_plan_close(simulate(weights, p, m, 0, STEPS, &r));
                if (r.makespan > 3 * (STEPS * m + p - 1) + 1e-9)
                    fail_msg("p=%d m=%d weights=%d: %g", p, m, weights, r.makespan);
                assert_float_equal(r.iteration, 3 * m, 1e-9);
            }
}

// Each rank's tasks of all steps lie one behind the other, and none begins before what it waits for: a step's forwards in
// the step before among them.
static void test_events(void **state) {
    (void)state;
    enum { P = 3, M = 4, L = 3, MOST = 512 };
    ppl_sim_result r;
    ppl_plan *p = simulate(PPL_WEIGHTS_STASH, P, M, 0.25, L, &r);
    static ppl_event e[L][MOST];
    double sent[2 * P][L][M] = {{{0}}}, busy = 0, inside = 0;
    int64_t count;
    for (int32_t step = 0; step < L; step++) {
        assert_int_equal(ppl_plan_events(p, step, e[step], MOST, &count), PPL_OK);
        for (int64_t n = 0; n < count; n++) {
            assert_int_equal(e[step][n].step, step);
            if (e[step][n].kind == PPL_TASK_SEND) sent[e[step][n].edge][step][e[step][n].microbatch] = e[step][n].begin;
        }
    }
    for (int32_t step = 0; step < L; step++)
        for (int64_t n = 0; n < count; n++) {
            const ppl_event *x = &e[step][n];
            if (x->kind == PPL_TASK_RECEIVE) assert_true(x->end >= sent[x->edge][step][x->microbatch] + 0.25 - 1e-8);
            if (x->kind != PPL_TASK_F && x->kind != PPL_TASK_B) continue;
            busy += x->end - x->begin;
            for (int32_t other = 0; other < L; other++)
                for (int64_t k = 0; k < count; k++)
                    if (e[other][k].rank == x->rank && &e[other][k] != x && e[other][k].end > e[other][k].begin &&
                        (e[other][k].kind == PPL_TASK_F || e[other][k].kind == PPL_TASK_B))
                        assert_true(e[other][k].end <= x->begin + 1e-8 || e[other][k].begin >= x->end - 1e-8);
        }
    assert_float_equal(busy, 3 * P * M * L, 1e-6);
    // Rank 0's first forward of the last step runs while the step before it drains.
    int64_t first = 0, last = 0;
    for (int64_t n = 0; n < count; n++) {
        if (e[2][n].rank == 0 && e[2][n].kind == PPL_TASK_F && !first) first = n;
        if (e[1][n].rank == 0 && e[1][n].kind == PPL_TASK_B) last = n;
    }
    inside = e[1][last].begin - e[2][first].end;
    assert_true(inside >= 0);
    ppl_plan_close(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_grid),
                                       cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
