// test_trial.c - a schedule tried on a copy: what is measured is the trial's, what comes after is as if it had not been. And
// what a run says of its numbers and its memory beside.
#include "base/memory.h"
#include "plan/plan.h"
#include "support/trainer.h"
#include "train/run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { NUMBERS = 1 << 18 };

// All numbers of a run: weights and both moments, one after the other.
static int64_t numbers(const ppl_run *r, double *out) {
    int64_t n = 0;
    for (int32_t i = 0; i < ppl_run_parameters(r); i++) {
        static const int32_t parts[] = {PPL_PART_WEIGHT, PPL_PART_MOMENT1, PPL_PART_MOMENT2};
        ppl_param_info info;
        assert_int_equal(ppl_run_parameter(r, i, &info), PPL_OK);
        int64_t elements = ppl_type_elements(&info.type);
        assert_true(n + 3 * elements <= NUMBERS);
        for (int32_t k = 0; k < 3; k++, n += elements) assert_int_equal(ppl_run_read(r, i, parts[k], out + n), PPL_OK);
    }
    return n;
}

static void test_trial(void **state) {
    (void)state;
    static const int32_t clips[] = {PPL_CLIP_BEFORE, PPL_CLIP_AFTER};
    static double before[NUMBERS], after[NUMBERS];
    for (int32_t k = 0; k < 2; k++) {
        test_case c = test_usual;
        c.clip = clips[k];
        test_trainer t;
        test_open(&c, &t);
        test_steps(&t, 2);
        ppl_step_record was, is;
        assert_int_equal(ppl_run_record(t.run, 1, &was), PPL_OK);
        int64_t n = numbers(t.run, before);
        const ppl_plan *plan = ppl_run_plan(t.run);
        ppl_schedule *other = schedule_make(ORDER_ZB_H1, 4, 8, 1);
        for (int32_t round = 0; round < 2; round++) {
            assert_int_equal(ppl_run_trial_begin(t.run, other), PPL_OK);
            test_refused(ppl_run_trial_begin(t.run, other), PPL_ERR_ARG, "a trial is on already");
            test_steps(&t, 3);
            assert_int_equal(ppl_run_step(t.run), 5);
            assert_int_equal(ppl_run_record(t.run, 4, &is), PPL_OK);
            assert_int_equal(ppl_run_trial_end(t.run), PPL_OK);
        }
        test_refused(ppl_run_trial_end(t.run), PPL_ERR_ARG, "no trial is on");
        ppl_schedule_close(other);
        assert_ptr_equal(ppl_run_plan(t.run), plan);
        assert_int_equal(ppl_run_step(t.run), 2);
        assert_int_equal(numbers(t.run, after), n);
        assert_memory_equal(before, after, (size_t)n * sizeof *before);
        assert_int_equal(ppl_run_record(t.run, 1, &is), PPL_OK);
        assert_memory_equal(&was, &is, sizeof is);
        int64_t count = 0;
        assert_int_equal(ppl_run_events(t.run, 1, NULL, 0, &count), PPL_OK); // the traces are there still
        assert_true(count > 0);
        test_refused(ppl_run_record(t.run, 3, &is), PPL_ERR_ARG, "has no record");
        test_goes_on(&t, &c, 2, 3);
        test_trainer_close(&t);
    }
}

static void test_trial_left_open(void **state) {
    (void)state;
    test_trainer t;
    int64_t held = ppl_memory_held();
    test_open(&test_usual, &t);
    test_steps(&t, 1);
    ppl_schedule *other = schedule_make(ORDER_GPIPE, 4, 8, 1), *bad = schedule_make(ORDER_1F1B, 8, 8, 1);
    test_refused(ppl_run_trial_begin(t.run, bad), PPL_ERR_ARG, "stages");
    assert_int_equal(ppl_run_trial_begin(t.run, other), PPL_OK);
    test_steps(&t, 1);
    test_trainer_close(&t);
    ppl_schedule_close(other);
    ppl_schedule_close(bad);
    assert_int_equal(ppl_memory_held(), held); // nothing is left, of the run or of the trial
}

