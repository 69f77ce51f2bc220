// test_check.c - schedules that are whole pass; each kind of broken one is refused with its rank, position and action.
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void test_orders_pass(void **state) {
    (void)state;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 8; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++) {
                if (o == ORDER_INTERLEAVED && m % p) continue;
                ppl_schedule *s = schedule_make((order)o, p, m, 2);
                if (ppl_schedule_check(s) != PPL_OK) fail_msg("%s p=%d m=%d: %s", order_name[o], p, m, ppl_error());
                ppl_schedule *c;
                assert_int_equal(ppl_schedule_copy(s, &c), PPL_OK);
                assert_true(schedule_equal(s, c));
                ppl_schedule_close(c);
                ppl_schedule_close(s);
            }
}

typedef struct broken {
    const char *row0, *row1; // two ranks, stages 0 and 1, two microbatches
    const char *error;
    int32_t rank;
    int64_t at;
} broken;

static const char ok0[] = "0F0 0F1 0B0 0B1", ok1[] = "1F0 1B0 1F1 1B1";

static const broken cases[] = {
    {ok0, "1F0 1F0 1B0 1B1", "rank 1, position 1, 1F0: stands twice, first at position 0, want it once", 1, 1},
    {"0F0 0F1 0B0 0B1 0B0", ok1, "rank 0, position 4, 0B0: stands twice, first at position 2, want it once", 0, 4},
    {ok0, "1F0 1B0 1F1", "rank 1, position 2, 1F1: its backward 1B1 is missing, want it (or 1I1 and 1W1) behind", 1, 2},
    {"0F0 0B0", ok1, "rank 0: 0F1 is missing, want all of 0 to 1", 0, -1},
    {ok0, "1F0 1B0 1B1 1F1", "rank 1, position 2, 1B1: stands before its forward 1F1 at position 3, want it behind", 1,
     2},
    {ok0, "1I0 1F0 1W0 1F1 1B1", "rank 1, position 0, 1I0: stands before its forward 1F0 at position 1, want it behind",
     1, 0},
    {ok0, "1F0 1B0 1B1", "rank 1, position 2, 1B1: its forward 1F1 is missing", 1, 2},
    {ok0, "1F0 1W0 1I0 1F1 1B1",
     "rank 1, position 1, 1W0: stands before its input gradient 1I0 at position 2, want it behind", 1, 1},
    {ok0, "1F0 1F1 1I0 1B1 1W0",
     "rank 1, position 3, 1B1: stands before 1W0 at position 4, want a stage's weight gradients in microbatch order", 1,
     3},
    {ok0, "1F0 1F1 1W0 1B1", "rank 1, position 2, 1W0: its input gradient 1I0 is missing", 1, 2},
    {ok0, "1F0 1I0 1F1 1B1", "rank 1, position 1, 1I0: 1W0 is missing, want it behind", 1, 1},
    {ok0, "1F0 1B0 1I0 1F1 1B1",
     "rank 1, position 2, 1I0: the full backward 1B0 stands at position 1, want either B or I "
     "and W",
     1, 2},
    {ok0, "1F0 1B0 1W0 1F1 1B1",
     "rank 1, position 2, 1W0: the full backward 1B0 stands at position 1, want either B or I "
     "and W",
     1, 2},
    {"0F0 0F1 0B1 0B0", ok1,
     "rank 0, position 2, 0B1: stands before 0B0 at position 3, want a stage's weight gradients "
     "in microbatch order",
     0, 2},
    {"0F0 0F1 0I0 0I1 0W1 0W0", ok1,
     "rank 0, position 4, 0W1: stands before 0W0 at position 5, want a stage's weight "
     "gradients in microbatch order",
     0, 4},
    {"0F0 1F0 0F1 0B0 0B1", ok1, "rank 0, position 1, 1F0: stage 1 is owned by rank 1, want it there", 0, 1},
    {ok0, "", "rank 1: has no actions, want those of its stages", 1, -1},
    {"0F0 0F1 0B0 0U0 0B1", ok1,
     "rank 0, position 3, 0U0: stands before 0B1 at position 4, want a stage's update behind "
     "all its actions",
     0, 3},
    {"0F0 0F1 0B0 0B1 0U0 0U1", ok1, "rank 0, position 5, 0U1: stage 0 was updated already", 0, 5},
    {"0F0 (0F1;0B0;0B1)", ok1,
     "rank 0, position 1, 0F1: overlaps with 2 others, want a forward and a backward side by side", 0, 1},
    {"(0F0;0F1) 0B0 0B1", ok1, "rank 0, position 0, 0F0: overlaps with 0F1, want a forward and a backward side by side",
     0, 0},
    {"0F0 0F1 0B0 (0B1)", ok1,
     "rank 0, position 3, 0B1: overlaps with 0 others, want a forward and a backward side by side", 0, 3},
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *rows[] = {cases[i].row0, cases[i].row1};
        ppl_schedule *s = schedule_from(2, 2, NULL, 2, rows);
        assert_int_equal(ppl_schedule_check(s), PPL_ERR_SCHEDULE);
        assert_string_equal(ppl_error(), cases[i].error);
        int32_t rank;
        int64_t at;
        ppl_schedule_mark(&rank, &at);
        assert_int_equal(rank, cases[i].rank);
        assert_int_equal(at, cases[i].at);
        ppl_schedule_close(s);
    }
}

