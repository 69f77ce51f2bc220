// test_links.c - ranks on several GPUs of one process, over NCCL: the bits of one GPU for all schedules, a GPU each or two
// ranks on each; nothing allocated, nothing waited for in a step; every fault ends in its words with all threads gone.
// PPL_TEST_FULL=1, as make cuda-test has it, runs all cases, else some.
#include "runs.h"

static void start(int gpus, uint64_t seed) {
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    runs_start(gpus, seed);
}

static void test_bits(void **state) {
    (void)state;
    static const struct {
        order order;
        int32_t ranks, chunks, gpus;
    } layouts[] = {{ORDER_1F1B, 2, 1, 2},  {ORDER_1F1B, 4, 1, 4},        {ORDER_NAIVE, 4, 1, 4},
                   {ORDER_GPIPE, 4, 1, 4}, {ORDER_INTERLEAVED, 2, 2, 2}, {ORDER_ZB_H1, 4, 1, 4},
                   {ORDER_1F1B, 4, 1, 2},  {ORDER_ZB_H1, 4, 1, 3}};
    test_case one = runs_case(PPL_F32, ORDER_1F1B, 1, 1);
    test_outcome want;
    start(1, 0);
    runs_outcome(&one, &want);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i += runs_full() ? 1 : 3) {
        start(layouts[i].gpus, i + 1);
        test_case c = runs_case(PPL_F32, layouts[i].order, layouts[i].ranks, layouts[i].chunks);
        runs_same_bits(&c, &want);
        assert_true(emu_counted().transfers > 0);
    }
    test_outcome_clear(&want);
}

// Each way of clipping, with norms that ask for it: rollbacks with values underway.
static void test_clips(void **state) {
    (void)state;
    static const int32_t clips[] = {PPL_CLIP_NONE, PPL_CLIP_AFTER};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        test_outcome want;
        start(1, 0);
        test_case c = runs_case(PPL_F32, ORDER_1F1B, 1, 1);
        c.clip = clips[i];
        c.clip_norm = 0.5;
        runs_outcome(&c, &want);
        if (clips[i] != PPL_CLIP_NONE) assert_true(want.clipped > 0);
        c.ranks = 4;
        for (uint64_t seed = runs_full() ? 1 : 2; seed < (runs_full() ? 4 : 3); seed++) {
            start(4, seed);
            c.order = seed == 2 ? ORDER_ZB_H1 : ORDER_1F1B;
            c.delay_seed = seed;
            runs_same_bits(&c, &want);
        }
        test_outcome_clear(&want);
    }
}

// Steps after the first allocate nothing and never make the host wait; evaluations have links of their own.
static void test_counts(void **state) {
    (void)state;
    start(4, 3);
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 4, 1);
    test_trainer t;
    test_open(&c, &t);
    emu_counts n = runs_steps_alone(&t, 4);
    assert_true(n.transfers >= 4 * 2 * 2 * 3 * 4); // steps, ends, kinds, cuts, microbatches
    ppl_data *data = test_text_data(0);
    double loss = 0;
    assert_int_equal(ppl_run_evaluate(t.run, data, 1, &loss), PPL_OK);
    assert_true(loss > 0 && loss < 10);
    test_goes_on(&t, &c, 4, 1);
    test_trainer_close(&t);
    ppl_data_close(data);
}

static void test_faults(void **state) {
    (void)state;
    runs_fault(4, EMU_FAULT_NCCL, 30, "internal error: a planted error");
    runs_fault(4, EMU_FAULT_NCCL_ASYNC, 30, "unhandled system error: a planted asynchronous error");
    runs_fault(4, EMU_FAULT_PEER, 30, "is lost");
    runs_fault(4, EMU_FAULT_LAUNCH, 90, "unspecified launch failure");
    runs_fault(4, EMU_FAULT_REFUSED, 50, "too many resources requested for launch");
    runs_fault(4, EMU_FAULT_MATMUL, 20, "rank ");
}

static void test_opening(void **state) {
    (void)state;
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 4, 1);
    test_trainer t;
    start(4, 0);
    emu_fail(EMU_FAULT_INIT, 2);
    test_refused(test_trainer_open(&c, &t), PPL_ERR_DEVICE, "nccl: joining all GPUs: unhandled system error");
    start(4, 0);
    emu_set_nccl_version(21805);
    test_refused(test_trainer_open(&c, &t), PPL_ERR_DEVICE, "link nccl: the library is 2.18.5");
    start(4, 0);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    test_refused(test_trainer_open(&c, &t), PPL_ERR_ARG, "want it unset");
    unsetenv("CUDA_LAUNCH_BLOCKING");
    start(4, 0);
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    test_refused(test_trainer_open(&c, &t), PPL_ERR_ARG, "NCCL_LAUNCH_ORDER_IMPLICIT=1 makes");
    start(4, 0);
    test_open(&c, &t); // and it goes on
    test_steps(&t, 1);
    test_trainer_close(&t);
    assert_int_equal(emu_still_open().allocations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_clips),   cmocka_unit_test(test_counts),
        cmocka_unit_test(test_faults), cmocka_unit_test(test_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