// A queue is emptied at both ends of a trial, and takes the same steps again.
static void test_trial_queue(void **state) {
    (void)state;
    const char *names[] = {"x"};
    ppl_type type = {.dtype = PPL_F32, .dim = {1, 1, 1, 1, 1, 1}};
    ppl_data *d;
    assert_int_equal(ppl_data_queue(1, names, &type, 4, &d), PPL_OK);
    float x[2] = {1, 2};
    const void *arrays[] = {x};
    for (int32_t i = 0; i < 3; i++) assert_int_equal(ppl_data_push(d, 2, arrays), PPL_OK);
    ppl_data_end(d);
    ppl_data_rewind(d, 7);
    test_refused(ppl_data_ready(d, 7, 2), PPL_ERR_DATA, "was not pushed");
    x[0] = 5;
    assert_int_equal(ppl_data_push(d, 2, arrays), PPL_OK);
    float got[2];
    assert_int_equal(ppl_data_read(d, 7, 0, 2, 2, 0, got), PPL_OK);
    assert_true(got[0] == 5 && got[1] == 2);
    ppl_data_close(d);
}

static void test_norms(void **state) {
    (void)state;
    test_trainer t;
    test_open(&test_usual, &t);
    static double x[NUMBERS];
    test_refused(ppl_run_norm(t.run, 0, PPL_PART_GRADIENT, x), PPL_ERR_ARG, "before the first step");
    test_steps(&t, 1);
    double squares = 0, norm;
    for (int32_t i = 0; i < ppl_run_parameters(t.run); i++) {
        ppl_param_info info;
        assert_int_equal(ppl_run_parameter(t.run, i, &info), PPL_OK);
        double sum = 0;
        assert_int_equal(ppl_run_read(t.run, i, PPL_PART_WEIGHT, x), PPL_OK);
        for (int64_t k = 0; k < ppl_type_elements(&info.type); k++) sum += x[k] * x[k];
        assert_int_equal(ppl_run_norm(t.run, i, PPL_PART_WEIGHT, &norm), PPL_OK);
        assert_true(norm == sqrt(sum));
        assert_int_equal(ppl_run_norm(t.run, i, PPL_PART_GRADIENT, &norm), PPL_OK);
        squares += norm * norm;
    }
    ppl_step_record record;
    assert_int_equal(ppl_run_record(t.run, 0, &record), PPL_OK); // of all of them: the step's own
    assert_true(fabs(sqrt(squares) - record.grad_norm) <= 1e-5 * record.grad_norm);
    test_refused(ppl_run_norm(t.run, -1, PPL_PART_WEIGHT, &norm), PPL_ERR_ARG, "parameter -1");
    test_trainer_close(&t);
}

// What the kinds of memory sum to is what the engine has taken for the run, but for its lists and plans.
static void test_memory_adds_up(void **state) {
    (void)state;
    for (int32_t copy = 0; copy < 2; copy++) {
        test_case c = test_usual;
        c.copy_links = copy;
        test_trainer t;
        test_open(&c, &t);
        test_steps(&t, 1);
        int64_t sum = 0, links = 0;
        for (int32_t rank = 0; rank < 4; rank++) {
            ppl_rank_stats s;
            assert_int_equal(ppl_run_rank_stats(t.run, rank, &s), PPL_OK);
            for (int32_t kind = 0; kind < PPL_MEMORIES; kind++) sum += s.memory[kind];
            links += s.memory[PPL_MEM_LINKS];
        }
        assert_true(copy ? links > 0 : links == 0);
        assert_true(sum > 0 && sum <= ppl_memory_held());
        test_trainer_close(&t);
    }
    int64_t held = ppl_memory_held();
    void *p = ppl_alloc(100000);
    assert_in_range(ppl_memory_held() - held, 100000, 101000);
    ppl_free(p);
    assert_int_equal(ppl_memory_held(), held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trial), cmocka_unit_test(test_trial_left_open), cmocka_unit_test(test_trial_queue),
        cmocka_unit_test(test_norms), cmocka_unit_test(test_memory_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
