// test_world.c - processes (played by threads) that vote, share, move and post; one that differs, one that fails.
#include "support/wire.h"
#include "plan/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// What a process found wrong; checked on the test's own thread.
static char wrong[16][512];
#define WANT(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition) && !wrong[process][0])                                                                        \
            snprintf(wrong[process], sizeof *wrong, "line %d: %s; error text: %.300s", __LINE__, #condition,           \
                     ppl_error());                                                                                     \
    } while (0)

static void play(int32_t processes, test_process main_of) {
    memset(wrong, 0, sizeof wrong);
    test_net_run(processes, main_of, NULL);
    for (int32_t p = 0; p < processes; p++)
        if (wrong[p][0]) fail_msg("process %d of %d, %s", p, processes, wrong[p]);
}

static void ranks_spread(void **state) {
    (void)state;
    for (int32_t processes = 1; processes < 9; processes++)
        for (int32_t ranks = processes; ranks < 40; ranks++) {
            ppl_plan plan = {.ranks = ranks, .options.processes = processes};
            for (int32_t r = 0; r < ranks; r++) {
                int32_t p = ppl_plan_process(&plan, r);
                assert_true(r >= (int64_t)p * ranks / processes && r < (int64_t)(p + 1) * ranks / processes);
            }
        }
    ppl_world three = {.processes = 3};
    assert_int_equal(ppl_world_check_ranks(&three, 3), PPL_OK);
    assert_int_equal(ppl_world_check_ranks(&three, 1), PPL_ERR_ARG);
    assert_non_null(strstr(ppl_error(), "3 processes and 1 rank:"));
    assert_int_equal(ppl_world_check_ranks(NULL, 1), PPL_OK);
}

static void votes_main(void *self, int32_t process) {
    (void)self;
    ppl_world *w = ppl_world_current();
    for (int32_t i = 0; i < 50; i++) {
        ppl_vote v = {
            .what = "steps", .any = process == i % w->processes, .first = 10 + process, .least = 20 - process};
        WANT(ppl_world_vote(w, &v) == PPL_OK);
        WANT(v.any == 1 && v.first == 10 && v.least == 21 - w->processes);
    }
}

static void votes(void **state) {
    (void)state;
    for (int32_t processes = 3; processes < 6; processes++) play(processes, votes_main);
}

static void failure_main(void *self, int32_t process) {
    (void)self;
    ppl_world *w = ppl_world_current();
    ppl_status st = process == 2 ? ppl_fail(PPL_ERR_IO, "a.txt: cannot be read") : PPL_OK;
    WANT(ppl_world_settle(w, "load", st) == PPL_ERR_IO);
    WANT(strcmp(ppl_error(), "process 2: a.txt: cannot be read") == 0);
    ppl_vote key = {.what = "open", .key = process == 1 ? 7 : 6, .key_words = "the plan"};
    WANT(ppl_world_vote(w, &key) == PPL_ERR_ARG);
    WANT(strstr(ppl_error(), "process 1 differs from process 0 in the plan") != NULL);
    ppl_vote what = {.what = process == 1 ? "save" : "steps"};
    WANT(ppl_world_vote(w, &what) == PPL_ERR_ARG);
    WANT(strstr(ppl_error(), "process 1 comes to \"save\" while process 0 comes to \"steps\"") != NULL);
    WANT(ppl_world_settle(w, "end of it", PPL_OK) == PPL_OK); // they are together still
}

static void failures(void **state) {
    (void)state;
    play(3, failure_main);
}

// One leaves with a failure while the others want to go on: they learn why.
static void leaves_main(void *self, int32_t process) {
    (void)self;
    if (process == 1) {
        test_net_fail(PPL_ERR_ARG, "train.lua:3: no such file");
        return;
    }
    WANT(ppl_world_settle(ppl_world_current(), "steps", PPL_OK) == PPL_ERR_ARG);
    WANT(strcmp(ppl_error(), "process 1: train.lua:3: no such file") == 0);
}

static void leaves(void **state) {
    (void)state;
    play(3, leaves_main);
    for (int32_t p = 0; p < 3; p++) assert_int_equal(test_net_ends[p], PPL_ERR_ARG);
    play(2, votes_main);
    for (int32_t p = 0; p < 2; p++) assert_int_equal(test_net_ends[p], PPL_OK);
}

