// test_simulate.c - simulated times against the published formulas, over a grid of orders, ranks, microbatches and links.
#include "sim/formulas.h"

static void test_formulas(void **state) {
    (void)state;
    static const double costs[][3] = {{1, 1, 1}, {1, 2, 0}, {2, 3, 1}, {1, 1.5, 0.5}};
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 8; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++)
                for (size_t c = 0; c < sizeof costs / sizeof *costs; c++)
                    for (int32_t copies = 0; copies < 2; copies++) {
                        if (o == ORDER_INTERLEAVED && m % p) continue;
                        check_formula((order)o, p, m, costs[c], copies);
                    }
}

// facts: p=4, m=8, F=1, B=2: idle 9 of 33; ratio 27 %, overhead 38 %.
static void test_known(void **state) {
    (void)state;
    static const struct {
        int32_t p, m;
        double ratio, overhead; // percent
    } known[] = {{4, 8, 27, 38}, {8, 8, 47, 88}, {8, 32, 18, 22}, {4, 1, 75, 300}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ppl_sim_result r = simulate(ORDER_1F1B, known[i].p, known[i].m, (double[]){1, 1, 1}, &(sim_case){.steps = 1});
        assert_float_equal(r.bubble_ratio, (known[i].p - 1.0) / (known[i].m + known[i].p - 1), 1e-9);
        assert_float_equal(r.bubble_overhead, (known[i].p - 1.0) / known[i].m, 1e-9);
        assert_float_equal(r.bubble_ratio * 100, known[i].ratio, 0.5);
        assert_float_equal(r.bubble_overhead * 100, known[i].overhead, 0.5);
    }
    ppl_sim_result r = simulate(ORDER_GPIPE, 4, 8, (double[]){1, 1, 1}, &(sim_case){.steps = 1});
    assert_float_equal(r.makespan, 33, 1e-9);
    assert_float_equal(r.iteration, 33, 1e-9);
    assert_float_equal(r.busy, 4 * 24, 1e-9);
    assert_float_equal(r.span_idle, 9, 1e-9); // rank 0's: its first F is at the very beginning, its last B at the end
}

// facts: the slowest stage bounds throughput: [2,2,6,2] gives one microbatch in 6, finer cuts of the others as well.
static void test_slowest(void **state) {
    (void)state;
    static const struct {
        int32_t p;
        double f[5], each;
    } known[] = {{4, {2, 2, 6, 2}, 6}, {5, {1, 1, 2, 6, 2}, 6}, {5, {2, 2, 3, 3, 2}, 3}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double zero[5] = {0};
        ppl_costs costs = {.f = known[i].f, .i = zero, .w = zero};
        double span[2];
        for (int32_t k = 0; k < 2; k++) {
            ppl_schedule *s = schedule_make(ORDER_GPIPE, known[i].p, 20 + 10 * k, 1);
            ppl_plan *plan;
            ppl_sim_result r;
            OK(ppl_plan_abstract(s, &plan));
            OK(ppl_plan_simulate(plan, &costs, 1, &r));
            span[k] = r.makespan;
            ppl_plan_close(plan);
            ppl_schedule_close(s);
        }
        assert_float_equal((span[1] - span[0]) / 10, known[i].each, 1e-9);
    }
}

// design: p=4, m=8, F=I=W=1. With a barrier ZB-H1 and ZB-H2 take 27 a step; chained, ZB-H2 takes 24.3 over ten steps, and
// 24 once it runs.
static void test_chained(void **state) {
    (void)state;
    static const double one[] = {1, 1, 1};
    ppl_sim_result r = simulate(ORDER_ZB_H1, 4, 8, one, &(sim_case){.steps = 10, .barrier = 1});
    assert_float_equal(r.makespan / 10, 27, 1e-9);
    r = simulate_zb_h2(4, 8, one, &(sim_case){.steps = 1});
    assert_float_equal(r.makespan, 27, 1e-9);
    assert_float_equal(r.span_idle, 0, 1e-9);
    r = simulate_zb_h2(4, 8, one, &(sim_case){.steps = 10, .barrier = 1});
    assert_float_equal(r.makespan / 10, 27, 1e-9);
    r = simulate_zb_h2(4, 8, one, &(sim_case){.steps = 10});
    assert_float_equal(r.makespan / 10, 24.3, 1e-9);
    assert_float_equal(r.iteration, 24, 1e-9);
    assert_float_equal(r.bubble_ratio, 0, 1e-9);
    r = simulate_zb_h2(4, 8, one, &(sim_case){.steps = 10, .validate = true}); // the norm comes before it is asked for
    assert_float_equal(r.makespan / 10, 24.3, 1e-9);
    r = simulate(ORDER_1F1B, 4, 8, one, &(sim_case){.steps = 10, .barrier = 1});
    assert_float_equal(r.makespan / 10, 33, 1e-9);
}

