// test_prove.c - compute orders that cannot run are refused with the chain of who waits for whom; those that can are given
// the buffers they take; the part of each list that needs no backward is found.
#include "graph/tiny.h"
#include "plan/build.h"
#include "plan/forward.h"
#include "support/plans.h"
#include "support/plans.h"
#include "support/schedules.h"

static ppl_status build(const ppl_schedule *s, const ppl_plan_options *options, ppl_stages **stages, ppl_plan **p) {
    OK(ppl_stages_chain(s->stages, stages));
    return ppl_plan_build(s, *stages, options, p);
}

typedef struct circle {
    int32_t ranks, stages, microbatches;
    int32_t place[6];
    const char *rows[4];
    const char *error;
    int32_t rank;
    int64_t at;
} circle;

#define WANT ", want an order in which one of them can go on"
static const circle circles[] = {
    {2,
     2,
     2,
     {0, 1},
     {"0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1"},
     "rank 0, position 1, 0B0: waits for 1B0 (rank 1, position 2), which stands behind 1F1 (position 0), which waits "
     "for "
     "0F1 (rank 0, position 2), which stands behind 0B0 (position 1): a circle of 2 ranks" WANT,
     0,
     1},
    // stages 0 and 3 on rank 0, in a V: rank 1 wants to go back before rank 0 has turned round
    {2,
     4,
     1,
     {0, 1, 1, 0},
     {"0F0 0I0 3F0 3I0 3W0 0W0", "1F0 2F0 2B0 1B0"},
     "rank 0, position 1, 0I0: waits for 1B0 (rank 1, position 3), which stands behind 2B0 (position 2), which waits "
     "for "
     "3I0 (rank 0, position 3), which stands behind 0I0 (position 1): a circle of 2 ranks" WANT,
     0,
     1},
    // three ranks, none in a circle of two
    {3,
     3,
     2,
     {0, 1, 2},
     {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"},
     "rank 1, position 1, 1B0: waits for 2B0 (rank 2, position 2), which stands behind 2F1 (position 1), which waits "
     "for "
     "1F1 (rank 1, position 2), which stands behind 1B0 (position 1): a circle of 2 ranks" WANT,
     1,
     1},
    {3,
     6,
     1,
     {0, 1, 2, 2, 0, 1},
     {"4F0 0F0 4B0 0B0", "1F0 5F0 5B0 1B0", "2F0 3F0 3B0 2B0"},
     "rank 0, position 0, 4F0: waits for 3F0 (rank 2, position 1), which stands behind 2F0 (position 0), which waits "
     "for "
     "1F0 (rank 1, position 0), which waits for 0F0 (rank 0, position 1), which stands behind 4F0 (position 0): a "
     "circle "
     "of 3 ranks" WANT,
     0,
     0},
};

static void test_circles(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof circles / sizeof *circles; i++)
        for (int32_t copies = 0; copies < 2; copies++) {
            const circle *c = &circles[i];
            ppl_schedule *s = schedule_from(c->ranks, c->stages, c->place, c->microbatches, c->rows);
            ppl_stages *stages;
            ppl_plan *p = (ppl_plan *)&p;
            OK(ppl_schedule_check(s));
            FAILS(PPL_ERR_PLAN, c->error, build(s, &(ppl_plan_options){.copy_links = copies}, &stages, &p));
            assert_null(p);
            int32_t rank;
            int64_t at;
            ppl_schedule_mark(&rank, &at);
            assert_int_equal(rank, c->rank);
            assert_int_equal(at, c->at);
            ppl_stages_free(stages);
            ppl_schedule_close(s);
        }
}

// A circle over many ranks is not printed in full.
static void test_long_circle(void **state) {
    (void)state;
    enum { P = 12 };
    // Stages go round twice; every rank wants its second chunk first.
    const char *rows[P];
    static char text[P][64];
    int32_t place[2 * P];
    for (int32_t r = 0; r < P; r++) {
        place[r] = place[P + r] = r;
        snprintf(text[r], sizeof text[r], "%dF0 %dF0 %dB0 %dB0", r ? r : P, r ? P + r : 0, r ? P + r : P, r ? r : 0);
        rows[r] = text[r];
    }
    ppl_schedule *s = schedule_from(P, 2 * P, place, 1, rows);
    ppl_plan *p;
    assert_int_equal(ppl_plan_abstract(s, &p), PPL_ERR_PLAN);
    assert_non_null(
        strstr(ppl_error(), "rank 0, position 0, 12F0: waits for 11F0 (rank 11, position 0), which waits for"));
    assert_non_null(strstr(ppl_error(), ", and so on over 4 more: a circle of 12 ranks, want"));
    ppl_schedule_close(s);
}

