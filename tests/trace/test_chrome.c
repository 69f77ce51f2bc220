// test_chrome.c - the Chrome trace event by event: what each must hold, ascending times, slices that nest, arrows with two
// ends inside slices, counters that end at nothing; over simulated plans of many shapes and over a run.
#include "graph/tiny.h"
#include "plan/plan.h"
#include "support/trainer.h"
#include "trace/trace.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_RANKS = 16, MOST_OPEN = 8 };
static const double TINY = 1e-6; // microseconds: below what three decimals tell apart

typedef struct track {
    double last, last_count; // begin of the newest slice and counter
    double end[MOST_OPEN];   // of the slices around it
    int open, slices, waits, causes;
    double live, peak, bytes, peak_bytes;
} track;

typedef struct report {
    track rank[MOST_RANKS];
    int32_t ranks;
    int begins, ends;
} report;

static const char *text_of(json_t *e, const char *key) {
    const char *s = json_string_value(json_object_get(e, key));
    if (!s || !*s) fail_msg("'%s' is missing in %s", key, json_dumps(e, 0));
    return s;
}

static double time_of(json_t *e, const char *key) {
    json_t *v = json_object_get(e, key);
    if (!json_is_number(v) || !(json_number_value(v) >= 0)) fail_msg("'%s' is no time in %s", key, json_dumps(e, 0));
    return json_number_value(v);
}

static track *track_of(report *r, json_t *e) {
    json_t *pid = json_object_get(e, "pid"), *tid = json_object_get(e, "tid");
    if (!json_is_integer(pid) || json_integer_value(pid) != 0 || !json_is_integer(tid) || json_integer_value(tid) < 0 ||
        json_integer_value(tid) >= r->ranks)
        fail_msg("pid or tid of %s", json_dumps(e, 0));
    return &r->rank[json_integer_value(tid)];
}

// Slices of a track ascend, and each lies inside the one that is open around it.
static void check_slice(track *t, json_t *e) {
    double begin = time_of(e, "ts"), end = begin + time_of(e, "dur");
    const char *group = text_of(e, "cat");
    text_of(e, "name");
    if (begin < t->last - TINY) fail_msg("goes back in time: %s", json_dumps(e, 0));
    t->last = begin;
    while (t->open > 0 && t->end[t->open - 1] <= begin + TINY) t->open--;
    if (t->open > 0 && end > t->end[t->open - 1] + TINY) fail_msg("does not nest: %s", json_dumps(e, 0));
    assert_in_range(t->open, 0, MOST_OPEN - 1);
    t->end[t->open++] = end;
    t->slices++;
    if (strcmp(group, "wait") != 0) return;
    const char *cause = json_string_value(json_object_get(json_object_get(e, "args"), "cause"));
    t->waits++;
    t->causes += cause && strncmp(cause, "waits for ", 10) == 0;
}

static void check_counter(track *t, json_t *e) {
    double at = time_of(e, "ts"), sum = 0;
    const char *key;
    json_t *v, *args = json_object_get(e, "args");
    if (at < t->last_count - TINY) fail_msg("goes back in time: %s", json_dumps(e, 0));
    t->last_count = at;
    if (!json_is_object(args) || json_object_size(args) == 0) fail_msg("counts nothing: %s", json_dumps(e, 0));
    json_object_foreach(args, key, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0) fail_msg("no count: %s", json_dumps(e, 0));
        sum += json_number_value(v);
    }
    bool live = strncmp(text_of(e, "name"), "live activations, rank ", 23) == 0;
    if (!live && strncmp(text_of(e, "name"), "memory in use, rank ", 20) != 0) fail_msg("%s", json_dumps(e, 0));
    double *now = live ? &t->live : &t->bytes, *peak = live ? &t->peak : &t->peak_bytes;
    *now = sum;
    if (sum > *peak) *peak = sum;
}

