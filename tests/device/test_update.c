// test_update.c - the optimizer's step: the reference device against closed forms, the cpu device against the reference on
// each instruction set of this machine, and the square sum behind the gradient norm.
#include "base/memory.h"
#include "base/random.h"
#include "device/cpu/cpu.h"
#include "device/device.h"
#include "support/interpret.h"
#include "train/optimizer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static ppl_device *open_device(const ppl_device_ops *ops, int32_t threads) {
    ppl_device *d;
    ppl_device_options options = {.threads = threads, .fail_task = -1, .stall_task = -1};
    if (ops->open(&options, &d) != PPL_OK) fail_msg("%s", ppl_error());
    return d;
}

static void near(double is, double want, double relative) {
    if (!(fabs(is - want) <= relative * fabs(want))) fail_msg("%.17g, want %.17g", is, want);
}

// With a constant gradient the corrected moments are g and g^2 at every step: w falls by lr (decay w + g / (|g| + eps)).
static void test_adamw(void **state) {
    (void)state;
    const ppl_optimizer_options o = {
        .kind = PPL_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.5};
    double w[2] = {1, -2}, m[2] = {0}, v[2] = {0}, g0[2] = {0.2, 4}, g1[2] = {0.3, 1}, want[2] = {1, -2};
    const void *grads[] = {g0, g1};
    ppl_device *d = open_device(&ppl_device_reference, 1);
    for (int64_t step = 0; step < 5; step++) {
        ppl_update u = {.n = 2, .weight = w, .moment1 = m, .moment2 = v, .weight_out = w, .moment1_out = m};
        u.moment2_out = v, u.grads = grads, u.uses = 2, u.dtype = PPL_F64, u.scale = 0.5;
        ppl_update_set(&u, &o, step, step, true);
        assert_int_equal(ppl_device_reference.update(d, &u, 0), PPL_OK);
        for (int i = 0; i < 2; i++) {
            double g = 0.5 * (g0[i] + g1[i]);
            want[i] -= 0.1 * (0.5 * want[i] + g / (fabs(g) + 1e-3));
            near(w[i], want[i], 1e-13);
        }
    }
    ppl_device_reference.close(d);
}

// The formula, step by step: weight decay is part of what the velocity gathers, as PyTorch has it.
static void test_sgd(void **state) {
    (void)state;
    const ppl_optimizer_options o = {.kind = PPL_SGD, .lr = 0.1, .momentum = 0.5, .weight_decay = 0.25};
    double w = 3, out = 0, velocity = 0, g = 2, want = 3, gathered = 0;
    const void *grads[] = {&g};
    ppl_bf16 copy = 0;
    ppl_device *d = open_device(&ppl_device_reference, 1);
    for (int64_t step = 0; step < 5; step++) {
        ppl_update u = {.n = 1, .weight = &w, .moment1 = &velocity, .weight_out = &out, .moment1_out = &velocity};
        u.grads = grads, u.uses = 1, u.dtype = PPL_F64, u.scale = 1, u.copy = &copy, u.copy_dtype = PPL_BF16;
        ppl_update_set(&u, &o, step, step, step != 2);
        double was = w;
        assert_int_equal(ppl_device_reference.update(d, &u, 0), PPL_OK);
        assert_true(w == was); // results went to weight_out alone
        gathered = 0.5 * gathered + g + (step != 2 ? 0.25 * want : 0);
        want -= 0.1 * gathered;
        near(out, want, 1e-13);
        near(ppl_bf16_to_f32(copy), want, 0x1p-8);
        w = out;
    }
    w = 3;
    ppl_update plain = {
        .n = 1, .weight = &w, .weight_out = &w, .grads = grads, .uses = 1, .dtype = PPL_F64, .scale = 1};
    ppl_update_set(&plain, &o, 0, 0, false);
    assert_int_equal(ppl_device_reference.update(d, &plain, 0), PPL_OK); // no moment: no momentum
    near(w, 3 - 0.1 * 2, 1e-13);
    ppl_device_reference.close(d);
}

enum { N = 40007, USES = 3 };
typedef struct arrays {
    float w[N], m[N], v[N], g[USES][N];
    ppl_bf16 copy[N];
} arrays;

static void fill(arrays *a) {
    for (int64_t i = 0; i < N; i++) {
        uint32_t word[4];
        ppl_philox(1, 0, (uint64_t)i, word);
        a->w[i] = ppl_unit(word[0]) - 0.5f;
        a->m[i] = ppl_unit(word[1]) - 0.5f;
        a->v[i] = ppl_unit(word[2]);
        for (int k = 0; k < USES; k++) a->g[k][i] = ppl_unit(word[3] * (uint32_t)(2 * k + 1)) - 0.5f;
    }
}