static void test_own_order(void **state) {
    (void)state;
    static const struct {
        const char *rows[1];
        const char *error;
    } tries[] = {
        {{"1F0 0F0 1B0 0B0"},
         "rank 0, position 0, 1F0: stands before 0F0 at position 1, which makes what it reads, want it behind"},
        {{"0F0 1F0 0B0 1B0"},
         "rank 0, position 2, 0B0: stands before 1B0 at position 3, which makes what it reads, want it behind"},
        {{"0F0 1F0 0I0 1B0 0W0"},
         "rank 0, position 2, 0I0: stands before 1B0 at position 3, which makes what it reads, want it behind"},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        ppl_schedule *s = schedule_from(1, 2, (int32_t[]){0, 0}, 1, tries[i].rows);
        ppl_plan *p;
        FAILS(PPL_ERR_PLAN, tries[i].error, ppl_plan_abstract(s, &p));
        ppl_schedule_close(s);
    }
}

static void test_bounds(void **state) {
    (void)state;
    ppl_plan *p;
    ppl_schedule *s = schedule_make(ORDER_GPIPE, 2, 4, 1);
    ppl_schedule_set_max_live(s, 4);
    OK(ppl_plan_abstract(s, &p));
    ppl_plan_close(p);
    ppl_schedule_set_max_live(s, 3);
    FAILS(PPL_ERR_PLAN, "rank 0, position 3, 0F3: 4 live activations on the rank, want at most 3",
          ppl_plan_abstract(s, &p));
    int32_t rank;
    int64_t at;
    ppl_schedule_mark(&rank, &at);
    assert_int_equal(rank, 0);
    assert_int_equal(at, 3);
    ppl_schedule_set_max_live(s, 0);
    ppl_stages *stages;
    OK(ppl_stages_chain(3, &stages));
    ppl_plan_options options = {0};
    FAILS(PPL_ERR_PLAN, "schedule gpipe: 2 stages, want the 3 that the model is cut into",
          ppl_plan_build(s, stages, &options, &p));
    ppl_schedule_mark(&rank, &at);
    assert_int_equal(rank, -1); // not what an earlier failure named
    assert_int_equal(at, -1);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
    s = schedule_make(ORDER_GPIPE, 1, 32768, 1);
    FAILS(PPL_ERR_PLAN, "rank 0, position 32767, 0F32767: stage 0 takes more than 32767 slots",
          ppl_plan_abstract(s, &p));
    ppl_schedule_close(s);
    s = schedule_make(ORDER_1F1B, 2, 40000, 1); // many microbatches are fine
    OK(ppl_plan_abstract(s, &p));
    ppl_plan_close(p);
    ppl_schedule_close(s);
}

// Rank 1 takes the microbatches in reverse: with links that copy it needs all of them there before the last is taken.
static const char starved[] = "rank 0, position 2, 0F2: waits for 1B0 (rank 1, position 4), which stands behind 1F3 "
                              "(position 0), which waits for 0F3 "
                              "(rank 0, position 3), which stands behind 0F2 (position 2): a circle of 2 ranks" WANT;
static const char starved_copies[] =
    "rank 0, position 2, 0F2: waits for 1F0 (rank 1, position 3), which stands behind 1F3 (position 0), which waits "
    "for 0F3 "
    "(rank 0, position 3), which stands behind 0F2 (position 2): a circle of 2 ranks" WANT;

