// test_trace.c - rings, events, statistics and the Chrome trace, over a hand-made plan of two ranks whose spans are known.
#include "trace/trace.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

// Stage 0 on rank 0, stage 1 on rank 1; edge 0 up, edge 1 down; one microbatch.
static ppl_task list_0[] = {
    {.kind = PPL_TASK_CREDIT, .stage = 0, .edge = 0},
    {.kind = PPL_TASK_F, .stage = 0, .edge = -1},
    {.kind = PPL_TASK_SEND, .stage = 0, .edge = 0},
    {.kind = PPL_TASK_RECEIVE, .stage = 0, .edge = 1},
    {.kind = PPL_TASK_B, .stage = 0, .edge = -1},
    {.kind = PPL_TASK_NORM, .stage = -1, .microbatch = -1, .edge = -1},
    {.kind = PPL_TASK_UPDATE, .stage = 0, .microbatch = -1, .edge = -1},
};
static ppl_task list_1[] = {
    {.kind = PPL_TASK_RECEIVE, .stage = 1, .edge = 0},
    {.kind = PPL_TASK_F, .stage = 1, .edge = -1},
    {.kind = PPL_TASK_I, .stage = 1, .edge = -1},
    {.kind = PPL_TASK_SEND, .stage = 1, .edge = 1},
    {.kind = PPL_TASK_W, .stage = 1, .edge = -1},
    {.kind = PPL_TASK_NORM, .stage = -1, .microbatch = -1, .edge = -1},
    {.kind = PPL_TASK_UPDATE, .stage = 1, .microbatch = -1, .edge = -1},
};
enum { TASKS = 7 };
static ppl_edge_reader up = {.stage = 1}, down = {.stage = 0};
static ppl_edge edges[] = {{.kind = PPL_F, .src = 0, .readers = &up, .n_readers = 1, .bytes = 8},
                           {.kind = PPL_B, .src = 1, .readers = &down, .n_readers = 1, .bytes = 8}};
static ppl_stages stages = {.count = 2, .edges = edges, .n_edges = 2};
static int32_t stage_rank[] = {0, 1}, order[] = {0}, rank_0[] = {0}, rank_1[] = {1}, no_buffers[] = {0};
static ppl_edge_plan edge_plans[] = {{1, order, 1, rank_1, no_buffers}, {1, order, 1, rank_0, no_buffers}};
static ppl_rank_plan ranks[] = {{.tasks = list_0, .count = TASKS}, {.tasks = list_1, .count = TASKS}};
static ppl_plan plan = {.stages = &stages,
                        .schedule = "by \"hand\"",
                        .ranks = 2,
                        .microbatches = 1,
                        .stage_rank = stage_rank,
                        .rank = ranks,
                        .edge = edge_plans};

// Begin, end and middle of each task, microseconds from the step's begin. Both ranks end at 100.
static const int64_t span_0[TASKS][3] = {{0, 0, 0},    {0, 10, 0},   {10, 10, 0}, {10, 45, 0},
                                         {45, 75, 57}, {75, 90, 80}, {90, 100, 0}};
static const int64_t span_1[TASKS][3] = {{0, 12, 0},  {12, 32, 0},  {32, 44, 0}, {44, 44, 0},
                                         {44, 60, 0}, {60, 90, 70}, {90, 100, 0}};

static void write_step(ppl_trace *t, int64_t step, int64_t at) { // at: microseconds
    for (int32_t rank = 0; rank < 2; rank++) {
        ppl_trace_begin(t, step);
        ppl_span *s = ppl_trace_row(t, rank, step);
        for (int i = 0; i < TASKS; i++) {
            const int64_t *from = rank ? span_1[i] : span_0[i];
            s[i].begin = t->origin + (at + from[0]) * 1000;
            s[i].end = t->origin + (at + from[1]) * 1000;
            s[i].middle = from[2] ? t->origin + (at + from[2]) * 1000 : 0;
        }
    }
    ppl_trace_done(t, step);
}

static ppl_trace *trace_of(int32_t steps, int64_t written) {
    ppl_trace *t;
    OK(ppl_trace_build(&plan, steps, &t));
    for (int64_t step = 0; step < written; step++) write_step(t, step, 90 * step); // the next begins 10 before the end
    return t;
}

