// test_build.c - plans over a grid of orders, ranks and microbatches: they prove, their peaks are the published ones, and a
// replay in random order of ranks finds every buffer right.
#include "support/plans.h"
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static int32_t min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t want_peak(order o, int32_t p, int32_t m, int32_t chunks, int32_t rank) {
    switch (o) {
    case ORDER_NAIVE: return 1;
    case ORDER_GPIPE: return m;
    case ORDER_1F1B: return min(m, p - rank);
    case ORDER_ZB_H1: return min(m, p);
    case ORDER_LOOP: return m * chunks;
    case ORDER_V: return m * 2;
    case ORDER_INTERLEAVED: // one more than its warm-up
        return m == p ? m * chunks : min(m * chunks, 2 * (p - rank - 1) + (chunks - 1) * p + 1);
    case ORDERS: break;
    }
    return -1;
}

static void check_lists(const ppl_plan *p, const ppl_schedule *s) {
    for (int32_t r = 0; r < p->ranks; r++) {
        size_t programs = 0;
        int32_t updates = 0, last_action = -1;
        for (int64_t at = 0; at < ppl_plan_length(p, r); at++) {
            const ppl_task *t = &ppl_plan_tasks(p, r)[at];
            if (t->kind == PPL_TASK_UPDATE) updates++;
            if (t->edge >= 0) assert_int_equal(t->buffer, ppl_plan_buffer(p, t->edge, t->microbatch));
            if (t->action >= 0) assert_true(t->action >= last_action);
            if (t->kind < PPL_TASK_F || t->kind > PPL_TASK_W) continue;
            const ppl_action *a = &s->rank[r].actions[t->action];
            assert_int_equal(t->action, last_action + 1);
            last_action = t->action;
            programs++;
            assert_int_equal(t->stage, a->stage);
            assert_int_equal(t->microbatch, a->microbatch);
            assert_in_range(t->slot, 0, p->layout[t->stage].slots - 1);
            if (t->kind != PPL_TASK_F) assert_in_range(t->pending, 0, p->layout[t->stage].pendings - 1);
        }
        assert_int_equal(programs, s->rank[r].count);
        assert_int_equal(updates, p->rank[r].n_stages);
    }
}

static void check_one(order o, int32_t p, int32_t m, int32_t chunks, bool copies) {
    ppl_schedule *s = schedule_make(o, p, m, chunks);
    ppl_stages *stages;
    ppl_plan *plan;
    assert_int_equal(ppl_stages_chain(s->stages, &stages), PPL_OK);
    ppl_plan_options options = {.copy_links = copies, .validate = (p + m) % 2};
    if (ppl_plan_build(s, stages, &options, &plan) != PPL_OK)
        fail_msg("%s p=%d m=%d: %s", order_name[o], p, m, ppl_error());
    check_lists(plan, s);
    for (int32_t r = 0; r < p; r++) assert_int_equal(ppl_plan_peak_live(plan, r), want_peak(o, p, m, chunks, r));
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const char *bad = plan_replay(plan, 3, seed);
        if (bad) fail_msg("%s p=%d m=%d copies=%d seed=%d: %s", order_name[o], p, m, copies, (int)seed, bad);
    }
    ppl_plan_close(plan);
    options = (ppl_plan_options){.copy_links = copies, .forward_only = true};
    if (ppl_plan_build(s, stages, &options, &plan) != PPL_OK)
        fail_msg("%s p=%d m=%d forward: %s", order_name[o], p, m, ppl_error());
    const char *bad = plan_replay(plan, 3, 1);
    if (bad) fail_msg("%s p=%d m=%d copies=%d forward: %s", order_name[o], p, m, copies, bad);
    for (int32_t r = 0; r < p; r++) assert_int_equal(ppl_plan_peak_live(plan, r), 1);
    ppl_plan_close(plan);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
}

static void test_grid(void **state) {
    (void)state;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 8; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++)
                for (int32_t chunks = 2; chunks <= (o == ORDER_LOOP || o == ORDER_INTERLEAVED ? 3 : 2); chunks++) {
                    if (o == ORDER_INTERLEAVED && m % p) continue;
                    check_one((order)o, p, m, chunks, false);
                    check_one((order)o, p, m, chunks, true);
                }
}

