// test_run_faults.c - numbers that are not finite, data that ends or is wrong, devices that fail or stall: the run says so,
// leaves nothing hanging, and where that makes sense goes on.
#include "support/trainer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_not_finite(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s.safetensors", test_text());
    static const int32_t clips[] = {PPL_CLIP_NONE, PPL_CLIP_BEFORE, PPL_CLIP_AFTER};
    for (int32_t i = 0; i < 3; i++) {
        test_trainer t;
        test_case c = test_usual;
        c.clip = clips[i];
        test_open(&c, &t);
        test_steps(&t, 2);
        assert_int_equal(ppl_run_save(t.run, path, 1), PPL_OK);
        ppl_param_info info;
        int32_t w = test_param(t.run, "block3.up.w", &info);
        double bad[2 * GPT_WIDTH * GPT_WIDTH] = {NAN};
        assert_int_equal(ppl_run_write(t.run, w, PPL_PART_WEIGHT, bad), PPL_OK);
        int64_t done = 7;
        test_refused(ppl_run_steps(t.run, 3, &done), PPL_ERR_NUMBER, "step 2");
        assert_int_equal(done, 0);
        test_refused(ppl_run_steps(t.run, 1, &done), PPL_ERR_NUMBER, "it has failed and can be loaded or closed");
        assert_int_equal(ppl_run_save(t.run, path, 1), PPL_ERR_NUMBER);
        assert_int_equal(ppl_run_write(t.run, w, PPL_PART_WEIGHT, bad), PPL_ERR_NUMBER);
        double loss;
        assert_int_equal(ppl_run_evaluate(t.run, t.data, 1, &loss), PPL_ERR_NUMBER);
        ppl_step_record record;
        assert_int_equal(ppl_run_record(t.run, 1, &record), PPL_OK);
        assert_int_equal(ppl_run_load(t.run, path), PPL_OK);
        test_goes_on(&t, &c, 2, 2);
        test_trainer_close(&t);
    }
    unlink(path);
}

// Pushes the samples of the text's step as a queue's next step, all but the last `less`.
static void push(ppl_data *queue, ppl_data *text, int64_t step, int32_t less) {
    static int32_t tokens[TRAINER_SAMPLES * GPT_CONTEXT], targets[TRAINER_SAMPLES * GPT_CONTEXT];
    assert_int_equal(ppl_data_read(text, step, 0, TRAINER_SAMPLES, TRAINER_SAMPLES, 0, tokens), PPL_OK);
    assert_int_equal(ppl_data_read(text, step, 0, TRAINER_SAMPLES, TRAINER_SAMPLES, 1, targets), PPL_OK);
    assert_int_equal(ppl_data_push(queue, TRAINER_SAMPLES - less, (const void *const[]){tokens, targets}), PPL_OK);
}

static ppl_data *queue_open(void) {
    static const char *const names[] = {"tokens", "targets"};
    static const ppl_type types[] = {{PPL_I32, 1, {GPT_CONTEXT}}, {PPL_I32, 1, {GPT_CONTEXT}}};
    ppl_data *queue = NULL;
    assert_int_equal(ppl_data_queue(2, names, types, 4, &queue), PPL_OK);
    return queue;
}

// Data that ends: what there is is trained on, the rest is an error, and more data goes on.
static void test_queue(void **state) {
    (void)state;
    test_case c = test_usual;
    test_trainer t;
    ppl_data *text = test_text_data(0);
    c.data = queue_open();
    test_open(&c, &t);
    int64_t done = 0;
    test_refused(ppl_run_steps(t.run, 2, &done), PPL_ERR_DATA, "step 0 was not pushed");
    for (int32_t i = 0; i < 3; i++) push(c.data, text, i, 0);
    test_refused(ppl_run_steps(t.run, 5, &done), PPL_ERR_DATA, "step 3 was not pushed");
    assert_int_equal(done, 3);
    push(c.data, text, 3, 0);
    push(c.data, text, 4, 0);
    ppl_data *queue = c.data;
    c.data = NULL;
    test_goes_on(&t, &c, 3, 2); // bit-equal to the text itself
    // an evaluation takes its steps from the same queue; training goes on behind it
    double loss;
    push(queue, text, 90, 3);
    push(queue, text, 5, 0);
    assert_int_equal(ppl_run_evaluate(t.run, queue, 1, &loss), PPL_OK);
    test_goes_on(&t, &c, 5, 1);
    ppl_data_end(queue);
    test_refused(ppl_run_steps(t.run, 1, &done), PPL_ERR_DATA, "the data ended before step 6");
    test_trainer_close(&t);
    ppl_data_close(queue);
    ppl_data_close(text);
}