static void test_rings(void **state) {
    (void)state;
    ppl_trace *t = trace_of(3, 10);
    int64_t steps[3], count;
    assert_int_equal(ppl_trace_kept(t, steps), 3);
    assert_int_equal(steps[0], 7);
    assert_int_equal(steps[2], 9);
    assert_int_equal(ppl_trace_events(t, 6, NULL, 0, &count), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "trace: step 6 is not kept, want one of the newest 3 up to 9");
    // A rank that is ahead writes steps 10 .. 12 without touching what is kept.
    for (int64_t step = 10; step < 13; step++) {
        ppl_trace_begin(t, step);
        ppl_trace_row(t, 0, step)[0].begin = 1;
    }
    assert_int_equal(ppl_trace_kept(t, steps), 3);
    assert_int_equal(ppl_trace_find(t, 0, 7)[0].begin, t->origin + 630000);
    assert_null(ppl_trace_find(t, 0, 10));
    ppl_trace_free(t);
    ppl_trace_free(NULL);
    assert_int_equal(ppl_trace_build(&plan, 0, &t), PPL_ERR_ARG);
}

static void test_events(void **state) {
    (void)state;
    ppl_trace *t = trace_of(2, 2);
    ppl_event e[2 * TASKS];
    int64_t count;
    OK(ppl_trace_events(t, 1, e, 3, &count)); // writes no more than three
    assert_int_equal(count, 2 * TASKS);
    OK(ppl_trace_events(t, 1, e, 2 * TASKS, &count));
    assert_int_equal(e[3].kind, PPL_TASK_RECEIVE);
    assert_int_equal(e[3].rank, 0);
    assert_int_equal(e[3].peer, 1);
    assert_int_equal(e[2].peer, 1); // sent to
    assert_int_equal(e[0].peer, 1); // the reader gives the credit
    assert_int_equal(e[1].peer, -1);
    assert_int_equal(e[TASKS].peer, 0);
    assert_int_equal(e[TASKS].step, 1);
    assert_float_equal(e[3].begin, 100e-6, 1e-12);
    assert_float_equal(e[3].end, 135e-6, 1e-12);
    ppl_trace_free(t);
}

static void test_ranks(void **state) {
    (void)state;
    ppl_trace *t = trace_of(4, 2);
    ppl_trace_rank r;
    ppl_trace_rank_stats(t, 0, &r);
    assert_float_equal(r.busy, 55e-6, 1e-12);      // F 10, B 30, NORM's own 5, UPDATE 10
    assert_float_equal(r.wait, 45e-6, 1e-12);      // RECEIVE 35, NORM 10
    assert_float_equal(r.span_idle, 45e-6, 1e-12); // from 0 to 100
    assert_float_equal(r.iteration, 95e-6, 1e-12); // 100, then 90
    assert_int_equal(r.waits_for, 1);
    ppl_trace_rank_stats(t, 1, &r);
    assert_float_equal(r.busy, 68e-6, 1e-12); // F 20, I 12, W 16, NORM 10, UPDATE 10
    assert_float_equal(r.span_idle, 20e-6, 1e-12);
    assert_int_equal(r.waits_for, 0);
    assert_float_equal(ppl_trace_bubble(t, 0), 1 - 123.0 / 200, 1e-9);
    assert_float_equal(ppl_trace_bubble(t, 1), 1 - 123.0 / 180, 1e-9); // begun before step 0 ended
    assert_float_equal(ppl_trace_bubble(t, 2), 0, 0);
    ppl_trace_free(t);
}

// The iteration time of the oldest kept step is from the end of the one before, which is no longer kept.
static void test_oldest(void **state) {
    (void)state;
    ppl_trace *t = trace_of(1, 4);
    ppl_trace_rank r;
    ppl_trace_rank_stats(t, 0, &r);
    assert_float_equal(r.iteration, 90e-6, 1e-12);
    assert_non_null(ppl_trace_before(t, 0, 3));
    assert_null(ppl_trace_find(t, 0, 2));
    ppl_trace_free(t);
    t = trace_of(1, 1); // nothing before: from the first busy task, however long a rank has waited for it
    for (int32_t rank = 0; rank < 2; rank++) ppl_trace_row(t, rank, 0)[0].begin -= 50000;
    ppl_trace_rank_stats(t, 1, &r);
    assert_float_equal(r.iteration, 100e-6, 1e-12);
    ppl_trace_free(t);
}