static void test_latency_and_update(void **state) {
    (void)state;
    static const double one[] = {1, 1, 1};
    // Down and up the ranks once: 2 (p-1) latencies.
    ppl_sim_result r = simulate(ORDER_GPIPE, 4, 1, one, &(sim_case){.steps = 1, .latency = 0.25});
    assert_float_equal(r.makespan, 4 * 3 + 6 * 0.25, 1e-9);
    r = simulate(ORDER_GPIPE, 4, 1, one, &(sim_case){.steps = 1, .latency = 0.25, .update = 2});
    assert_float_equal(r.makespan, 4 * 3 + 6 * 0.25 + 2, 1e-9);
    assert_float_equal(r.busy, 4 * 5, 1e-9);
    // With a barrier the norms go round once more.
    r = simulate(ORDER_GPIPE, 4, 1, one, &(sim_case){.steps = 1, .latency = 0.25, .update = 2, .barrier = 1});
    assert_float_equal(r.makespan, 4 * 3 + 7 * 0.25 + 2, 1e-9);
}

// Norms are known a latency after the last rank came to its own: a barrier waits for them before the updates, a validation
// in the step after.
static void test_norms(void **state) {
    (void)state;
    enum { P = 4, L = 5 };
    for (int32_t barrier = 0; barrier < 2; barrier++) {
        ppl_schedule *s = schedule_make(ORDER_1F1B, P, 8, 1);
        ppl_stages *stages;
        ppl_plan *p;
        ppl_sim_result r;
        double one[P] = {1, 1, 1, 1};
        static ppl_event e[1024];
        OK(ppl_stages_chain(P, &stages));
        OK(ppl_plan_build(s, stages, &(ppl_plan_options){.validate = !barrier}, &p));
        OK(ppl_plan_simulate(p, &(ppl_costs){.f = one, .i = one, .w = one, .latency = L, .barrier = barrier}, 3, &r));
        double known = 0;
        int32_t waited = 0;
        for (int32_t step = 0; step < 3; step++) {
            int64_t count;
            double arrived = 0;
            OK(ppl_plan_events(p, step, e, 1024, &count));
            for (int64_t n = 0; n < count; n++)
                if (e[n].kind == PPL_TASK_NORM && e[n].begin > arrived) arrived = e[n].begin;
            if (barrier) known = arrived + L;
            for (int64_t n = 0; n < count; n++) {
                if (e[n].kind != (barrier ? PPL_TASK_NORM : PPL_TASK_VALIDATE)) continue;
                assert_float_equal(e[n].end, e[n].begin > known ? e[n].begin : known, 1e-8);
                waited += e[n].end > e[n].begin;
            }
            known = arrived + L;
        }
        assert_true(waited > 0);
        ppl_plan_close(p);
        ppl_stages_free(stages);
        ppl_schedule_close(s);
    }
}

