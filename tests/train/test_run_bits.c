// test_run_bits.c - the losses, the norms and the weights after several steps do not depend on stages, ranks, placement,
// schedule, links or timing: every case is held, bit by bit, against one stage on one rank.
#include "support/trainer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
enum { SEEDS = 6, FEW = 1, LEAST = 4, MOST = 4, LAST = PPL_F32 }; // all is slow: the fewest of each
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 10, FEW = 2, LEAST = 4, MOST = 4, LAST = PPL_F32 }; // all is slow: fewer of each
#else
enum { SEEDS = 100, FEW = 5, LEAST = 1, MOST = 8, LAST = PPL_BF16 };
#endif

// What one stage gives for a case.
static void baseline(const test_case *c, test_outcome *out) {
    test_case one = *c;
    one.order = ORDER_NAIVE;
    one.ranks = 1;
    one.copy_links = 0;
    one.recompute = false;
    one.delay_seed = 0;
    test_train(&one, out);
    for (int32_t i = 0; i < TRAINER_STEPS; i++) assert_true(isfinite(out->loss[i]) && out->loss[i] > 0);
    assert_true(out->loss[TRAINER_STEPS - 1] < out->loss[0]);
}

static void equal(const test_case *c, const test_outcome *want) {
    test_outcome is;
    char text[192];
    test_train(c, &is);
    const char *differ = test_outcome_differ(want, &is);
    if (differ) fail_msg("%s: %s", test_case_print(c, text), differ);
    assert_int_equal(is.clipped, want->clipped);
    test_outcome_clear(&is);
}

// One stage a rank in every order, and the orders that give a rank several.
static void all_schedules(test_case c) {
    static const int32_t ranks[5] = {1, 2, 8, 4, 3};
    test_outcome want;
    baseline(&c, &want);
    for (int32_t i = 5 - FEW; i < 5; i++)
        for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) {
            c.ranks = ranks[i];
            equal(&c, &want);
        }
    for (c.order = ORDER_LOOP; c.order <= ORDER_V; c.order++)
        for (c.ranks = LEAST < 4 ? 1 : 2; c.ranks <= 4; c.ranks *= 2) {
            c.chunks = 8 / c.ranks;
            if (c.order != ORDER_INTERLEAVED || c.microbatches % c.ranks == 0) equal(&c, &want);
        }
    test_outcome_clear(&want);
}

static void test_f32(void **state) {
    (void)state;
    all_schedules((test_case){.dtype = PPL_F32, .microbatches = 8, .optimizer = PPL_ADAMW, .dropout = 0.1});
}

static void test_bf16(void **state) {
    (void)state;
    all_schedules((test_case){.dtype = PPL_BF16, .microbatches = 8, .optimizer = PPL_ADAMW, .dropout = 0.1});
}

static void test_few_microbatches(void **state) {
    (void)state;
    static const int32_t few[] = {1, 2};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (int32_t dtype = PPL_F32; dtype <= LAST; dtype++)
            all_schedules((test_case){.dtype = dtype, .microbatches = few[i], .optimizer = PPL_SGD, .dropout = 0.1});
}

// The reference device, in f64: nothing but order can make a difference.
static void test_reference(void **state) {
    (void)state;
    test_outcome want;
    test_case c = {.device = "reference", .dtype = PPL_F64, .microbatches = 4, .optimizer = PPL_ADAMW, .ranks = 4};
    baseline(&c, &want);
    for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) equal(&c, &want);
    test_outcome_clear(&want);
}

// Clipping before and after the update gives the same bits, on any cut: some steps are clipped, some are not.
static void test_clip(void **state) {
    (void)state;
    for (int32_t dtype = PPL_F32; dtype <= LAST; dtype++) {
        test_outcome none, want;
        test_case c = {.dtype = dtype, .microbatches = 8, .optimizer = PPL_ADAMW, .dropout = 0.1};
        baseline(&c, &none);
        double low = INFINITY, high = 0;
        for (int32_t i = 0; i < TRAINER_STEPS; i++) {
            low = fmin(low, none.norm[i]);
            high = fmax(high, none.norm[i]);
        }
        c.clip = PPL_CLIP_BEFORE;
        c.clip_norm = (low + high) / 2;
        baseline(&c, &want);
        assert_true(want.clipped > 0 && want.clipped < TRAINER_STEPS);
        assert_non_null(test_outcome_differ(&none, &want));
        for (c.clip = PPL_CLIP_BEFORE; c.clip <= PPL_CLIP_AFTER; c.clip++)
            for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++)
                for (c.ranks = LEAST; c.ranks <= MOST; c.ranks *= 2) equal(&c, &want);
        c.order = ORDER_V;
        c.ranks = 2;
        for (c.clip = PPL_CLIP_BEFORE; c.clip <= PPL_CLIP_AFTER; c.clip++) equal(&c, &want);
        test_outcome_clear(&none);
        test_outcome_clear(&want);
    }
}

