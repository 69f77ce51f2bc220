// test_async.c - asynchronous training (PipeDream's stash, 2BW) against a plain sequential program of the same rules, bit by
// bit: losses, norms and weights, over ranks, microbatches, orders and links, however the steps are handed over.
#include "support/sequential.h"
#include "train/run.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
enum { FEW = 1, STRIDE = 3 }; // programs run ten times as long
#elif defined(__SANITIZE_ADDRESS__)
enum { FEW = 1, STRIDE = 1 };
#else
enum { FEW = 0, STRIDE = 1 };
#endif

static const test_case usual = {.order = ORDER_1F1B,
                                .ranks = 4,
                                .microbatches = 8,
                                .optimizer = PPL_ADAMW,
                                .dropout = 0.1,
                                .untied = true,
                                .weights = PPL_WEIGHTS_STASH};

// What the plan says of memory is what the run has.
static void check_plan(const test_trainer *t, const test_case *c, bool full) {
    const ppl_plan *p = ppl_run_plan(t->run);
    for (int32_t r = 0; r < c->ranks; r++) {
        ppl_rank_stats stats;
        assert_int_equal(ppl_run_rank_stats(t->run, r, &stats), PPL_OK);
        assert_int_equal(stats.memory[PPL_MEM_PARAMETERS], ppl_plan_memory(p, r, PPL_MEM_PARAMETERS));
        assert_int_equal(stats.memory[PPL_MEM_ACTIVATIONS], ppl_plan_memory(p, r, PPL_MEM_ACTIVATIONS));
        if (full) assert_int_equal(stats.peak_live, stats.planned_live);
        assert_true(stats.span_idle > -1e-6);
    }
}

static void check_case(const test_case *c, const int32_t *calls, int32_t n) {
    test_trainer t;
    sequential s;
    test_open(c, &t);
    sequential_open(&s, c, &t);
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        sequential_both(&s, &t, c, calls[i]);
        if (calls[i] > most) most = calls[i];
    }
    check_plan(&t, c, most > 1);
    sequential_close(&s);
    test_trainer_close(&t);
}

// All at once, and in pieces.
static void test_grid(void **state) {
    (void)state;
    static const int32_t once[] = {4}, pieces[] = {1, 3, 1, 2};
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++)
        for (int32_t p = 1; p <= 4; p += FEW ? 3 : 1)
            for (int32_t m = 1; m <= 8; m *= FEW ? 8 : 2) {
                test_case c = usual;
                c.weights = weights;
                c.ranks = p;
                c.microbatches = m;
                check_case(&c, once, 1);
                c.copy_links = 1;
                if (m > 1) check_case(&c, pieces, 4);
            }
}

// Other numbers: bf16 with masters, SGD, clip by stage, recomputation, the reference device, delays.
static void test_numbers(void **state) {
    (void)state;
    static const int32_t calls[] = {2, 1, 3};
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++)
        for (int32_t k = STRIDE > 1 ? 2 : 0; k < 6; k += STRIDE) { // clipped by stage, delayed
            test_case c = usual;
            c.weights = weights;
            c.ranks = k % 2 ? 4 : 3;
            if (k == 0) c.dtype = PPL_BF16;
            if (k == 1) c.optimizer = PPL_SGD, c.dtype = PPL_BF16;
            if (k == 2) c.clip = PPL_CLIP_STAGE, c.clip_norm = 0.05;
            if (k == 3) c.recompute = true;
            if (k == 4) c.device = "reference", c.microbatches = 4;
            if (k == 5) c.delay_seed = 7, c.copy_links = weights == PPL_WEIGHTS_2BW;
            check_case(&c, calls, 3);
        }
}