static void test_legal_variants(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {ok0, ok1},
        {"0F1 0F0 0I1 0I0 0W0 0W1", "1F1 1I1 1F0 1I0 1W0 1W1"}, // only W's order is fixed
        {"0F0 0F1 0B0 0B1 0U1", "1F0 1B0 (1F1;1I1) 1W1"},
        {"0F0 (0F1;0B0) 0B1", "1F0 (1B0;1F1) 1B1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ppl_schedule *s = schedule_from(2, 2, NULL, 2, rows[i]);
        if (ppl_schedule_check(s) != PPL_OK) fail_msg("case %zu: %s", i, ppl_error());
        ppl_schedule_close(s);
    }
}

static void test_stash_updates(void **state) {
    (void)state;
    static const char *const good[] = {"0F0 0B0 0U0 0F1 0B1 0U1"};
    static const char *const early[] = {"0F0 0U0 0B0 0F1 0B1 0U1"};
    static const char *const twice[] = {"0F0 0F1 0B0 0B1 0U1 0U0"};
    static const struct {
        const char *const *rows;
        const char *error;
    } tries[] = {
        {good, NULL},
        {early, "rank 0, position 1, 0U0: stands before the weight gradient of microbatch 0"},
        {twice, "rank 0, position 5, 0U0: stage 0 was updated already"},
    };
    for (size_t i = 0; i < 3; i++) {
        ppl_schedule *s = schedule_from(1, 1, NULL, 2, tries[i].rows);
        ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
        assert_int_equal(ppl_schedule_check(s), tries[i].error ? PPL_ERR_SCHEDULE : PPL_OK);
        if (tries[i].error) assert_string_equal(ppl_error(), tries[i].error);
        ppl_schedule_close(s);
    }
}

static void want_error(ppl_status got, ppl_status status, const char *text) {
    assert_int_equal(got, status);
    assert_string_equal(ppl_error(), text);
}

static void test_domain(void **state) {
    (void)state;
    ppl_schedule *s;
    int32_t place[2] = {0, 1};
    want_error(ppl_schedule_open("x", 0, 2, place, 2, &s), PPL_ERR_ARG, "schedule x: 0 ranks, want 1 to 65536");
    assert_null(s);
    want_error(ppl_schedule_open("x", 2, 0, place, 2, &s), PPL_ERR_ARG, "schedule x: 0 stages, want 1 to 1048576");
    want_error(ppl_schedule_open("x", 2, 2, place, 0, &s), PPL_ERR_ARG,
               "schedule x: 0 microbatches, want 1 to 1048576");
    want_error(ppl_schedule_open("x", 1, 2, place, 2, &s), PPL_ERR_ARG,
               "schedule x: stage 1 is placed on rank 1, want 0 to 0");
    assert_int_equal(ppl_schedule_open("x", 2, 2, place, 2, &s), PPL_OK);
    want_error(ppl_schedule_add(s, 2, PPL_F, 0, 0, 0), PPL_ERR_ARG, "schedule x: an action for rank 2, want 0 to 1");
    want_error(ppl_schedule_add(s, 0, PPL_KINDS, 0, 0, 0), PPL_ERR_ARG, "rank 0, position 0, 0?0: kind 5, want 0 to 4");
    want_error(ppl_schedule_add(s, 0, PPL_F, 2, 0, 0), PPL_ERR_ARG, "rank 0, position 0, 2F0: stage 2, want 0 to 1");
    want_error(ppl_schedule_add(s, 0, PPL_F, 0, -1, 0), PPL_ERR_ARG,
               "rank 0, position 0, 0F-1: microbatch -1, want 0 to 1");
    want_error(ppl_schedule_add(s, 0, PPL_F, 0, 2, 0), PPL_ERR_ARG,
               "rank 0, position 0, 0F2: microbatch 2, want 0 to 1");
    assert_int_equal(ppl_schedule_length(s, 0), 0);
    ppl_action a;
    want_error(ppl_schedule_action(s, 0, 0, &a), PPL_ERR_ARG, "schedule x: rank 0, position 0, want 0 to -1");
    assert_int_equal(ppl_schedule_stage_rank(s, 1), 1);
    assert_int_equal(ppl_schedule_stage_rank(s, 2), -1);
    ppl_schedule_close(s);
    place[1] = 0;
    assert_int_equal(ppl_schedule_open("x", 2, 2, place, 2, &s), PPL_OK);
    want_error(ppl_schedule_check(s), PPL_ERR_SCHEDULE, "rank 1: owns none of 2 stages, want at least one a rank");
    ppl_schedule_close(s);
    ppl_schedule_close(NULL);
}

// Few actions for a vast grid: named without a table of the grid's size.
static void test_sparse(void **state) {
    (void)state;
    ppl_schedule *s;
    int32_t place[3] = {0, 1, 0};
    assert_int_equal(ppl_schedule_open("x", 2, 3, place, PPL_MAX_MICROBATCHES, &s), PPL_OK);
    assert_int_equal(ppl_schedule_add(s, 0, PPL_F, 0, 0, 0), PPL_OK);
    assert_int_equal(ppl_schedule_add(s, 1, PPL_F, 1, 0, 0), PPL_OK);
    want_error(ppl_schedule_check(s), PPL_ERR_SCHEDULE, "rank 0: 2F0 is missing, want all of 0 to 1048575");
    ppl_schedule_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_pass),   cmocka_unit_test(test_broken), cmocka_unit_test(test_legal_variants),
        cmocka_unit_test(test_stash_updates), cmocka_unit_test(test_domain), cmocka_unit_test(test_sparse),
    };
    return cmocka_run_group_tests_name("schedule/check", tests, NULL, NULL);
}