// A step that would wreck the weights unless it is clipped: what the next forwards make of it is not held against it.
static void test_rollback(void **state) {
    (void)state;
    test_outcome want;
    test_case c = {.dtype = PPL_F32, .microbatches = 4, .optimizer = PPL_SGD, .lr = 1e28, .clip_norm = 1e-29};
    c.clip = PPL_CLIP_BEFORE;
    baseline(&c, &want);
    assert_int_equal(want.clipped, TRAINER_STEPS);
    c.clip = PPL_CLIP_AFTER;
    for (c.ranks = LEAST; c.ranks <= 4; c.ranks *= 2)
        for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) equal(&c, &want);
    test_outcome_clear(&want);
}

// Links that copy, as those between machines do.
static void test_copies(void **state) {
    (void)state;
    test_outcome want;
    test_case c = {.dtype = PPL_F32, .microbatches = 8, .optimizer = PPL_ADAMW, .dropout = 0.1, .copy_links = 1};
    baseline(&c, &want);
    for (c.ranks = LEAST; c.ranks <= MOST; c.ranks *= 2)
        for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) equal(&c, &want);
    c.order = ORDER_V;
    for (c.ranks = 2; c.ranks <= 4; c.ranks *= 2) equal(&c, &want);
    c.order = ORDER_INTERLEAVED;
    c.ranks = c.chunks = 2;
    equal(&c, &want);
    test_outcome_clear(&want);
}

// Blocks whose values are computed again in the backward programs, dropout included.
static void test_recompute(void **state) {
    (void)state;
    for (int32_t dtype = PPL_F32; dtype <= LAST; dtype++) {
        test_outcome want;
        test_case c = {.dtype = dtype, .microbatches = 4, .optimizer = PPL_ADAMW, .dropout = 0.1, .recompute = true};
        baseline(&c, &want);
        for (c.ranks = LEAST; c.ranks <= 4; c.ranks *= 2)
            for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) equal(&c, &want);
        test_outcome_clear(&want);
    }
}

// Whatever the timing: random delays before tasks and sends.
static void test_delays(void **state) {
    (void)state;
    test_outcome want[2];
    test_case c = {.dtype = PPL_F32, .microbatches = 4, .optimizer = PPL_ADAMW, .dropout = 0.1, .clip_norm = 1};
    for (c.clip = PPL_CLIP_NONE; c.clip <= PPL_CLIP_BEFORE; c.clip++) baseline(&c, &want[c.clip]);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        c.delay_seed = seed;
        c.order = (order)(seed % 4); // naive to zb-h1
        c.copy_links = seed / 4 % 2 != 0;
        c.clip = (int32_t)(seed / 8 % 3);
        c.ranks = seed % 3 ? 4 : 2;
        equal(&c, &want[c.clip != PPL_CLIP_NONE]);
    }
    for (int32_t i = 0; i < 2; i++) test_outcome_clear(&want[i]);
}

// Two threads a rank: another run than with one, but the same on every cut.
static void test_threads(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: libgomp's barriers are not seen by the thread sanitizer\n");
    skip();
#endif
    for (int32_t dtype = PPL_F32; dtype <= LAST; dtype++) {
        test_outcome want;
        test_case c = {.dtype = dtype, .microbatches = 2, .optimizer = PPL_ADAMW, .threads = 2};
        baseline(&c, &want);
        for (c.ranks = 1; c.ranks <= 4; c.ranks *= 2)
            for (c.order = ORDER_GPIPE; c.order <= ORDER_ZB_H1; c.order++) equal(&c, &want);
        test_outcome_clear(&want);
    }
}

// One call of n steps or n calls of one.
static void test_calls(void **state) {
    (void)state;
    for (int32_t clip = PPL_CLIP_NONE; clip <= PPL_CLIP_AFTER; clip++) {
        test_outcome want, is;
        test_case c = {.dtype = PPL_F32,
                       .microbatches = 4,
                       .optimizer = PPL_ADAMW,
                       .ranks = 4,
                       .order = ORDER_ZB_H1,
                       .clip = clip,
                       .clip_norm = 1};
        baseline(&c, &want);
        for (int32_t at_once = 1; at_once <= 4; at_once++) {
            test_trainer t;
            assert_int_equal(test_trainer_open(&c, &t), PPL_OK);
            assert_int_equal(test_trainer_run(&t, TRAINER_STEPS, at_once, &is), PPL_OK);
            const char *differ = test_outcome_differ(&want, &is);
            if (differ) fail_msg("%d at once, clip %d: %s", at_once, clip, differ);
            test_outcome_clear(&is);
            test_trainer_close(&t);
        }
        test_outcome_clear(&want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),       cmocka_unit_test(test_bf16),      cmocka_unit_test(test_few_microbatches),
        cmocka_unit_test(test_reference), cmocka_unit_test(test_clip),      cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_recompute), cmocka_unit_test(test_delays),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