static void test_orders(void **state) {
    (void)state;
    static const int32_t calls[] = {3, 2};
    static const struct {
        order order;
        int32_t chunks, weights;
    } tries[] = {{ORDER_GPIPE, 1, PPL_WEIGHTS_STASH}, {ORDER_NAIVE, 1, PPL_WEIGHTS_STASH},
                 {ORDER_GPIPE, 1, PPL_WEIGHTS_2BW},   {ORDER_ZB_H1, 1, PPL_WEIGHTS_2BW},
                 {ORDER_LOOP, 2, PPL_WEIGHTS_2BW},    {ORDER_INTERLEAVED, 2, PPL_WEIGHTS_2BW},
                 {ORDER_V, 2, PPL_WEIGHTS_2BW},       {ORDER_NAIVE, 1, PPL_WEIGHTS_2BW}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i += STRIDE)
        for (int32_t copies = 0; copies < 2; copies++) {
            test_case c = usual;
            if (FEW && (int32_t)i % 2 != copies) continue;
            c.order = tries[i].order;
            c.chunks = tries[i].chunks;
            c.weights = tries[i].weights;
            c.copy_links = copies;
            check_case(&c, calls, 2);
        }
}

// An evaluation reads the newest weights and leaves training as it was.
static void test_evaluate(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        test_case c = usual, plain = usual;
        test_trainer t, other;
        sequential s;
        c.weights = weights;
        plain.weights = PPL_WEIGHTS_SYNC;
        ppl_data *held_out = test_text_data(1);
        test_open(&c, &t);
        test_open(&plain, &other);
        sequential_open(&s, &c, &t);
        for (int32_t k = 0; k < 3; k++) {
            static double x[GPT_VOCABULARY * GPT_WIDTH];
            double is, want;
            sequential_both(&s, &t, &c, 1 + k);
            for (int32_t i = 0; i < ppl_run_parameters(t.run); i++) {
                assert_int_equal(ppl_run_read(t.run, i, PPL_PART_WEIGHT, x), PPL_OK);
                assert_int_equal(ppl_run_write(other.run, i, PPL_PART_WEIGHT, x), PPL_OK);
            }
            assert_int_equal(ppl_run_evaluate(t.run, held_out, 3, &is), PPL_OK);
            assert_int_equal(ppl_run_evaluate(other.run, held_out, 3, &want), PPL_OK);
            assert_true(is == want);
        }
        sequential_close(&s);
        test_trainer_close(&t);
        test_trainer_close(&other);
        ppl_data_close(held_out);
    }
}

// Synchronous, PipeDream, 2BW and back on the same weights, by turns; each begins with the newest alone. Then a file, and
// weights written from outside.
static void test_changes(void **state) {
    (void)state;
    test_case c = usual, sync = usual;
    test_trainer t;
    sequential s;
    char path[96];
    snprintf(path, sizeof path, "%s.async", test_text());
    sync.weights = PPL_WEIGHTS_SYNC;
    test_open(&sync, &t);
    sequential_open(&s, &sync, &t);
    sequential_both(&s, &t, &sync, 2);
    static const int32_t turns[] = {PPL_WEIGHTS_STASH, PPL_WEIGHTS_2BW,  PPL_WEIGHTS_STASH, PPL_WEIGHTS_SYNC,
                                    PPL_WEIGHTS_2BW,   PPL_WEIGHTS_SYNC, PPL_WEIGHTS_STASH, PPL_WEIGHTS_2BW};
    for (size_t k = 0; k < sizeof turns / sizeof *turns; k++) {
        c.weights = turns[k];
        ppl_schedule *next = schedule_make(ORDER_1F1B, 4, 8, 1);
        ppl_schedule_set_weights(next, c.weights);
        if (ppl_run_use_schedule(t.run, next) != PPL_OK) fail_msg("%s", ppl_error());
        sequential_restart(&s, &c);
        sequential_both(&s, &t, &c, 2);
        sequential_both(&s, &t, &c, 1);
        ppl_schedule_close(next);
    }
    assert_int_equal(ppl_run_save(t.run, path, 1), PPL_OK);
    ppl_interpret_close(&s.t); // before its graph
    ppl_data_close(s.data);
    s.data = NULL;
    test_trainer_close(&t);
    c.ranks = 3; // another pipeline goes on
    sequential rest = s;
    test_open(&c, &t);
    assert_int_equal(ppl_run_load(t.run, path), PPL_OK);
    assert_int_equal(ppl_run_step(t.run), 26);
    sequential_restart(&rest, &c);
    sequential_open(&s, &c, &t); // its graph and its stages, with the state of the other
    for (int32_t i = 0; i < s.params; i++) {
        memcpy(s.param[i].moment1, rest.param[i].moment1, (size_t)s.param[i].n * sizeof(float));
        memcpy(s.param[i].moment2, rest.param[i].moment2, (size_t)s.param[i].n * sizeof(float));
    }
    s.step = rest.step;
    s.updates = rest.updates;
    assert_null(sequential_differ(&rest, t.run));
    sequential_both(&s, &t, &c, 2);
    double *x = calloc((size_t)s.param[0].n, sizeof *x);
    assert_int_equal(ppl_run_write(t.run, 0, PPL_PART_WEIGHT, x), PPL_OK);
    sequential_restart(&s, &c);
    memset(s.param[0].version[0], 0, (size_t)s.param[0].n * sizeof(float));
    sequential_both(&s, &t, &c, 2);
    free(x);
    sequential_close(&s);
    test_trainer_close(&t);
    sequential_close(&rest);
    unlink(path);
}

