// test_init.c - initial weights: moments of each distribution, and that they depend on seed, name and element alone.
#include "base/numbers.h"
#include "train/store.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 20000 };
static float a[N], b[N];

static void fill(float *x, int64_t n, int32_t init, double scale, uint64_t seed, const char *name) {
    ppl_param_spec spec = {.init = init, .a = scale};
    ppl_init_fill(x, PPL_F32, n, &spec, seed, name);
}

static void moments(double *mean, double *variance, double *correlation) {
    *mean = *variance = *correlation = 0;
    for (int i = 0; i < N; i++) *mean += a[i] / (double)N;
    for (int i = 0; i < N; i++) *variance += pow(a[i] - *mean, 2) / N;
    for (int i = 0; i + 1 < N; i++) *correlation += (a[i] - *mean) * (a[i + 1] - *mean) / N / *variance;
}

static void test_constants(void **state) {
    (void)state;
    fill(a, N, PPL_INIT_ONES, 0, 1, "w");
    for (int i = 0; i < N; i++) assert_true(a[i] == 1);
    fill(a, N, PPL_INIT_ZEROS, 3, 1, "w");
    for (int i = 0; i < N; i++) assert_true(a[i] == 0);
}

static void test_normal(void **state) {
    (void)state;
    fill(a, N, PPL_INIT_NORMAL, 0.02, 1, "w");
    double mean, variance, correlation, fourth = 0;
    moments(&mean, &variance, &correlation);
    for (int i = 0; i < N; i++) fourth += pow(a[i] / 0.02, 4) / N;
    assert_true(fabs(mean) < 5 * 0.02 / sqrt(N));
    assert_true(fabs(sqrt(variance) - 0.02) < 0.02 * 5 / sqrt(2.0 * N));
    assert_true(fabs(correlation) < 5 / sqrt(N));
    assert_true(fabs(fourth - 3) < 5 * sqrt(96.0 / N));
}

static void test_uniform(void **state) {
    (void)state;
    fill(a, N, PPL_INIT_UNIFORM, 0.5, 1, "w");
    double mean, variance, correlation;
    for (int i = 0; i < N; i++) assert_true(a[i] >= -0.5f && a[i] < 0.5f);
    moments(&mean, &variance, &correlation);
    assert_true(fabs(mean) < 5 * sqrt(1.0 / 12 / N));
    assert_true(fabs(variance - 1.0 / 12) < 0.002);
    assert_true(fabs(correlation) < 5 / sqrt(N));
}

static int differing(int64_t n) {
    int count = 0;
    for (int64_t i = 0; i < n; i++) count += a[i] != b[i];
    return count;
}

static void test_keys(void **state) {
    (void)state;
    fill(a, N, PPL_INIT_NORMAL, 1, 1, "w");
    fill(b, N, PPL_INIT_NORMAL, 1, 1, "w");
    assert_int_equal(differing(N), 0);
    fill(b, 101, PPL_INIT_NORMAL, 1, 1, "w"); // an element does not depend on how many follow
    assert_int_equal(differing(101), 0);
    fill(b, N, PPL_INIT_NORMAL, 1, 2, "w");
    assert_true(differing(N) > N - 10);
    fill(b, N, PPL_INIT_NORMAL, 1, 1, "v");
    assert_true(differing(N) > N - 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
