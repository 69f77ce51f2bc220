// test_flow.c - asynchronous schedules: steps that flow into each other, over a grid of orders, ranks and microbatches; how
// many versions and slots that takes; a plan in full; what is refused.
#include "plan/build.h"
#include "support/plans.h"
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { EVERY = 3 }; // of the numbers of ranks: programs run ten times as long
#else
enum { EVERY = 1 };
#endif

static int32_t min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static ppl_plan *build(const ppl_schedule *s, bool copies, ppl_stages **stages) {
    ppl_plan *p;
    assert_int_equal(ppl_stages_chain(s->stages, stages), PPL_OK);
    ppl_plan_options options = {.copy_links = copies, .receive_early = copies && s->microbatches % 2};
    if (ppl_plan_build(s, *stages, &options, &p) != PPL_OK)
        fail_msg("%s p=%d m=%d: %s", s->name, s->ranks, s->microbatches, ppl_error());
    return p;
}

// Each task once in the turns of a round, a step's own in the order of its list.
static void check_turns(const ppl_plan *p) {
    for (int32_t r = 0; r < p->ranks; r++) {
        int64_t length = ppl_plan_length(p, r), next[2] = {0, ppl_plan_ahead(p, r)};
        for (int64_t k = 0; k < length; k++) {
            int64_t at = ppl_plan_turn(p, r, k), *of = &next[at >= ppl_plan_ahead(p, r)];
            assert_int_equal(at, (*of)++);
        }
        assert_int_equal(next[0], ppl_plan_ahead(p, r));
        assert_int_equal(next[1], length);
        assert_int_equal(ppl_plan_turn(p, r, length), -1);
        assert_int_equal(ppl_plan_turn(p, r, -1), -1);
    }
}

// PipeDream: 1F1B's peak is its warm-up and one; as many versions; nothing but forwards runs ahead.
static void check_1f1b(const ppl_plan *plan, int32_t p, int32_t m) {
    for (int32_t r = 0; r < p; r++) {
        int32_t ahead = 0;
        for (int64_t at = 0; at < ppl_plan_ahead(plan, r); at++)
            ahead += ppl_plan_tasks(plan, r)[at].kind == PPL_TASK_F;
        assert_int_equal(ahead, min(p - r - 1, m - 1));
        assert_int_equal(ppl_plan_peak_live(plan, r), min(m, p - r));
        assert_int_equal(ppl_plan_versions(plan, r), plan->weights == PPL_WEIGHTS_2BW ? 2 : min(m, p - r));
        assert_int_equal(plan->layout[r].slots, min(m, p - r));
        assert_int_equal(plan->layout[r].pendings, 1);
    }
}

static void check_one(order o, int32_t p, int32_t m, int32_t chunks, int32_t weights, bool copies) {
    ppl_schedule *s = schedule_make(o, p, m, chunks);
    ppl_stages *stages;
    ppl_schedule_set_weights(s, weights);
    ppl_plan *plan = build(s, copies, &stages);
    check_turns(plan);
    if (o == ORDER_1F1B) check_1f1b(plan, p, m);
    for (int32_t steps = 1; steps <= 5; steps += 2) {
        const char *bad = plan_replay(plan, steps, (uint64_t)steps);
        // A single step need not reach the peak.
        if (bad && !(steps == 1 && strstr(bad, "the plan says")))
            fail_msg("%s p=%d m=%d weights=%d copies=%d, %d steps: %s", order_name[o], p, m, weights, copies, steps,
                     bad);
    }
    ppl_plan_close(plan);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
}

static void test_grid(void **state) {
    (void)state;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 6; p += EVERY)
            for (int32_t m = 1; m <= 2 * p + 3; m++)
                for (int32_t chunks = 1; chunks <= 2; chunks++) {
                    if (chunks > 1 && o != ORDER_LOOP && o != ORDER_INTERLEAVED) continue;
                    if (o == ORDER_INTERLEAVED && m % p) continue;
                    for (int32_t copies = 0; copies < 2; copies++)
                        for (int32_t w = PPL_WEIGHTS_STASH; w <= PPL_WEIGHTS_2BW; w++)
                            check_one((order)o, p, m, chunks, w, copies);
                }
}