static void *interrupt(void *run) {
    usleep(20000);
    ppl_run_interrupt(run);
    return NULL;
}

// An interrupted call ends with a whole step on all ranks, drained, and counts as a call of so many.
static void test_interrupt(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        test_case c = usual;
        test_trainer t;
        sequential s;
        pthread_t thread;
        int64_t done = 0;
        enum { MANY = 100000 };
        c.weights = weights;
        test_open(&c, &t);
        sequential_open(&s, &c, &t);
        assert_int_equal(pthread_create(&thread, NULL, interrupt, t.run), 0);
        assert_int_equal(ppl_run_steps(t.run, MANY, &done), PPL_ERR_STOPPED);
        pthread_join(thread, NULL);
        assert_in_range(done, 0, MANY - 1);
        assert_int_equal(ppl_run_step(t.run), done);
        double *loss = calloc(2 * (size_t)done + 1, sizeof *loss);
        sequential_call(&s, (int32_t)done, loss, loss + done);
        const char *differ = sequential_differ(&s, t.run);
        if (differ) fail_msg("%s after %d steps: %s", sequential_name(&c), (int)done, differ);
        sequential_both(&s, &t, &c, 2);
        free(loss);
        sequential_close(&s);
        test_trainer_close(&t);
    }
}

// ---- PipeDream's three losses ----

