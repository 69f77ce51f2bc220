// test_links.c - messages over links with latency and bandwidth: times, order, topology, load; and jittered costs.
#include "sim/costs.h"
#include "sim/formulas.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 8, EVENTS = 1024 };

typedef struct timed { // a simulated schedule, one unit of bytes a message
    ppl_schedule *schedule;
    ppl_plan *plan;
    ppl_sim_result r;
    ppl_link_load load[64];
    int32_t n;
} timed;

static timed timed_of(ppl_schedule *s, const ppl_costs *costs, int32_t steps) {
    timed t = {.schedule = s};
    OK(ppl_plan_abstract(s, &t.plan));
    OK(ppl_plan_simulate(t.plan, costs, steps, &t.r));
    OK(ppl_plan_links(t.plan, t.load, 64, &t.n));
    return t;
}

static void timed_close(timed *t) {
    ppl_plan_close(t->plan);
    ppl_schedule_close(t->schedule);
}

static const double one[RANKS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1}, none[RANKS_MAX];

static double makespan(ppl_schedule *s, const ppl_costs *costs) {
    timed t = timed_of(s, costs, 1);
    double seconds = t.r.makespan;
    timed_close(&t);
    return seconds;
}

static void test_bandwidth(void **state) {
    (void)state;
    ppl_costs c = {.f = one, .i = one, .w = one, .latency = 0.25, .bandwidth = 50, .unit_bytes = 100};
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 2, 1, 1), &c), 6 + 2 * (2 + 0.25), 1e-9);
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 4, 1, 1), &c), 12 + 6 * (2 + 0.25), 1e-9);
    c.bandwidth = 0; // no limit
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 2, 1, 1), &c), 6 + 2 * 0.25, 1e-9);
}

// Four messages sent every half second over a link that takes two for each: they come one after the other.
static void test_one_after_the_other(void **state) {
    (void)state;
    const double f[] = {0.5, 0};
    ppl_costs c = {.f = f, .i = none, .w = none, .latency = 0.25, .bandwidth = 50, .unit_bytes = 100};
    for (int32_t steps = 1; steps <= 2; steps++) {
        timed t = timed_of(schedule_make(ORDER_GPIPE, 2, 4, 1), &c, steps);
        static ppl_event e[EVENTS];
        int64_t count;
        int32_t received = 0;
        OK(ppl_plan_events(t.plan, 0, e, EVENTS, &count));
        for (int64_t n = 0; n < count; n++) {
            if (e[n].kind != PPL_TASK_RECEIVE || e[n].rank != 1) continue;
            assert_float_equal(e[n].end, 0.5 + 2 * (e[n].microbatch + 1) + 0.25, 1e-8);
            received++;
        }
        assert_int_equal(received, 4);
        assert_int_equal(t.n, 2); // one a direction; the gradients do not wait for activations
        for (int32_t i = 0; i < t.n; i++) {
            assert_int_equal(t.load[i].from, i);
            assert_int_equal(t.load[i].to, 1 - i);
            assert_int_equal(t.load[i].messages, 4);
            assert_int_equal(t.load[i].bytes, 400);
            assert_float_equal(t.load[i].busy, 8, 1e-9);
        }
        assert_float_equal(t.load[0].queued, 1.5 + 3 + 4.5, 1e-9);
        assert_float_equal(t.load[0].longest, 6.5 + 0.25, 1e-9);
        timed_close(&t);
    }
}

// Ranks 0, 1 and 2, 3 on a node each, and one link that goes by its own.
static void test_topology(void **state) {
    (void)state;
    ppl_costs c = {.f = one,
                   .i = one,
                   .w = one,
                   .latency = 0.125,
                   .bandwidth = 800,
                   .between_latency = 2,
                   .between_bandwidth = 100,
                   .node_ranks = 2,
                   .unit_bytes = 100};
    double fast = 0.125 + 0.125, slow = 2 + 1;
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 4, 1, 1), &c), 12 + 2 * (2 * fast + slow), 1e-9);
    c.node_ranks = 4;
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 4, 1, 1), &c), 12 + 6 * fast, 1e-9);
    c.node_ranks = 1;
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 4, 1, 1), &c), 12 + 6 * slow, 1e-9);
    const ppl_link_cost own[] = {{.from = 2, .to = 1, .latency = 5}, {.from = 6, .to = 7, .latency = 9}};
    c.links = own, c.n_links = 2;
    assert_float_equal(makespan(schedule_make(ORDER_GPIPE, 4, 1, 1), &c), 12 + 5 * slow + 5, 1e-9);
    assert_float_equal(ppl_costs_latency(&c, 4), 5, 1e-12);
    assert_float_equal(ppl_costs_latency(&c, 8), 9, 1e-12);
    assert_float_equal(ppl_costs_latency(&c, 1), 0, 1e-12);
}

// With several chunks a rank sends over two links; a V keeps its turn at home.
static void test_loads(void **state) {
    (void)state;
    ppl_costs c = {.f = one, .i = one, .w = one};
    timed t = timed_of(schedule_make(ORDER_V, 4, 6, 2), &c, 1);
    assert_int_equal(t.n, 6);
    for (int32_t i = 0; i < t.n; i++) {
        assert_int_equal(abs(t.load[i].from - t.load[i].to), 1);
        assert_int_equal(t.load[i].messages, 12);
        assert_int_equal(t.load[i].bytes, 0);
    }
    int32_t count;
    ppl_link_load first[2] = {{.from = 77}, {.from = 77}};
    OK(ppl_plan_links(t.plan, first, 1, &count));
    assert_int_equal(count, 6);
    assert_int_equal(first[0].from, 0);
    assert_int_equal(first[1].from, 77);
    timed_close(&t);
}