// An arrow follows the slice that its end lies in.
static void check_arrow(report *r, const track *t, json_t *ends, json_t *e) {
    char id[32]; // numbers: what Perfetto takes
    if (!json_is_integer(json_object_get(e, "id"))) fail_msg("'id' is no number in %s", json_dumps(e, 0));
    snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(e, "id")));
    text_of(e, "name");
    text_of(e, "cat");
    double at = time_of(e, "ts");
    if (t->open == 0 || at < t->last - TINY || at > t->end[t->open - 1] + TINY)
        fail_msg("lies in no slice: %s", json_dumps(e, 0));
    bool begins = *text_of(e, "ph") == 's';
    json_t *pair = json_object_get(ends, id);
    if (!pair) json_object_set_new(ends, id, pair = json_object());
    if (json_object_get(pair, begins ? "s" : "f")) fail_msg("twice: %s", json_dumps(e, 0));
    json_object_set(pair, begins ? "s" : "f", e);
    if (!begins) assert_string_equal(text_of(e, "bp"), "e");
    *(begins ? &r->begins : &r->ends) += 1;
}

static void check_arrows(json_t *ends) {
    const char *id;
    json_t *pair;
    json_object_foreach(ends, id, pair) {
        json_t *from = json_object_get(pair, "s"), *to = json_object_get(pair, "f");
        if (!from || !to) fail_msg("arrow %s has one end", id);
        if (time_of(from, "ts") > time_of(to, "ts") + 0.0011) fail_msg("arrow %s goes back in time", id);
        if (json_equal(json_object_get(from, "tid"), json_object_get(to, "tid"))) fail_msg("arrow %s stays", id);
    }
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    return root;
}

static report check_trace(json_t *root, int32_t ranks) {
    report r = {.ranks = ranks};
    json_t *events = json_object_get(root, "traceEvents"), *ends = json_object(), *e;
    assert_string_equal(text_of(root, "displayTimeUnit"), "ms");
    assert_true(json_is_array(events));
    size_t i;
    json_array_foreach(events, i, e) {
        const char *ph = text_of(e, "ph");
        track *t = track_of(&r, e);
        assert_int_equal(strlen(ph), 1);
        switch (*ph) {
        case 'M': text_of(e, "name"); break;
        case 'X': check_slice(t, e); break;
        case 'C': check_counter(t, e); break;
        case 's':
        case 'f': check_arrow(&r, t, ends, e); break;
        default: fail_msg("unknown: %s", json_dumps(e, 0));
        }
    }
    check_arrows(ends);
    json_decref(ends);
    for (int32_t k = 0; k < ranks; k++) {
        assert_true(r.rank[k].slices > 0);
        assert_int_equal(r.rank[k].waits, r.rank[k].causes);
        assert_float_equal(r.rank[k].live, 0, 0);
        assert_float_equal(r.rank[k].bytes, 0, 0);
    }
    return r;
}

static void temporary(char path[64]) {
    snprintf(path, 64, "/tmp/ppl-trace-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void test_simulated(void **state) {
    (void)state;
    static const double one[MOST_RANKS * 2] = {[0 ... MOST_RANKS * 2 - 1] = 1};
    ppl_costs costs = {.f = one, .i = one, .w = one, .latency = 0.125, .update = 0.5};
    char path[64];
    temporary(path);
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t m = p; m <= 2 * p; m += p) {
                ppl_schedule *s = schedule_make((order)o, p, m, 2);
                if (o == ORDER_1F1B && m > p)
                    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH); // steps flow into each other
                ppl_plan *plan;
                ppl_sim_result result;
                OK(ppl_plan_abstract(s, &plan));
                OK(ppl_plan_simulate(plan, &costs, 3, &result));
                OK(ppl_trace_write(plan->trace, path));
                json_t *root = load(path);
                report r = check_trace(root, p);
                assert_int_equal(r.begins, r.ends);
                assert_true(p == 1 ? r.begins == 0 : r.begins >= 3 * 2 * m * (p - 1));
                for (int32_t k = 0; k < p; k++) {
                    assert_float_equal(r.rank[k].peak, plan->rank[k].peak_live, 0);
                    assert_true(r.rank[k].peak_bytes >= r.rank[k].peak); // a unit an activation
                }
                json_decref(root);
                ppl_plan_close(plan);
                ppl_schedule_close(s);
            }
    unlink(path);
}

