// test_optimizer.c - learning rates at the corners of each schedule, the numbers of an update, clipping and refusals.
#include "train/optimizer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-15 + 1e-12 * fabs(b))) fail_msg("%.17g, want %.17g", a, b);
}

static const ppl_optimizer_options adamw = {.kind = PPL_ADAMW,
                                            .decay = PPL_LR_COSINE,
                                            .lr = 1.0,
                                            .min_lr = 0.1,
                                            .warmup = 4,
                                            .steps = 14,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .eps = 1e-8,
                                            .weight_decay = 0.2};

static void test_rates(void **state) {
    (void)state;
    ppl_optimizer_options o = adamw;
    near(ppl_lr(&o, 0), 0.25); // warm-up never gives a step of zero
    near(ppl_lr(&o, 3), 1.0);
    near(ppl_lr(&o, 4), 1.0);
    near(ppl_lr(&o, 9), 0.55); // half way
    near(ppl_lr(&o, 14), 0.1);
    near(ppl_lr(&o, 1000), 0.1);
    assert_true(ppl_lr(&o, 6) > 1 - 0.9 * 0.2); // a cosine starts slower than a line
    o.decay = PPL_LR_LINEAR;
    near(ppl_lr(&o, 6), 1 - 0.9 * 0.2);
    near(ppl_lr(&o, 14), 0.1);
    o.decay = PPL_LR_CONSTANT;
    near(ppl_lr(&o, 1), 0.5);
    near(ppl_lr(&o, 1000), 1.0);
    o.warmup = 0;
    near(ppl_lr(&o, 0), 1.0);
}

static void test_update_numbers(void **state) {
    (void)state;
    ppl_update u = {0};
    ppl_update_set(&u, &adamw, 1, 1, true);
    assert_int_equal(u.kind, PPL_ADAMW);
    near(u.lr, 0.5);
    near(u.bias1, 1 - 0.81);
    near(u.bias2, 1 - 0.9801);
    near(u.decay, 0.2);
    ppl_update_set(&u, &adamw, 1, 1, false);
    near(u.decay, 0);
}

static void test_clip(void **state) {
    (void)state;
    ppl_optimizer_options o = adamw;
    near(ppl_clip_scale(&o, 1e9), 1); // off
    o.clip = PPL_CLIP_BEFORE, o.clip_norm = 2;
    near(ppl_clip_scale(&o, 1), 1);
    near(ppl_clip_scale(&o, 8), 2 / (8 + 1e-6));
}

// A refusal must name what it refuses.
static void refuses(const ppl_optimizer_options *o, const char *word) {
    assert_int_equal(ppl_optimizer_check(o), PPL_ERR_ARG);
    if (!strstr(ppl_error(), word)) fail_msg("\"%s\" does not name %s", ppl_error(), word);
}

static void test_refusals(void **state) {
    (void)state;
    assert_int_equal(ppl_optimizer_check(&adamw), PPL_OK);
    ppl_optimizer_options o = adamw;
    o.kind = 9, refuses(&o, "kind"), o = adamw;
    o.decay = -1, refuses(&o, "decay"), o = adamw;
    o.clip = 7, refuses(&o, "clip"), o = adamw;
    o.lr = NAN, refuses(&o, "lr"), o = adamw;
    o.lr = -1, refuses(&o, "lr"), o = adamw;
    o.min_lr = 2, refuses(&o, "min_lr"), o = adamw;
    o.warmup = -1, refuses(&o, "warmup"), o = adamw;
    o.steps = 4, refuses(&o, "warmup"), o = adamw;
    o.beta1 = 1, refuses(&o, "beta1"), o = adamw;
    o.beta2 = -0.1, refuses(&o, "beta2"), o = adamw;
    o.eps = INFINITY, refuses(&o, "eps"), o = adamw;
    o.weight_decay = -1, refuses(&o, "weight_decay"), o = adamw;
    o.clip = PPL_CLIP_AFTER, refuses(&o, "clip_norm"), o = adamw;
    o.kind = PPL_SGD, o.momentum = 1, refuses(&o, "momentum");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_update_numbers),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