static int32_t count_beside(const ppl_plan *p) {
    int32_t n = 0;
    for (int32_t r = 0; r < p->ranks; r++) {
        bool any = false;
        for (int64_t at = 0; at < p->rank[r].count; at++) {
            const ppl_task *t = &p->rank[r].tasks[at];
            any |= t->stream != 0;
            n += t->stream && t->kind >= PPL_TASK_F && t->kind <= PPL_TASK_W;
            if (t->kind == PPL_TASK_UPDATE || t->kind == PPL_TASK_NORM) assert_int_equal(t->stream, 0);
        }
        assert_int_equal(p->rank[r].streams, any ? 2 : 1);
    }
    return n;
}

// Pairs that may overlap, with each kind of weights: on two streams they hold in any order of their tasks, on one there are
// none.
static void test_beside(void **state) {
    (void)state;
    int32_t all[3] = {0};
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 5; p++)
            for (int32_t m = 2; m <= 8; m += 2)
                for (int32_t bits = 0; bits < 6; bits++) {
                    if (o == ORDER_INTERLEAVED && m % p) continue;
                    ppl_schedule *s = schedule_make((order)o, p, m, 2);
                    ppl_stages *stages;
                    ppl_plan *plan;
                    schedule_pair(s, (uint32_t)(o + p * m + bits));
                    ppl_schedule_set_weights(s, bits / 2);
                    assert_int_equal(ppl_stages_chain(s->stages, &stages), PPL_OK);
                    for (int32_t streams = 1; streams <= 2; streams++) {
                        ppl_plan_options options = {.copy_links = bits & 1, .streams = streams};
                        if (ppl_plan_build(s, stages, &options, &plan) != PPL_OK) {
                            if (bits / 2 == PPL_WEIGHTS_STASH) break; // not every order fits
                            fail_msg("%s p=%d m=%d: %s", order_name[o], p, m, ppl_error());
                        }
                        int32_t n = count_beside(plan);
                        if (streams == 1) assert_int_equal(n, 0);
                        else all[bits / 2] += n;
                        for (uint64_t seed = 1; seed <= 3; seed++) {
                            const char *bad = plan_replay(plan, 3, seed);
                            if (bad) fail_msg("%s p=%d m=%d bits=%d: %s", order_name[o], p, m, bits, bad);
                        }
                        ppl_plan_close(plan);
                    }
                    ppl_stages_free(stages);
                    ppl_schedule_close(s);
                }
    for (int32_t weights = 0; weights < 3; weights++) assert_in_range(all[weights], 100, 100000);
}

// A slot that was given back is taken again, also where more than a word of them was in use.
static void test_slots(void **state) {
    (void)state;
    enum { GROUP = 70, GROUPS = 3 };
    ppl_schedule *s;
    ppl_plan *p;
    assert_int_equal(ppl_schedule_open("groups", 1, 1, (int32_t[]){0}, GROUP * GROUPS, &s), PPL_OK);
    for (int32_t k = 0; k < GROUPS; k++)
        for (int32_t kind = PPL_F; kind <= PPL_B; kind++)
            for (int32_t m = 0; m < GROUP; m++)
                assert_int_equal(ppl_schedule_add(s, 0, kind, 0, k * GROUP + m, 0), PPL_OK);
    assert_int_equal(ppl_plan_abstract(s, &p), PPL_OK);
    assert_int_equal(p->layout[0].slots, GROUP);
    assert_int_equal(p->layout[0].pendings, 1);
    assert_int_equal(ppl_plan_peak_live(p, 0), GROUP);
    bool taken[GROUP] = {false};
    for (int64_t at = 0; at < ppl_plan_length(p, 0); at++) {
        const ppl_task *t = &ppl_plan_tasks(p, 0)[at];
        if (t->kind != PPL_TASK_F && t->kind != PPL_TASK_B) continue;
        assert_int_equal(taken[t->slot], t->kind == PPL_TASK_B);
        taken[t->slot] = t->kind == PPL_TASK_F;
    }
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grid), cmocka_unit_test(test_beside),
                                       cmocka_unit_test(test_slots)};
    return cmocka_run_group_tests_name("plan/build", tests, NULL, NULL);
}