// By hand: uneven warm-ups, pairs that may overlap, forwards out of order, several stages on a rank.
static void test_by_hand(void **state) {
    (void)state;
    static const struct {
        int32_t ranks, stages, place[4], microbatches;
        const char *rows[3];
    } tries[] = {
        {2, 2, {0, 1}, 4, {"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"}},
        {2, 2, {0, 1}, 4, {"0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"}},
        {2, 2, {0, 1}, 4, {"0F0 0F1 (0F2;0B0) (0F3;0B1) 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"}},
        {2, 2, {0, 1}, 3, {"0F2 0F0 0F1 0I0 0I1 0W0 0I2 0W1 0W2", "1F2 1F0 1I0 1F1 1I1 1W0 1W1 1I2 1W2"}},
        {2,
         2,
         {0, 1},
         3, // rank 0 can run none ahead, so rank 1 may not
         {"0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1 0W2", "1F0 1F1 1F2 1B0 1B1 1B2"}},
        {2, 4, {0, 1, 0, 1}, 2, {"0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"}},
        // The next step's forward of stage 0 comes while two of this one's are still read: one more than within a step.
        {1, 2, {0, 0}, 3, {"0F0 1F0 0F1 1F1 1I0 0I0 1W0 0W0 0F2 1F2 1I1 0I1 1I2 0I2 1W1 0W1 1W2 0W2"}},
        {1, 3, {0, 0, 0}, 2, {"0F0 0F1 1F0 1F1 2F0 2F1 2B0 2B1 1B0 1B1 0B0 0B1"}},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        for (int32_t w = PPL_WEIGHTS_STASH; w <= PPL_WEIGHTS_2BW; w++)
            for (int32_t copies = 0; copies < 2; copies++) {
                ppl_schedule *s = schedule_from(tries[i].ranks, tries[i].stages, tries[i].place, tries[i].microbatches,
                                                tries[i].rows);
                ppl_stages *stages;
                ppl_schedule_set_weights(s, w);
                ppl_plan *p = build(s, copies, &stages);
                check_turns(p);
                for (uint64_t seed = 0; seed < 20; seed++) {
                    const char *bad = plan_replay(p, 4, seed);
                    if (bad) fail_msg("case %zu, weights %d, copies %d: %s", i, w, copies, bad);
                }
                ppl_plan_close(p);
                ppl_stages_free(stages);
                ppl_schedule_close(s);
            }
}

// PipeDream on two ranks with three microbatches, as it prints.
static void test_golden(void **state) {
    (void)state;
    static const char want[] = "rank 0 ahead 3\n"
                               "0 credit 0F0 edge 0 buffer 0 ahead\n"
                               "1 0F0 slot 0 version -1 ahead\n"
                               "2 send 0F0 edge 0 buffer 0 ahead\n"
                               "3 credit 0F1 edge 0 buffer 1\n"
                               "4 0F1 slot 1 version 0\n"
                               "5 send 0F1 edge 0 buffer 1\n"
                               "6 receive 0B0 edge 1 buffer 0\n"
                               "7 0B0 slot 0 pending 0 version -1\n"
                               "8 release 0B0 edge 1 buffer 0\n"
                               "9 update 0 version 0\n"
                               "10 credit 0F2 edge 0 buffer 0\n"
                               "11 0F2 slot 0 version 1\n"
                               "12 send 0F2 edge 0 buffer 0\n"
                               "13 receive 0B1 edge 1 buffer 1\n"
                               "14 0B1 slot 1 pending 0 version 0\n"
                               "15 release 0B1 edge 1 buffer 1\n"
                               "16 update 0 version 1\n"
                               "17 receive 0B2 edge 1 buffer 0\n"
                               "18 0B2 slot 0 pending 0 version 1\n"
                               "19 release 0B2 edge 1 buffer 0\n"
                               "20 update 0 version 2\n"
                               "21 norm\n"
                               "turns 3 4 5 6 7 8 9 10 11 12 13 14 15 16 0 1 2 17 18 19 20 21\n"
                               "rank 1 ahead 0\n";
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 3, 1);
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    ppl_plan *p;
    assert_int_equal(ppl_plan_abstract(s, &p), PPL_OK);
    char text[4096], line[128];
    size_t n = 0;
    for (int32_t r = 0; r < 2; r++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "rank %d ahead %d\n", r, (int)ppl_plan_ahead(p, r));
        for (int64_t at = 0; r == 0 && at < ppl_plan_length(p, r); at++) {
            ppl_task_print(p, r, at, line);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", line);
        }
        if (r == 0) n += (size_t)snprintf(text + n, sizeof text - n, "turns");
        for (int64_t k = 0; r == 0 && k < ppl_plan_length(p, r); k++)
            n += (size_t)snprintf(text + n, sizeof text - n, " %d", (int)ppl_plan_turn(p, r, k));
        if (r == 0) n += (size_t)snprintf(text + n, sizeof text - n, "\n");
    }
    assert_string_equal(text, want);
    assert_int_equal(ppl_plan_versions(p, 0), 2);
    assert_int_equal(ppl_plan_versions(p, 1), 1);
    assert_int_equal(ppl_plan_versions(p, 2), 0);
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