static void shares_main(void *self, int32_t process) {
    (void)self;
    ppl_world *w = ppl_world_current();
    for (int32_t root = 0; root < w->processes; root++) {
        int32_t numbers[100];
        for (int32_t i = 0; i < 100; i++) numbers[i] = 1000 * process + i;
        WANT(ppl_world_share(w, root, numbers, sizeof numbers) == PPL_OK);
        WANT(numbers[0] == 1000 * root && numbers[99] == 1000 * root + 99);
        int32_t to = (root + 1) % w->processes, one = process;
        WANT(ppl_world_move(w, root, to, &one, sizeof one) == PPL_OK);
        WANT(one == (process == to ? root : process));
    }
}

static void shares(void **state) {
    (void)state;
    for (int32_t processes = 2; processes < 5; processes++) play(processes, shares_main);
}

typedef struct heard {
    atomic_int words, wrong;
} heard;

static void hear(void *self, int32_t from, const ppl_words *words, const void *data, size_t bytes) {
    heard *h = self;
    if (words->a != from || bytes != (size_t)words->b || (bytes && ((const char *)data)[bytes - 1] != (char)from))
        h->wrong++;
    h->words++;
}

// Words of a round that has not begun here wait, those of one that is over are dropped.
static void words_main(void *self, int32_t process) {
    (void)self;
    ppl_world *w = ppl_world_current();
    enum { ROUNDS = 40, EACH = 7 };
    heard h;
    for (int32_t round = 0; round < ROUNDS; round++) {
        WANT(ppl_world_settle(w, "round", PPL_OK) == PPL_OK);
        h = (heard){0};
        ppl_world_round(w, hear, &h);
        for (int32_t i = 0; i < EACH; i++) {
            char text[64];
            memset(text, process, sizeof text);
            ppl_words words = {.a = process, .b = i * 9};
            WANT(ppl_world_tell(w, &words, text, (size_t)(i * 9)) == PPL_OK);
        }
        bool all = round % 2;
        while (all && h.words < EACH * (w->processes - 1)) WANT(ppl_world_poll(w) == PPL_OK);
        WANT(!h.wrong && h.words <= EACH * (w->processes - 1));
    }
    ppl_world_round(w, NULL, NULL);
}

static void rounds(void **state) {
    (void)state;
    for (int32_t processes = 2; processes < 5; processes++) play(processes, words_main);
}

static void tags(void **state) {
    (void)state;
    ppl_wire_ops ops = {.name = "test", .most_tag = 100};
    ppl_world w = {.wire = {.ops = &ops}, .next_tag = PPL_WORLD_TAGS};
    int64_t first = -1;
    assert_int_equal(ppl_world_tags(&w, 60, &first), PPL_OK);
    assert_int_equal(first, PPL_WORLD_TAGS);
    assert_int_equal(ppl_world_tags(&w, 20, &first), PPL_OK);
    assert_int_equal(first, PPL_WORLD_TAGS + 60);
    assert_int_equal(ppl_world_tags(&w, 20, &first), PPL_OK); // round again
    assert_int_equal(first, PPL_WORLD_TAGS);
    assert_int_equal(ppl_world_tags(&w, 85, &first), PPL_ERR_PLAN);
}

static void alone(void **state) {
    (void)state;
    int32_t number = 5;
    assert_null(ppl_world_current());
    assert_int_equal(ppl_world_settle(NULL, "steps", PPL_OK), PPL_OK);
    assert_int_equal(ppl_world_settle(NULL, "steps", PPL_ERR_IO), PPL_ERR_IO);
    assert_int_equal(ppl_world_share(NULL, 0, &number, sizeof number), PPL_OK);
    assert_int_equal(ppl_world_close(NULL, PPL_ERR_IO, "x"), PPL_ERR_IO);
    assert_int_equal(ppl_world_processes_of(NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_spread), cmocka_unit_test(votes),  cmocka_unit_test(failures), cmocka_unit_test(leaves),
        cmocka_unit_test(shares),       cmocka_unit_test(rounds), cmocka_unit_test(tags),     cmocka_unit_test(alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
