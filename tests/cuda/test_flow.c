// test_flow.c - asynchronous training (PipeDream's stash, 2BW) on the cuda device over the emulation: bit by bit what a plain
// sequential program of the same rules gives on that device, near what the cpu device gives, without a wait of the host.
// PPL_TEST_FULL=1, as make cuda-test has it, runs all cases, else some.
#include "runs.h"
#include "support/sequential.h"
#include <math.h>

static const test_case usual = {.device = "cuda",
                                .order = ORDER_1F1B,
                                .ranks = 4,
                                .microbatches = 4,
                                .samples = 4,
                                .optimizer = PPL_ADAMW,
                                .dropout = 0.1,
                                .untied = true,
                                .weights = PPL_WEIGHTS_STASH};

static void check_case(const test_case *c, const int32_t *calls, int32_t n) {
    test_trainer t;
    sequential s;
    test_open(c, &t);
    sequential_open(&s, c, &t);
    for (int32_t i = 0; i < n; i++) sequential_both(&s, &t, c, calls[i]);
    sequential_close(&s);
    test_trainer_close(&t);
    assert_string_equal(emu_report(), "");
}

// Steps handed over at once and in pieces; bf16 with masters, SGD, clip by stage, copied buffers, delays.
static void test_sequential(void **state) {
    (void)state;
    static const int32_t once[] = {3}, pieces[] = {2, 1};
    for (int32_t k = runs_full() ? 0 : 4; k < 5; k++) {
        test_case c = usual;
        runs_start(1, (uint64_t)k);
        c.weights = k % 2 ? PPL_WEIGHTS_2BW : PPL_WEIGHTS_STASH;
        if (k == 0) c.optimizer = PPL_SGD, c.delay_seed = 7;
        if (k == 1) c.dtype = PPL_BF16, c.copy_links = 1;
        if (k == 2) c.dtype = PPL_BF16, c.copy_links = 1, c.ranks = 3;
        if (k == 3) c.clip = PPL_CLIP_STAGE, c.clip_norm = 0.05, c.delay_seed = 7;
        if (k == 4) c.clip = PPL_CLIP_STAGE, c.clip_norm = 0.05, c.ranks = 2;
        if (k < 3) check_case(&c, once, 1);
        else check_case(&c, pieces, runs_full() ? 2 : 1);
    }
}

static void outcome_of(const test_case *c, test_outcome *out) {
    enum { LONGER = 4 };
    test_trainer t;
    test_open(c, &t);
    if (test_trainer_run(&t, LONGER, LONGER, out) != PPL_OK) fail_msg("%s: %s", sequential_name(c), ppl_error());
    test_trainer_close(&t);
}

// The synchronous plan clips by stage too.
static void test_near_cpu(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_SYNC; runs_full() && weights <= PPL_WEIGHTS_2BW; weights++) {
        test_outcome is, want;
        test_case c = usual;
        runs_start(1, 0);
        c.weights = weights;
        c.clip = PPL_CLIP_STAGE;
        c.clip_norm = 0.3;
        outcome_of(&c, &is);
        c.device = "cpu";
        outcome_of(&c, &want);
        assert_true(want.clipped > 0);
        assert_int_equal(is.clipped, want.clipped);
        for (int32_t i = 0; i < want.steps; i++) {
            if (!(fabs(is.loss[i] - want.loss[i]) <= 1e-4 * want.loss[i]))
                fail_msg("%s, step %d: the loss is %.9g, want %.9g", sequential_name(&c), i, is.loss[i], want.loss[i]);
            if (!(fabs(is.norm[i] - want.norm[i]) <= 1e-3 * want.norm[i]))
                fail_msg("%s, step %d: the norm is %.9g, want %.9g", sequential_name(&c), i, is.norm[i], want.norm[i]);
        }
        test_outcome_clear(&is);
        test_outcome_clear(&want);
    }
}

// Steps that flow into one another allocate nothing; the host never waits, clipping by stage looks for its numbers.
static void test_counts(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++)
        for (int32_t clip = PPL_CLIP_NONE; clip <= PPL_CLIP_STAGE; clip += PPL_CLIP_STAGE - PPL_CLIP_NONE) {
            test_case c = usual;
            test_trainer t;
            if (!runs_full() && (clip == PPL_CLIP_STAGE) == (weights == PPL_WEIGHTS_STASH)) continue;
            runs_start(1, 0);
            c.weights = weights;
            c.clip = clip;
            c.clip_norm = 0.3;
            test_open(&c, &t);
            runs_steps_alone(&t, 2);
            test_trainer_close(&t);
        }
}

// An evaluation reads the newest weights and leaves the versions as they were.
static void test_evaluate(void **state) {
    (void)state;
    test_case c = usual;
    test_trainer t;
    sequential s;
    double first = 0, again = 0;
    if (!runs_full()) return;
    runs_start(1, 0);
    ppl_data *held_out = test_text_data(1);
    test_open(&c, &t);
    sequential_open(&s, &c, &t);
    sequential_both(&s, &t, &c, 2);
    assert_int_equal(ppl_run_evaluate(t.run, held_out, 1, &first), PPL_OK);
    assert_int_equal(ppl_run_evaluate(t.run, held_out, 1, &again), PPL_OK);
    assert_true(first == again && first > 0 && first < 10);
    sequential_both(&s, &t, &c, 1);
    sequential_close(&s);
    test_trainer_close(&t);
    ppl_data_close(held_out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequential),
        cmocka_unit_test(test_near_cpu),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_evaluate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