// A step's first uses wait for the buffers of the last uses of the step before: rank 0 is done at 29, but the buffer of its
// third forward is read until 37.
static void test_credit_across_steps(void **state) {
    (void)state;
    static const char *const rows[] = {"0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2"};
    ppl_schedule *s = schedule_from(2, 2, NULL, 3, rows);
    ppl_plan *p;
    ppl_sim_result r;
    double one[] = {1, 1}, w[] = {1, 10};
    OK(ppl_plan_abstract(s, &p));
    OK(ppl_plan_simulate(p, &(ppl_costs){.f = one, .i = one, .w = w}, 2, &r));
    ppl_event e[128];
    int64_t count;
    OK(ppl_plan_events(p, 1, e, 128, &count));
    assert_int_equal(e[0].kind, PPL_TASK_CREDIT);
    assert_int_equal(e[0].peer, 1);
    assert_float_equal(e[0].begin, 29, 1e-8);
    assert_float_equal(e[0].end, 37, 1e-8);
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

static void test_refusals(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 2, 1);
    ppl_plan *p;
    ppl_sim_result r;
    double good[] = {1, 1}, bad[] = {1, -1};
    OK(ppl_plan_abstract(s, &p));
    int64_t count;
    FAILS(PPL_ERR_ARG, "plan 1f1b: no events, want ppl_plan_simulate before", ppl_plan_events(p, 0, NULL, 0, &count));
    FAILS(PPL_ERR_ARG, "simulation: 0 steps, want at least 1",
          ppl_plan_simulate(p, &(ppl_costs){.f = good, .i = good, .w = good}, 0, &r));
    FAILS(PPL_ERR_ARG, "simulation: stage 1's W takes -1 seconds, want 0 to 9e+09",
          ppl_plan_simulate(p, &(ppl_costs){.f = good, .i = good, .w = bad}, 1, &r));
    FAILS(PPL_ERR_ARG, "simulation: a latency of inf seconds, want 0 to 9e+09",
          ppl_plan_simulate(p, &(ppl_costs){.f = good, .i = good, .w = good, .latency = HUGE_VAL}, 1, &r));
    FAILS(PPL_ERR_ARG, "simulation: an update takes -2 seconds, want 0 to 9e+09",
          ppl_plan_simulate(p, &(ppl_costs){.f = good, .i = good, .w = good, .update = -2}, 1, &r));
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

// The events are the plan's tasks, each rank's one behind the other, receives behind their sends.
static void test_events(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_ZB_H1, 3, 5, 1);
    ppl_plan *p;
    ppl_sim_result r;
    double f[] = {1, 2, 1}, i[] = {1, 1, 1}, w[] = {0.5, 1, 0.5};
    OK(ppl_plan_abstract(s, &p));
    OK(ppl_plan_simulate(p, &(ppl_costs){.f = f, .i = i, .w = w, .latency = 0.125}, 4, &r));
    ppl_event e[1024];
    int64_t count, tasks = 0;
    for (int32_t k = 0; k < 3; k++) tasks += ppl_plan_length(p, k);
    for (int32_t step = 0; step < 4; step++) {
        OK(ppl_plan_events(p, step, e, 1024, &count));
        assert_int_equal(count, tasks);
        double sent[4][8] = {{0}};
        for (int64_t n = 0; n < count; n++) {
            assert_int_equal(e[n].step, step);
            assert_true(e[n].end >= e[n].begin);
            if (n && e[n].rank == e[n - 1].rank) assert_float_equal(e[n].begin, e[n - 1].end, 1e-8);
            if (e[n].kind == PPL_TASK_F) assert_float_equal(e[n].end - e[n].begin, f[e[n].stage], 1e-8);
            if (e[n].kind == PPL_TASK_SEND) sent[e[n].edge][e[n].microbatch] = e[n].begin;
        }
        for (int64_t n = 0; n < count; n++)
            if (e[n].kind == PPL_TASK_RECEIVE) assert_true(e[n].end >= sent[e[n].edge][e[n].microbatch] + 0.125 - 1e-8);
        double end = 0;
        for (int64_t n = 0; n < count; n++) end = e[n].end > end ? e[n].end : end;
        if (step == 3) assert_float_equal(end, r.makespan, 1e-8);
    }
    FAILS(PPL_ERR_ARG, "trace: step 4 is not kept, want one of the newest 4 up to 3",
          ppl_plan_events(p, 4, e, 1024, &count));
    OK(ppl_plan_simulate(p, &(ppl_costs){.f = f, .i = i, .w = w}, 1, &r)); // replaces
    OK(ppl_plan_events(p, 0, e, 2, &count));
    assert_int_equal(count, tasks);
    assert_int_equal(ppl_plan_events(p, 1, e, 2, &count), PPL_ERR_ARG);
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_slowest),
        cmocka_unit_test(test_chained),
        cmocka_unit_test(test_latency_and_update),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_credit_across_steps),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests_name("sim/simulate", tests, NULL, NULL);
}