static ppl_update update_of(arrays *a, const ppl_optimizer_options *o, int64_t n, int32_t uses, const void **grads) {
    for (int k = 0; k < USES; k++) grads[k] = a->g[k];
    ppl_update u = {.n = n,
                    .weight = a->w,
                    .copy = a->copy,
                    .grads = grads,
                    .uses = uses,
                    .moment1 = a->m,
                    .moment2 = o->kind == PPL_ADAMW ? a->v : NULL,
                    .weight_out = a->w,
                    .moment1_out = a->m,
                    .moment2_out = a->v,
                    .dtype = PPL_F32,
                    .copy_dtype = PPL_BF16,
                    .scale = 0.7};
    ppl_update_set(&u, o, 4, 4, true);
    return u;
}

// One step of n numbers on a device, into a.
static void step_on(const ppl_device_ops *ops, int32_t threads, arrays *a, const ppl_optimizer_options *o, int64_t n,
                    int32_t uses, double *square) {
    const void *grads[USES];
    ppl_device *d = open_device(ops, threads);
    memset(a, 0, sizeof *a);
    fill(a);
    ppl_update u = update_of(a, o, n, uses, grads);
    assert_int_equal(ops->square_sum(d, grads, uses, PPL_F32, n, square), PPL_OK);
    assert_int_equal(ops->update(d, &u, 0), PPL_OK);
    ops->close(d);
}

static void alike(const float *is, const float *want, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(is[i] - want[i]) <= 1e-6f * scale)) fail_msg("[%d]: %.9g, want %.9g", (int)i, is[i], want[i]);
}

static void test_cpu(void **state) {
    if (ppl_cpu_isa_set(*state) != PPL_OK) {
        print_message("skipped: %s\n", ppl_error());
        skip();
    }
    const ppl_optimizer_options options[] = {
        {.kind = PPL_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
        {.kind = PPL_SGD, .lr = 0.01, .momentum = 0.9, .weight_decay = 0.1}};
    const int64_t sizes[] = {1, 3, 17, 1000, N};
    arrays *want = ppl_alloc(sizeof *want), *is = ppl_alloc(sizeof *is), *first = ppl_alloc(sizeof *first);
    for (int k = 0; k < 2; k++) {
        for (int s = 0; s < 5; s++) {
            int32_t uses = 1 + s % USES;
            double square_want, square, square_first;
            step_on(&ppl_device_reference, 1, want, &options[k], sizes[s], uses, &square_want);
            for (int32_t threads = 1; threads <= PPL_TEST_THREADS; threads++) {
                step_on(&ppl_device_cpu, threads, is, &options[k], sizes[s], uses, &square);
                alike(is->w, want->w, N, 1);
                alike(is->m, want->m, N, 3);
                alike(is->v, want->v, N, 3);
                for (int64_t i = 0; i < sizes[s]; i++)
                    assert_int_equal(is->copy[i], ppl_bf16_from_f32(is->w[i])); // rounded from the master
                for (int64_t i = sizes[s]; i < N; i++) assert_int_equal(is->copy[i], 0);
                near(square, square_want, 1e-6);
                if (threads == 1) memcpy(first, is, sizeof *first), square_first = square;
                assert_memory_equal(is, first, sizeof *first); // the same bits for any number of threads
                assert_true(square == square_first);
            }
        }
    }
    ppl_free(want), ppl_free(is), ppl_free(first);
}

// A parameter stepped in two calls, split anywhere, has the bits of one call.
static void test_cpu_split(void **state) {
    (void)state;
    const ppl_optimizer_options o = {
        .kind = PPL_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    const int64_t splits[] = {1, 15, 16, 4097, N - 1};
    arrays *want = ppl_alloc(sizeof *want), *is = ppl_alloc(sizeof *is);
    double square;
    step_on(&ppl_device_cpu, 1, want, &o, N, 2, &square);
    for (int s = 0; s < 5; s++) {
        const void *grads[USES];
        fill(is);
        ppl_update u = update_of(is, &o, splits[s], 2, grads);
        ppl_cpu_update(&u, 1);
        u.n = N - splits[s];
        u.weight = u.weight_out = is->w + splits[s], u.copy = is->copy + splits[s];
        u.moment1 = u.moment1_out = is->m + splits[s], u.moment2 = u.moment2_out = is->v + splits[s];
        for (int k = 0; k < 2; k++) grads[k] = is->g[k] + splits[s];
        ppl_cpu_update(&u, 1);
        assert_memory_equal(is, want, sizeof *is);
    }
    ppl_free(want), ppl_free(is);
}

static void test_cpu_refuses(void **state) {
    (void)state;
    ppl_device *d = open_device(&ppl_device_cpu, 1);
    double sum;
    assert_int_equal(ppl_device_cpu.square_sum(d, NULL, 0, PPL_F64, 0, &sum), PPL_ERR_DEVICE);
    assert_int_equal(ppl_device_cpu.update(d, &(ppl_update){.dtype = PPL_F64}, 0), PPL_ERR_DEVICE);
    ppl_device_cpu.close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sgd),
        {.name = "cpu avx2", .test_func = test_cpu, .initial_state = "avx2"},
        {.name = "cpu avx512", .test_func = test_cpu, .initial_state = "avx512"},
        cmocka_unit_test(test_cpu_split),
        cmocka_unit_test(test_cpu_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