static void fails(const char *words, ppl_status st) {
    if (st != PPL_ERR_PLAN || strcmp(ppl_error(), words) != 0)
        fail_msg("status %d, '%s', want '%s'", st, ppl_error(), words);
}

static void test_refused(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_GPIPE, 2, 4, 1);
    ppl_stages *stages;
    ppl_plan *p;
    assert_int_equal(ppl_stages_chain(2, &stages), PPL_OK);
    ppl_plan_options options = {.validate = true};
    ppl_schedule_set_weights(s, PPL_WEIGHTS_2BW);
    fails("schedule gpipe: clip is after, want stage or none with weights \"2bw\"",
          ppl_plan_build(s, stages, &options, &p));
    ppl_schedule_set_max_live(s, 3);
    fails("rank 0, position 3, 0F3: 4 live activations on the rank, want at most 3", ppl_plan_abstract(s, &p));
    ppl_schedule_close(s);
    // The last I frees nothing, so that the next step's forward is one too many.
    s = schedule_from(1, 1, NULL, 3, (const char *[]){"0F0 0F1 0I0 0W0 0F2 0I1 0I2 0W1 0W2"});
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    ppl_schedule_set_max_live(s, 2);
    fails("rank 0, position 0, 0F0: 3 live activations on the rank while the step before it drains, want at most 2",
          ppl_plan_abstract(s, &p));
    ppl_schedule_close(s);
    ppl_stages_free(stages);
}

// A plan that keeps too few versions, or whose tasks name others than there are, is no plan.
static void test_proof(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_1F1B, 3, 4, 1);
    ppl_stages *stages;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        ppl_schedule_set_weights(s, weights);
        ppl_plan *p = build(s, false, &stages);
        for (int32_t k = 0; k < 3; k++) {
            if (p->layout[k].versions == 1) continue; // the last stage of PipeDream
            p->layout[k].versions--;
            assert_int_equal(ppl_plan_prove(p, NULL), PPL_ERR_PLAN);
            assert_non_null(strstr(ppl_error(), "is the newest"));
            p->layout[k].versions++;
            assert_int_equal(ppl_plan_prove(p, NULL), PPL_OK);
        }
        for (int32_t r = 0; r < 3; r++)
            for (int64_t at = 0; at < ppl_plan_length(p, r); at++) {
                ppl_task *t = &p->rank[r].tasks[at];
                if (t->kind != PPL_TASK_UPDATE && (t->kind < PPL_TASK_F || t->kind > PPL_TASK_W)) continue;
                int32_t by[] = {5, -9};
                for (int32_t i = 0; i < 2; i++) { // not made yet; long gone
                    t->version += by[i];
                    assert_int_equal(ppl_plan_prove(p, NULL), PPL_ERR_PLAN);
                    t->version -= by[i];
                }
            }
        assert_int_equal(ppl_plan_prove(p, NULL), PPL_OK);
        if (weights == PPL_WEIGHTS_STASH) {
            p->layout[0].versions = 2;
            fails(
                "rank 0, position 6, 0B2: reads version 0 of stage 0's weights where version 2 is the newest of 2 that "
                "are kept, want one of them",
                ppl_plan_prove(p, NULL));
        }
        ppl_plan_close(p);
        ppl_stages_free(stages);
    }
    ppl_schedule_close(s);
}

// Evaluation has no steps that overlap.
static void test_forward(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_1F1B, 3, 4, 1);
    ppl_stages *stages;
    ppl_plan *p;
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    assert_int_equal(ppl_stages_chain(3, &stages), PPL_OK);
    assert_int_equal(ppl_plan_build(s, stages, &(ppl_plan_options){.forward_only = true}, &p), PPL_OK);
    for (int32_t r = 0; r < 3; r++) {
        assert_int_equal(ppl_plan_ahead(p, r), 0);
        assert_int_equal(ppl_plan_versions(p, r), 1);
    }
    assert_null(plan_replay(p, 3, 1));
    ppl_plan_close(p);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),    cmocka_unit_test(test_by_hand), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_forward), cmocka_unit_test(test_proof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