static void test_stages(void **state) {
    (void)state;
    ppl_trace *t = trace_of(40, 40);
    double median, p95;
    int64_t n;
    for (int64_t step = 0; step < 40; step++) // F takes 10, 11, .. 49
        ppl_trace_row(t, 0, step)[1].end += step * 1000;
    ppl_trace_stage_stats(t, 0, PPL_PHASE_F, &median, &p95, &n);
    assert_int_equal(n, 40);
    assert_float_equal(median, 29.5e-6, 1e-12);
    assert_float_equal(p95, 47e-6, 1e-12);
    ppl_trace_stage_stats(t, 0, PPL_PHASE_I, &median, &p95, &n); // the parts of a B
    assert_float_equal(median, 12e-6, 1e-12);
    ppl_trace_stage_stats(t, 0, PPL_PHASE_W, &median, &p95, &n);
    assert_float_equal(median, 18e-6, 1e-12);
    ppl_trace_stage_stats(t, 1, PPL_PHASE_I, &median, &p95, &n); // an I of its own
    assert_float_equal(median, 12e-6, 1e-12);
    ppl_trace_stage_stats(t, 1, PPL_PHASES, &median, &p95, &n);
    assert_float_equal(median, 10e-6, 1e-12);
    ppl_trace_stage_stats(t, 7, PPL_PHASE_F, &median, &p95, &n);
    assert_int_equal(n, 0);
    assert_float_equal(ppl_trace_edge_median(t, 0, 0), 2e-6, 1e-12); // sent at 10, seen at 12
    assert_float_equal(ppl_trace_edge_median(t, 1, 0), 1e-6, 1e-12);
    ppl_trace_row(t, 0, 0)[3].begin += 35 * 1000; // a reader that comes late says nothing about the link
    assert_float_equal(ppl_trace_edge_median(t, 1, 0), 1e-6, 1e-12);
    ppl_trace_free(t);
}

static json_t *read_trace(const ppl_trace *t) {
    char path[] = "/tmp/ppl-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    OK(ppl_trace_write(t, path));
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    unlink(path);
    return root;
}

static int count_of(json_t *events, const char *key, const char *value) {
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(events, i, e) {
        const char *s = json_string_value(json_object_get(e, key));
        n += s && strcmp(s, value) == 0;
    }
    return n;
}

static void test_chrome(void **state) {
    (void)state;
    ppl_trace *t = trace_of(2, 5);
    json_t *root = read_trace(t), *events = json_object_get(root, "traceEvents");
    assert_true(json_is_array(events));
    // Two kept steps of two ranks; besides its tasks rank 0 has the parts of a B, and both have a NORM's wait.
    assert_int_equal(count_of(events, "ph", "X"), 2 * (2 * TASKS + 2 + 2));
    assert_int_equal(count_of(events, "name", "0I0"), 2);
    assert_int_equal(count_of(events, "name", "wait for norms"), 4);
    assert_int_equal(count_of(events, "name", "0F0"), 2);
    assert_int_equal(count_of(events, "name", "1W0"), 2);
    assert_int_equal(count_of(events, "name", "receive 1B0"), 2);
    assert_int_equal(count_of(events, "name", "credit 0F0"), 2);
    assert_int_equal(count_of(events, "name", "1U"), 2);
    assert_int_equal(count_of(events, "name", "rank 1"), 0); // a name in args
    assert_int_equal(count_of(events, "ph", "s"), 4);
    assert_int_equal(count_of(events, "ph", "f"), 4);
    size_t i, k;
    json_t *e, *other;
    json_array_foreach(events, i, e) { // each arrow has one end, not before its begin
        if (strcmp(json_string_value(json_object_get(e, "ph")), "s") != 0) continue;
        int ends = 0;
        json_array_foreach(events, k, other) {
            if (strcmp(json_string_value(json_object_get(other, "ph")), "f") != 0) continue;
            if (!json_equal(json_object_get(e, "id"), json_object_get(other, "id"))) continue;
            ends++;
            assert_true(json_number_value(json_object_get(other, "ts")) >= json_number_value(json_object_get(e, "ts")));
        }
        assert_int_equal(ends, 1);
    }
    assert_int_equal(count_of(events, "name", "live activations, rank 0"), 4);
    json_decref(root);
    assert_int_equal(ppl_trace_write(t, "/nonexistent/trace.json"), PPL_ERR_IO);
    ppl_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings),  cmocka_unit_test(test_events), cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_stages), cmocka_unit_test(test_oldest), cmocka_unit_test(test_chrome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