static void test_reverse(void **state) {
    (void)state;
    static const char *const rows[] = {"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3", "1F3 1F2 1F1 1F0 1B0 1B1 1B2 1B3"};
    ppl_schedule *s = schedule_from(2, 2, NULL, 4, rows);
    for (int32_t copies = 0; copies < 2; copies++) {
        ppl_stages *stages;
        ppl_plan *p;
        OK(build(s, &(ppl_plan_options){.copy_links = copies}, &stages, &p));
        assert_int_equal(p->edge[0].buffers, 4);
        assert_int_equal(p->edge[1].buffers, 2);
        assert_int_equal(p->edge[0].reader_buffers[0], copies ? 4 : 0);
        for (uint64_t seed = 0; seed < 8; seed++) assert_null(plan_replay(p, 3, seed));
        OK(ppl_plan_prove(p, NULL));
        p->edge[0].buffers = 2; // with fewer than it was given, the third F waits for ever
        assert_int_equal(ppl_plan_prove(p, NULL), PPL_ERR_PLAN);
        assert_string_equal(ppl_error(), copies ? starved_copies : starved);
        p->edge[0].buffers = 4;
        ppl_plan_close(p);
        ppl_stages_free(stages);
    }
    ppl_schedule_close(s);
}

static void assert_list(const ppl_plan *p, int32_t rank, const char *want) {
    char all[4096] = "", line[128];
    for (int64_t at = 0; at < ppl_plan_length(p, rank); at++) {
        ppl_task_print(p, rank, at, line);
        strcat(strcat(all, line), "\n");
    }
    assert_string_equal(all, want);
}

static void test_lists(void **state) {
    (void)state;
    static const char *const rows[] = {"0F0 0F1 0B0 0B1", "1F0 (1F1;1I0) 1W0 1B1"};
    ppl_schedule *s = schedule_from(2, 2, NULL, 2, rows);
    ppl_plan *p;
    ppl_stages *stages;
    OK(ppl_plan_abstract(s, &p));
    assert_list(p, 0,
                "0 credit 0F0 edge 0 buffer 0\n1 0F0 slot 0\n2 send 0F0 edge 0 buffer 0\n"
                "3 credit 0F1 edge 0 buffer 1\n4 0F1 slot 1\n5 send 0F1 edge 0 buffer 1\n"
                "6 receive 0B0 edge 1 buffer 0\n7 0B0 slot 0 pending 0\n8 release 0B0 edge 1 buffer 0\n"
                "9 receive 0B1 edge 1 buffer 1\n10 0B1 slot 1 pending 0\n11 release 0B1 edge 1 buffer 1\n"
                "12 norm\n13 update 0\n");
    assert_list(p, 1,
                "0 receive 1F0 edge 0 buffer 0\n1 1F0 slot 0\n"
                "2 receive 1F1 edge 0 buffer 1\n3 1F1 slot 1\n"
                "4 credit 1B0 edge 1 buffer 0\n5 1I0 slot 0 pending 0 beside\n6 send 1B0 edge 1 buffer 0\n"
                "7 1W0 slot 0 pending 0\n8 release 1F0 edge 0 buffer 0\n"
                "9 credit 1B1 edge 1 buffer 1\n10 1B1 slot 1 pending 0\n11 send 1B1 edge 1 buffer 1\n"
                "12 release 1F1 edge 0 buffer 1\n13 norm\n14 update 1\n");
    char line[128];
    ppl_task_print(p, 0, 14, line);
    assert_string_equal(line, "no task 14 on rank 0");
    ppl_task_print(p, 7, 0, line);
    assert_string_equal(line, "no task 0 on rank 7");
    assert_int_equal(ppl_plan_ranks(p), 2);
    assert_int_equal(ppl_plan_edges(p), 2);
    assert_int_equal(ppl_plan_memory(p, 0, PPL_MEM_ACTIVATIONS), 2);
    ppl_plan_close(p);
    OK(build(s, &(ppl_plan_options){.copy_links = true, .validate = true}, &stages, &p));
    assert_list(p, 1,
                "0 receive 1F0 edge 0 buffer 0\n1 1F0 slot 0\n2 receive 1F1 edge 0 buffer 1\n3 1F1 slot 1\n"
                "4 validate\n5 credit 1B0 edge 1 buffer 0\n6 1I0 slot 0 pending 0 beside\n"
                "7 send 1B0 edge 1 buffer 0\n8 1W0 slot 0 pending 0\n9 credit 1B1 edge 1 buffer 1\n"
                "10 1B1 slot 1 pending 0\n11 send 1B1 edge 1 buffer 1\n12 norm\n13 update 1\n");
    ppl_plan_close(p);
    ppl_stages_free(stages);
    OK(build(s, &(ppl_plan_options){.forward_only = true}, &stages, &p));
    assert_list(p, 1,
                "0 receive 1F0 edge 0 buffer 0\n1 1F0 slot 0\n2 release 1F0 edge 0 buffer 0\n"
                "3 receive 1F1 edge 0 buffer 1\n4 1F1 slot 0\n5 release 1F1 edge 0 buffer 1\n");
    ppl_plan_close(p);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
}