static void test_run(void **state) {
    (void)state;
    char path[64];
    temporary(path);
    for (int32_t clip = PPL_CLIP_BEFORE; clip <= PPL_CLIP_AFTER; clip++) {
        test_case c = test_usual;
        c.clip = clip;
        test_trainer t;
        test_open(&c, &t);
        test_steps(&t, 3);
        OK(ppl_run_write_trace(t.run, path));
        json_t *root = load(path);
        report r = check_trace(root, c.ranks);
        assert_true(r.begins > 0 && r.begins == r.ends);
        for (int32_t k = 0; k < c.ranks; k++) {
            ppl_rank_stats stats;
            OK(ppl_run_rank_stats(t.run, k, &stats));
            assert_float_equal(r.rank[k].peak, stats.planned_live, 0);
            assert_in_range((uintmax_t)r.rank[k].peak_bytes, 1,
                            (uintmax_t)(stats.memory[PPL_MEM_ACTIVATIONS] + stats.memory[PPL_MEM_PENDING]));
        }
        json_decref(root);
        test_trainer_close(&t);
    }
    unlink(path);
}

// Steps that are not timed have the same numbers, and leave a trace without slices.
static void test_untraced(void **state) {
    (void)state;
    double loss[2];
    for (int32_t kept = 0; kept < 2; kept++) {
        test_case c = test_usual;
        test_trainer t;
        test_open(&c, &t);
        ppl_run_time(t.run, kept);
        test_steps(&t, 3);
        ppl_step_record record;
        OK(ppl_run_record(t.run, 2, &record));
        loss[kept] = record.loss;
        assert_int_equal(record.end > record.begin, kept);
        int64_t count;
        if (!kept) {
            test_refused(ppl_run_events(t.run, 2, NULL, 0, &count), PPL_ERR_ARG, "is not kept");
            char path[64];
            temporary(path);
            OK(ppl_run_write_trace(t.run, path));
            json_t *root = load(path), *e;
            size_t i;
            json_array_foreach(json_object_get(root, "traceEvents"), i, e) assert_string_equal(text_of(e, "ph"), "M");
            json_decref(root);
            unlink(path);
        }
        test_trainer_close(&t);
    }
    assert_true(loss[0] == loss[1]);
}

// However many steps are kept, the file stays bounded: the newest steps are written.
static void test_bounded(void **state) {
    (void)state;
    static const double one[MOST_RANKS] = {[0 ... MOST_RANKS - 1] = 1};
    ppl_costs costs = {.f = one, .i = one, .w = one};
    char path[64];
    temporary(path);
    ppl_schedule *s = schedule_make(ORDER_1F1B, MOST_RANKS, 128, 1);
    ppl_plan *plan;
    ppl_sim_result result;
    OK(ppl_plan_abstract(s, &plan));
    OK(ppl_plan_simulate(plan, &costs, 6, &result));
    OK(ppl_trace_write(plan->trace, path));
    json_t *root = load(path);
    report r = check_trace(root, MOST_RANKS);
    int64_t slices = 0, tasks = 0;
    for (int32_t k = 0; k < MOST_RANKS; k++) slices += r.rank[k].slices, tasks += ppl_plan_length(plan, k);
    assert_true(slices >= tasks && slices < 6 * tasks); // a step at least, and not all of them
    assert_true(slices <= 2 * 40000);
    json_decref(root);
    ppl_plan_close(plan);
    ppl_schedule_close(s);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_untraced),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