// The gradient of the last of so many microbatches, all of one and the same sample, on a stage that keeps `versions`.
static double *last_gradient(int32_t versions, int32_t microbatches) {
    static const char *const rows[3][3] = {{"0F0 0B0", "0F0 0B0 0F1 0B1", "0F0 0B0 0F1 0B1 0F2 0B2"},
                                           {"0F0 0B0", "0F0 0F1 0B0 0B1", "0F0 0F1 0B0 0F2 0B1 0B2"},
                                           {"0F0 0B0", "0F0 0F1 0B0 0B1", "0F0 0F1 0F2 0B0 0B1 0B2"}};
    static const char *const names[] = {"tokens", "targets"};
    static const ppl_type types[] = {{PPL_I32, 1, {GPT_CONTEXT}}, {PPL_I32, 1, {GPT_CONTEXT}}};
    int32_t tokens[3 * GPT_CONTEXT], targets[3 * GPT_CONTEXT], cut[] = {0};
    for (int32_t i = 0; i < 3 * GPT_CONTEXT; i++) tokens[i] = i % GPT_CONTEXT, targets[i] = 100 + i % GPT_CONTEXT;
    ppl_schedule *s = schedule_from(1, 1, NULL, microbatches, &rows[versions - 1][microbatches - 1]);
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    ppl_data *data;
    assert_int_equal(ppl_data_queue(2, names, types, 1, &data), PPL_OK);
    assert_int_equal(ppl_data_push(data, microbatches, (const void *const[]){tokens, targets}), PPL_OK);
    ppl_run_options o = test_options(&usual);
    o.first_layer = cut;
    o.stages = 1;
    o.samples = microbatches;
    ppl_graph *g = test_gpt_untied(PPL_F32, 1, 0);
    ppl_run *r;
    int64_t done;
    ppl_param_info info;
    if (ppl_run_open(&o, g, s, data, &r) != PPL_OK || ppl_run_steps(r, 1, &done) != PPL_OK) fail_msg("%s", ppl_error());
    if (microbatches == 3) assert_int_equal(ppl_plan_versions(ppl_run_plan(r), 0), versions);
    double *x = calloc(GPT_VOCABULARY * GPT_WIDTH, sizeof *x);
    assert_int_equal(ppl_run_read(r, test_param(r, "embed.wte", &info), PPL_PART_GRADIENT, x), PPL_OK);
    ppl_run_close(r);
    ppl_data_close(data);
    ppl_graph_close(g);
    ppl_schedule_close(s);
    return x;
}

// facts: with 1, 2 and 3 versions the gradients 1 and 2, and 1 and 3, are equal as (no, no), (yes, no), (yes, yes).
static void test_three_losses(void **state) {
    (void)state;
    for (int32_t versions = 1; versions <= 3; versions++) {
        double *g[3];
        size_t bytes = sizeof(double) * GPT_VOCABULARY * GPT_WIDTH;
        for (int32_t m = 1; m <= 3; m++) g[m - 1] = last_gradient(versions, m);
        assert_int_equal(memcmp(g[0], g[1], bytes) == 0, versions >= 2);
        assert_int_equal(memcmp(g[0], g[2], bytes) == 0, versions >= 3);
        for (int32_t m = 0; m < 3; m++) free(g[m]);
    }
}

// ---- refused ----

static void test_refused_words(void **state) {
    (void)state;
    test_trainer t;
    test_case c = usual;
    c.clip_norm = 1;
    c.clip = PPL_CLIP_BEFORE;
    test_refused(test_trainer_open(&c, &t), PPL_ERR_ARG,
                 "run: clip is before, which needs all ranks' gradients of a step at once: with weights 'stash' of "
                 "schedule 1f1b want stage or none");
    c.clip = PPL_CLIP_AFTER;
    c.weights = PPL_WEIGHTS_2BW;
    test_refused(test_trainer_open(&c, &t), PPL_ERR_ARG, "run: clip is after, which needs");
    c = usual;
    c.untied = false;
    test_refused(test_trainer_open(&c, &t), PPL_ERR_PLAN,
                 "schedule 1f1b: parameter 'embed.wte' is tied over stages 0 and 3, want none tied with weights "
                 "\"stash\", or \"sync\"");
    c.ranks = 1; // on one stage it is not
    test_open(&c, &t);
    test_steps(&t, 2);
    // A refused change of the schedule leaves the run as it is.
    test_trainer_close(&t);
    c = usual;
    c.weights = PPL_WEIGHTS_SYNC;
    c.clip = PPL_CLIP_BEFORE;
    c.clip_norm = 1;
    test_open(&c, &t);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 4, 8, 1);
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    test_refused(ppl_run_use_schedule(t.run, s), PPL_ERR_ARG, "run: clip is before");
    ppl_schedule_close(s);
    test_goes_on(&t, &c, 0, 2);
    test_trainer_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_losses), cmocka_unit_test(test_grid),          cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_orders),       cmocka_unit_test(test_evaluate),      cmocka_unit_test(test_changes),
        cmocka_unit_test(test_interrupt),    cmocka_unit_test(test_refused_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