static void test_forward(void **state) {
    (void)state;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 5; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++)
                for (int32_t copies = 0; copies < 2; copies++) {
                    if (o == ORDER_INTERLEAVED && m % p) continue;
                    ppl_schedule *s = schedule_make((order)o, p, m, 2);
                    ppl_stages *stages;
                    ppl_plan *plain, *validated;
                    ppl_plan_options options = {.copy_links = copies};
                    OK(build(s, &options, &stages, &plain));
                    check_forward(plain, s);
                    if (o == ORDER_1F1B) assert_true(plain->rank[0].forward_tasks > 0);
                    options.validate = true;
                    OK(ppl_plan_build(s, stages, &options, &validated));
                    for (int32_t r = 0; r < p; r++) {
                        int64_t at = plain->rank[r].forward_tasks, count = plain->rank[r].count;
                        assert_int_equal(validated->rank[r].forward_tasks, at);
                        assert_int_equal(validated->rank[r].count, count + 1);
                        assert_int_equal(validated->rank[r].tasks[at].kind, PPL_TASK_VALIDATE);
                        assert_memory_equal(validated->rank[r].tasks, plain->rank[r].tasks,
                                            (size_t)at * sizeof(ppl_task));
                        assert_memory_equal(validated->rank[r].tasks + at + 1, plain->rank[r].tasks + at,
                                            (size_t)(count - at) * sizeof(ppl_task));
                    }
                    ppl_plan_close(plain);
                    ppl_plan_close(validated);
                    ppl_stages_free(stages);
                    ppl_schedule_close(s);
                }
}

static int64_t all_buffers(const ppl_plan *p) {
    int64_t n = 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++) n += p->edge[i].buffers;
    return n;
}

// As few buffers as the order needs: never more in all than otherwise, and all chained steps still run, in whatever order ranks do.
static void test_least_buffers(void **state) {
    (void)state;
    int64_t usual = 0, least = 0;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 5; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++)
                for (int32_t copies = 0; copies < 2; copies++) {
                    if (o == ORDER_INTERLEAVED && m % p) continue;
                    ppl_schedule *s = schedule_make((order)o, p, m, 2);
                    ppl_stages *stages;
                    ppl_plan *plain, *few;
                    OK(build(s, &(ppl_plan_options){.copy_links = copies}, &stages, &plain));
                    OK(ppl_plan_build(s, stages, &(ppl_plan_options){.copy_links = copies, .least_buffers = true},
                                      &few));
                    if (all_buffers(few) > all_buffers(plain))
                        fail_msg("%s p=%d m=%d copies=%d: %lld buffers, %lld usually", order_name[o], p, m, copies,
                                 (long long)all_buffers(few), (long long)all_buffers(plain));
                    if (o == ORDER_NAIVE) assert_int_equal(all_buffers(few), stages->n_edges);
                    usual += all_buffers(plain);
                    least += all_buffers(few);
                    const char *bad = plan_replay(few, 3, (uint64_t)(p * 100 + m));
                    if (bad) fail_msg("%s p=%d m=%d copies=%d: %s", order_name[o], p, m, copies, bad);
                    ppl_plan_close(plain);
                    ppl_plan_close(few);
                    ppl_stages_free(stages);
                    ppl_schedule_close(s);
                }
    assert_true(least < usual);
    print_message("%lld buffers, %lld usually\n", (long long)least, (long long)usual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_circles), cmocka_unit_test(test_long_circle),   cmocka_unit_test(test_own_order),
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_reverse),       cmocka_unit_test(test_lists),
        cmocka_unit_test(test_forward), cmocka_unit_test(test_least_buffers),
    };
    return cmocka_run_group_tests_name("plan/prove", tests, NULL, NULL);
}
