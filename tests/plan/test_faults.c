// test_faults.c - the N-th allocation fails, for every N: schedules, CSV files, plans and simulations fail with
// PPL_ERR_MEMORY, leak nothing (the sanitizers look) and leave no half-made result.
#include "plan/graphs.h"
#include "support/plans.h"
#include "support/schedules.h"
#include <unistd.h>

static int64_t countdown = -1; // allocations until one fails; -1: none does

static bool fails_now(void) {
    if (countdown < 0) return false;
    return countdown-- == 0;
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return fails_now() ? NULL : __real_aligned_alloc(align, bytes);
}
void *__real_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes) {
    return fails_now() ? NULL : __real_realloc(p, bytes);
}

// Runs call with the 0th, 1st, ... allocation failing, until none does.
#define EVERY(call)                                                                                                    \
    do {                                                                                                               \
        int64_t n_ = 0;                                                                                                \
        for (;; n_++) {                                                                                                \
            countdown = n_;                                                                                            \
            ppl_status st_ = (call);                                                                                   \
            bool reached_ = countdown < 0;                                                                             \
            countdown = -1;                                                                                            \
            if (!reached_) break;                                                                                      \
            if (st_ != PPL_ERR_MEMORY) fail_msg("allocation %d: %s", (int)n_, ppl_status_name(st_));                   \
        }                                                                                                              \
        assert_true(n_ > 0);                                                                                           \
    } while (0)

static ppl_status read_and_drop(const char *path) {
    ppl_schedule *s;
    ppl_status st = ppl_schedule_read(path, &s);
    if (st != PPL_OK) assert_null(s);
    ppl_schedule_close(s);
    return st;
}

static ppl_status open_and_drop(void) {
    ppl_schedule *s;
    PPL_TRY(ppl_schedule_open("x", 1, 1, (int32_t[]){0}, 1, &s));
    ppl_status st = ppl_schedule_add(s, 0, PPL_F, 0, 0, 0);
    if (st == PPL_OK) st = ppl_schedule_add(s, 0, PPL_B, 0, 0, 0);
    if (st == PPL_OK) st = ppl_schedule_check(s);
    ppl_schedule_close(s);
    return st;
}

static ppl_status build_and_drop(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options) {
    ppl_plan *p;
    ppl_status st = ppl_plan_build(s, stages, options, &p);
    if (st != PPL_OK) assert_null(p);
    ppl_plan_close(p);
    return st;
}

static ppl_status abstract_and_drop(const ppl_schedule *s) {
    ppl_plan *p;
    ppl_status st = ppl_plan_abstract(s, &p);
    if (st != PPL_OK) assert_null(p);
    ppl_plan_close(p);
    return st;
}

static void test_schedules(void **state) {
    (void)state;
    char path[] = "/tmp/ppl_faults_XXXXXX";
    int f = mkstemp(path);
    assert_true(f >= 0);
    static const char text[] = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,(1F0;1I0)OVERLAP_F_B,1SEND_B0,1W0\n";
    assert_int_equal(write(f, text, sizeof text - 1), sizeof text - 1);
    close(f);
    EVERY(open_and_drop());
    EVERY(read_and_drop(path));
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 3, 1);
    EVERY(ppl_schedule_write(s, path));
    ppl_schedule_close(s);
    unlink(path);
}

static void test_plans(void **state) {
    (void)state;
    ppl_graph *g = make_graph(2);
    ppl_schedule *s = schedule_make(ORDER_ZB_H1, 2, 3, 1);
    ppl_stages *stages;
    OK(ppl_stages_build(g, 2, (int32_t[]){0, 2}, &stages));
    for (int32_t bits = 0; bits < 6; bits++) {
        ppl_plan_options options = {.copy_links = bits & 1, .validate = bits / 2 == 1, .forward_only = bits / 2 == 2};
        EVERY(build_and_drop(s, stages, &options));
    }
    EVERY(abstract_and_drop(s));
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        ppl_schedule_set_weights(s, weights);
        EVERY(abstract_and_drop(s));
    }
    ppl_schedule_set_weights(s, PPL_WEIGHTS_SYNC);
    ppl_plan *p;
    double one[] = {1, 1};
    ppl_sim_result r;
    OK(ppl_plan_abstract(s, &p));
    ppl_costs costs = {.f = one, .i = one, .w = one};
    EVERY(ppl_plan_simulate(p, &costs, 2, &r));
    ppl_plan_close(p);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules), cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests_name("plan/faults", tests, NULL, NULL);
}