static void test_jitter(void **state) {
    (void)state;
    ppl_costs c = {.f = one, .i = one, .w = one, .latency = 0.1, .jitter = 0.25, .jitter_seed = 7};
    double first = makespan(schedule_make(ORDER_1F1B, 4, 8, 1), &c);
    assert_float_equal(first, makespan(schedule_make(ORDER_1F1B, 4, 8, 1), &c), 0);
    c.jitter_seed = 8;
    assert_true(fabs(first - makespan(schedule_make(ORDER_1F1B, 4, 8, 1), &c)) > 1e-6);
    timed t = timed_of(schedule_make(ORDER_1F1B, 4, 8, 1), &c, 2);
    static ppl_event e[EVENTS];
    double least = 9, most = 0, sum = 0;
    int32_t n = 0;
    for (int32_t step = 0; step < 2; step++) {
        int64_t count;
        OK(ppl_plan_events(t.plan, step, e, EVENTS, &count));
        for (int64_t k = 0; k < count; k++) {
            if (e[k].kind != PPL_TASK_F) continue;
            double seconds = e[k].end - e[k].begin;
            double want = ppl_costs_program_jitter(&c, step, e[k].stage, PPL_PHASE_F, e[k].microbatch);
            assert_float_equal(seconds, want, 1e-8);
            if (seconds < least) least = seconds;
            if (seconds > most) most = seconds;
            sum += seconds, n++;
        }
    }
    assert_int_equal(n, 2 * 4 * 8);
    assert_true(least >= 0.75 && least < 0.85 && most <= 1.25 && most > 1.15);
    assert_float_equal(sum / n, 1, 0.06);
    timed_close(&t);
}

static void refuse(const ppl_plan *like, ppl_costs c, const char *words) {
    ppl_sim_result r;
    ppl_plan *p;
    OK(ppl_plan_abstract(like->actions, &p));
    FAILS(PPL_ERR_ARG, words, ppl_plan_simulate(p, &c, 3, &r));
    int32_t count;
    assert_int_equal(ppl_plan_links(p, NULL, 0, &count), PPL_ERR_ARG); // nothing is left of it
    ppl_plan_close(p);
}

static void test_refusals(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 2, 1);
    ppl_plan *p;
    OK(ppl_plan_abstract(s, &p));
    const double huge[] = {9e9, 9e9};
    const ppl_link_cost twice[] = {{.from = 0, .to = 1}, {.from = 1, .to = 0}, {.from = 0, .to = 1}};
    const ppl_costs c = {.f = one, .i = one, .w = one};
    ppl_costs x;
#define REFUSE(words, ...) (x = c, __VA_ARGS__, refuse(p, x, "simulation: " words))
    REFUSE("the link from rank 0 to rank 1 has a bandwidth, and no model says how large a message is, want its bytes",
           x.bandwidth = 5);
    REFUSE("a bandwidth of -1 bytes a second, want a number above 0, or 0 for no limit", x.bandwidth = -1);
    REFUSE("a bandwidth between nodes of inf bytes a second, want a number above 0, or 0 for no limit",
           x.between_bandwidth = HUGE_VAL);
    REFUSE("a latency between nodes of nan seconds, want 0 to 9e+09", x.between_latency = NAN);
    REFUSE("nodes of -2 ranks, want 0 or more", x.node_ranks = -2);
    REFUSE("a message of -8 bytes, want a number from 0", x.unit_bytes = -8);
    REFUSE("a jitter of 1, want a part from 0 to below 1", x.jitter = 1);
    REFUSE("2 links and no list of them", x.n_links = 2);
    REFUSE("links 0 and 2 both go from rank 0 to rank 1, want one", x.n_links = 3, x.links = twice);
    REFUSE("link 0 goes from rank 4 to rank 4, want two ranks from 0", x.n_links = 1,
           x.links = &(ppl_link_cost){.from = 4, .to = 4});
    REFUSE("a link's latency of -1 seconds, want 0 to 9e+09", x.n_links = 1,
           x.links = &(ppl_link_cost){.from = 4, .to = 5, .latency = -1});
    REFUSE("stage 0's F takes 1e+308 seconds, want 0 to 9e+09", x.f = (double[]){1e308, 1});
    REFUSE("the steps take 1.62e+11 seconds, want 9e+09 at most: lower costs, or fewer steps", x.f = x.w = huge);
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

// A file of the simulated steps, as a run writes one.
static void test_trace(void **state) {
    (void)state;
    ppl_costs c = {.f = one, .i = one, .w = one};
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 2, 1);
    ppl_plan *p;
    OK(ppl_plan_abstract(s, &p));
    char path[] = "/tmp/ppl-sim-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    FAILS(PPL_ERR_ARG, "plan 1f1b: no trace, want ppl_plan_simulate before", ppl_plan_write_trace(p, path));
    ppl_sim_result r;
    OK(ppl_plan_simulate(p, &c, 1, &r));
    OK(ppl_plan_write_trace(p, path));
    FILE *file = fopen(path, "rb");
    static char text[1 << 16];
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    remove(path);
    text[n] = 0;
    assert_non_null(strstr(text, "\"name\":\"1F1\""));
    assert_non_null(strstr(text, "\"dur\":1000000.000"));
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bandwidth), cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_topology),  cmocka_unit_test(test_loads),
        cmocka_unit_test(test_jitter),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests_name("sim/links", tests, NULL, NULL);
}