// A step of 13 samples, padded in microbatches of 2, has the loss and the gradients of the same 13 in one microbatch.
static void test_padding(void **state) {
    (void)state;
    double loss[2], norm[2];
    for (int32_t i = 0; i < 2; i++) {
        test_case c = test_usual;
        test_trainer t;
        ppl_data *text = test_text_data(0);
        c.dropout = 0;
        c.microbatches = i ? 1 : 8;
        c.data = queue_open();
        test_open(&c, &t);
        push(c.data, text, 0, 3);
        test_steps(&t, 1);
        ppl_step_record s;
        assert_int_equal(ppl_run_record(t.run, 0, &s), PPL_OK);
        assert_int_equal(s.tokens, 13 * GPT_CONTEXT);
        assert_true(s.weight == 13 * GPT_CONTEXT);
        loss[i] = s.loss;
        norm[i] = s.grad_norm;
        test_trainer_close(&t);
        ppl_data_close(c.data);
        ppl_data_close(text);
    }
    assert_true(fabs(loss[0] / loss[1] - 1) < 1e-6);
    assert_true(fabs(norm[0] / norm[1] - 1) < 1e-5);
}

// An id outside the vocabulary stops every rank, with the place.
static void test_bad_id(void **state) {
    (void)state;
    test_case c = test_usual;
    test_trainer t;
    static int32_t tokens[TRAINER_SAMPLES * GPT_CONTEXT];
    tokens[100] = GPT_VOCABULARY;
    c.data = queue_open();
    test_open(&c, &t);
    assert_int_equal(ppl_data_push(c.data, TRAINER_SAMPLES, (const void *const[]){tokens, tokens}), PPL_OK);
    int64_t done;
    test_refused(ppl_run_steps(t.run, 1, &done), PPL_ERR_DATA, "rank 0, step 0, 0F6");
    test_trainer_close(&t);
    ppl_data_close(c.data);
}

// The emulated device: times by costs, faults on demand, and a run that closes whatever happened.
static void test_emulated(void **state) {
    (void)state;
    static const double f[4] = {1e-4, 1e-4, 1e-4, 1e-4};
    ppl_costs costs = {.f = f, .i = f, .w = f, .update = 1e-5};
    for (int32_t i = 0; i < 3; i++) {
        test_case c = test_usual;
        test_trainer t;
        test_open(&c, &t); // for its graph, schedule and data
        ppl_run_options o = test_options(&c);
        o.device = "emulated";
        o.costs = &costs;
        o.fail_rank = 2;
        o.fail_task = i == 1 ? 40 : -1;
        o.stall_task = i == 2 ? 40 : -1;
        o.stall_seconds = 0.3;
        ppl_run *r = NULL;
        int64_t done = 0;
        if (ppl_run_open(&o, t.graph, t.schedule, t.data, &r) != PPL_OK) fail_msg("%s", ppl_error());
        ppl_status st = ppl_run_steps(r, 4, &done);
        if (i == 0) {
            if (st != PPL_OK) fail_msg("%s", ppl_error());
            ppl_stage_stats s;
            assert_int_equal(ppl_run_stage_stats(r, 1, &s), PPL_OK);
            assert_true(s.f_median >= 1e-4 && s.w_median >= 1e-4);
        } else {
            assert_int_equal(st, i == 1 ? PPL_ERR_DEVICE : PPL_ERR_STALL);
            assert_non_null(strstr(ppl_error(), "rank 2"));
            assert_true(done < 4);
        }
        ppl_run_close(r);
        test_trainer_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_queue),    cmocka_unit_test(test_padding),
        cmocka_unit_test(test_bad_id),     cmocka_unit_test(test_emulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
