// test_vec.c - 16-lane vectors on AVX2: exp, tanh, the normal distribution and the activations against f64, rounding to
// bf16, partial loads and stores, sums over lanes. test_vec_avx512.c is the same on AVX-512. That both give the same bits
// is judged by hashes of all results, which are written down here: they stand for either.
#include "base/numbers.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#pragma GCC push_options
#ifdef TEST_VEC_AVX512
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#include "device/cpu/act.h"

// ---- functions of one number

typedef enum function {
    EXP = 0,
    TANH,
    NORMAL,
    DENSITY,
    RELU,
    GELU_TANH,
    GELU_ERF,
    SILU,
    RELU_SLOPE,
    GELU_TANH_SLOPE,
    GELU_ERF_SLOPE,
    SILU_SLOPE,
    FUNCTIONS
} function;

static v16 compute(function f, v16 x) {
    v16 other;
    switch (f) {
    case EXP: return v16_exp(x);
    case TANH: return v16_tanh(x);
    case NORMAL: return v16_normal(x, &other);
    case DENSITY: v16_normal(x, &other); return other;
    case RELU: return ppl_act_apply(PPL_ACT_RELU, x);
    case GELU_TANH: return ppl_act_apply(PPL_ACT_GELU_TANH, x);
    case GELU_ERF: return ppl_act_apply(PPL_ACT_GELU_ERF, x);
    case SILU: return ppl_act_apply(PPL_ACT_SILU, x);
    case RELU_SLOPE: return ppl_act_slope(PPL_ACT_RELU, x);
    case GELU_TANH_SLOPE: return ppl_act_slope(PPL_ACT_GELU_TANH, x);
    case GELU_ERF_SLOPE: return ppl_act_slope(PPL_ACT_GELU_ERF, x);
    case SILU_SLOPE: return ppl_act_slope(PPL_ACT_SILU, x);
    case FUNCTIONS: break;
    }
    return x;
}

static double normal(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2);
}
static double density(double x) {
    return exp(-0.5 * x * x) / sqrt(2 * M_PI);
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double gelu_argument(double x) {
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

static double exact(function f, double x) {
    double s;
    switch (f) {
    case EXP: return exp(x);
    case TANH: return tanh(x);
    case NORMAL: return normal(x);
    case DENSITY: return density(x);
    case RELU: return x <= 0 ? 0 : x;
    case GELU_TANH: return x * sigmoid(gelu_argument(x));
    case GELU_ERF: return x * normal(x);
    case SILU: return x * sigmoid(x);
    case RELU_SLOPE: return x > 0;
    case GELU_TANH_SLOPE:
        if (fabs(x) > 100) return x > 0;
        s = sigmoid(gelu_argument(x));
        return s + x * s * sigmoid(-gelu_argument(x)) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    case GELU_ERF_SLOPE: return fabs(x) > 100 ? x > 0 : normal(x) + x * density(x);
    case SILU_SLOPE:
        if (fabs(x) > 1000) return x > 0;
        s = sigmoid(x);
        return s + x * s * sigmoid(-x);
    case FUNCTIONS: break;
    }
    return x;
}

// The error allowed: in units in the last place of the result, plus an absolute one (results near 0 are differences, or
// would be denormal).
static const struct {
    const char *name;
    double ulps, absolute;
    uint64_t bits; // hash of the results over all samples
} functions[FUNCTIONS] = {
    [EXP] = {"exp", 1, 0x1p-125, 0xdb67e3c71dc03d87},
    [TANH] = {"tanh", 2.6, 0, 0x17d481526cfbeb01},
    [NORMAL] = {"normal", 6.5, 0x1p-123, 0x2e78fb62009923c6},
    [DENSITY] = {"density", 4, 0x1p-123, 0xe1ae7285451dfd3f},
    [RELU] = {"relu", 0, 0, 0x3af11ae427cb7da2},
    [GELU_TANH] = {"gelu_tanh", 4, 1e-7, 0xff1b686fb13a3fba},
    [GELU_ERF] = {"gelu_erf", 8, 0x1p-119, 0xbaf542dc000aa25a},
    [SILU] = {"silu", 3, 1e-36, 0x7f00c0d1382d6020},
    [RELU_SLOPE] = {"relu slope", 0, 0, 0x7ce58f1fc000000},
    [GELU_TANH_SLOPE] = {"gelu_tanh slope", 2, 2e-7, 0x339ef8e4b20268d1},
    [GELU_ERF_SLOPE] = {"gelu_erf slope", 2, 3e-7, 0x5f8d7f926b6bfccf},
    [SILU_SLOPE] = {"silu slope", 2, 2e-7, 0x8b5c6e31ff6cc720},
};

static double ulp(double x) { // of f32 at x
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static void check(function f, float x, float is) {
    double want = exact(f, (double)x);
    bool right = fabs((double)is - want) <= functions[f].ulps * ulp(want) + functions[f].absolute;
    if (isnan(want)) right = isnan(is) || (f != EXP && isinf(x)); // -inf times 0: NaN, or its limit 0
    else if (fabs(want) >= 0x1.ffffffp127) right = isinf(is) && (is > 0) == (want > 0);
    if (!right) fail_msg("%s(%.9g) is %.9g, want %.9g", functions[f].name, (double)x, (double)is, want);
}

// 16 bit patterns from u on, `stride` apart.
static v16 sample(uint32_t u, uint32_t stride, float x[16]) {
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t bits = u + i * stride;
        memcpy(&x[i], &bits, 4);
    }
    return v16_load(x);
}

// Over all f32 in steps, NaN, inf and denormals among them.
static void test_functions(void **state) {
    (void)state;
    uint32_t stride = getenv("PPL_TEST_FULL") ? 61 : 4093; // prime
    float x[16], y[16];
    for (function f = 0; f < FUNCTIONS; f++) {
        for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 16 * (uint64_t)stride) {
            v16_store(y, compute(f, sample((uint32_t)u, stride, x)));
            for (int i = 0; i < 16; i++) check(f, x[i], y[i]);
        }
    }
}

static uint64_t hash(uint64_t h, const void *data, size_t bytes) { // FNV-1a by words
    uint32_t word;
    for (size_t i = 0; i < bytes; i += 4) {
        memcpy(&word, (const char *)data + i, 4);
        h = (h ^ word) * 0x100000001b3ull;
    }
    return h;
}

// The same bits on every instruction set. NaN is left out: which one comes out is nobody's promise.
static void test_function_bits(void **state) {
    (void)state;
    enum { STRIDE = 40009 };
    int wrong = 0;
    float x[16], y[16];
    for (function f = 0; f < FUNCTIONS; f++) {
        uint64_t h = 0;
        for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 16 * STRIDE) {
            v16_store(y, compute(f, sample((uint32_t)u, STRIDE, x)));
            for (int i = 0; i < 16; i++) y[i] = isnan(y[i]) ? 0 : y[i];
            h = hash(h, y, sizeof y);
        }
        if (h == functions[f].bits) continue;
        print_error("%s: bits hash to 0x%llx, want 0x%llx\n", functions[f].name, (unsigned long long)h,
                    (unsigned long long)functions[f].bits);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static float lane(v16 x, int i) {
    float y[16];
    v16_store(y, x);
    return y[i];
}

static void test_special(void **state) {
    (void)state;
    v16 other, inf = v16_set(INFINITY), minus = v16_set(-INFINITY), nan = v16_set(NAN), zero = v16_set(0.0f);
    assert_true(lane(v16_exp(zero), 3) == 1);
    assert_true(lane(v16_exp(inf), 3) == INFINITY && lane(v16_exp(v16_set(88.73f)), 15) == INFINITY);
    assert_true(isfinite(lane(v16_exp(v16_set(88.72f)), 15)));
    assert_true(lane(v16_exp(minus), 0) == 0 && lane(v16_exp(v16_set(-1e30f)), 0) == 0);
    assert_true(lane(v16_exp(v16_set(1e-45f)), 9) == 1); // denormal argument
    assert_true(lane(v16_tanh(inf), 1) == 1 && lane(v16_tanh(minus), 1) == -1 && lane(v16_tanh(zero), 1) == 0);
    assert_true(lane(v16_tanh(v16_set(1e-45f)), 1) == 1e-45f); // what is that small is its own tanh
    assert_true(lane(v16_normal(inf, &other), 1) == 1 && lane(other, 1) == 0);
    assert_true(lane(v16_normal(minus, &other), 1) == 0 && lane(other, 1) == 0);
    assert_true(fabsf(lane(v16_normal(zero, &other), 8) - 0.5f) <= 2e-7f);
    uint32_t odd = 0x7f800001u; // a signalling NaN whose mantissa is almost 0
    float x;
    memcpy(&x, &odd, 4);
    for (function f = 0; f < FUNCTIONS; f++) {
        if (f == RELU_SLOPE) continue;
        assert_true(isnan(lane(compute(f, nan), 5)) && isnan(lane(compute(f, v16_set(x)), 5)));
    }
}

// ---- memory

static void test_bf16(void **state) {
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xcdef};
    for (uint32_t high = 0; high < 0x10000; high += 16) {
        for (size_t k = 0; k < sizeof low / sizeof *low; k++) {
            float x[16], back[16], as[16];
            ppl_bf16 y[16];
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t u = (high + i) << 16 | low[k];
                memcpy(&x[i], &u, 4);
            }
            v16_store_bf16(y, v16_load(x));
            v16_store(back, v16_load_bf16(y));
            v16_store(as, v16_as_bf16(v16_load(x)));
            for (int i = 0; i < 16; i++) {
                assert_int_equal(y[i], ppl_bf16_from_f32(x[i]));
                float want = ppl_bf16_to_f32(y[i]);
                assert_memory_equal(&back[i], &want, 4);
            }
            assert_memory_equal(as, back, sizeof as);
        }
    }
}

// Lanes beyond n read as 0, and nothing beyond n is written.
static void test_parts(void **state) {
    (void)state;
    for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++) {
        for (int n = 0; n <= 16; n++) {
            size_t size = ppl_dtype_size(dtype);
            char *in = malloc((size_t)n * size + 1), out[17 * 4], want[17 * 4]; // exact: checkers see a read too far
            float x[16];
            for (int i = 0; i < n; i++) ppl_number_set(in, dtype, i, i + 1);
            v16 v = v16_get(in, dtype, 0, n);
            v16_store(x, v);
            for (int i = 0; i < 16; i++) assert_true(x[i] == (i < n ? (float)(i + 1) : 0));
            memset(out, 0x55, sizeof out), memset(want, 0x55, sizeof want);
            memcpy(want, in, (size_t)n * size);
            v16_put(out, dtype, 0, v, n);
            assert_memory_equal(out, want, sizeof out);
            free(in);
        }
    }
}

// ---- lanes

static void test_lanes(void **state) {
    (void)state;
    float x[16], fold[16];
    double wide[16];
    uint64_t seed = 1;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 16; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            x[i] = ldexpf((float)(int32_t)(seed >> 32), -40 + (int)(seed & 15));
        }
        float max = x[0];
        for (int i = 1; i < 16; i++) max = x[i] > max ? x[i] : max;
        assert_true(v16_largest(v16_load(x)) == max);
        for (int i = 0; i < 16; i++) fold[i] = x[i], wide[i] = (double)x[i] * x[i] + x[i];
        for (int step = 8; step; step /= 2) // 8 + 8, 4 + 4, 2 + 2, 1 + 1
            for (int i = 0; i < step; i++) fold[i] += fold[i + step], wide[i] += wide[i + step];
        assert_true(v16_sum(v16_load(x)) == fold[0]);
        d16 d = v16_widen(v16_load(x));
        assert_true(d16_sum(d16_fma(d, d, d16_add(d, d16_zero()))) == wide[0]);
    }
}

static void test_choices(void **state) {
    (void)state;
    const float x[16] = {0, 1, -1, NAN, 2, INFINITY, -INFINITY, -0.0f, 5, 6, 7, 8, 9, 10, 11, 12};
    const float y[16] = {0, 2, -2, 1, NAN, INFINITY, 1, 0, 4, 7, 7, 9, 8, 10, 12, 11};
    v16 a = v16_load(x), b = v16_load(y), one = v16_set(1.0f), two = v16_set(2.0f);
    for (int i = 0; i < 16; i++) {
        bool less = x[i] < y[i];
        assert_true(lane(v16_select(v16_less(a, b), one, two), i) == (less ? 1 : 2));
        assert_true(lane(v16_select(v16_not_less(a, b), one, two), i) == (less ? 2 : 1));
        assert_true(lane(v16_keep(v16_isnan(a), one), i) == (isnan(x[i]) ? 1 : 0));
        float max = x[i] > y[i] ? x[i] : y[i], min = x[i] < y[i] ? x[i] : y[i];
        float is = lane(v16_max(a, b), i);
        assert_memory_equal(&is, &max, 4);
        is = lane(v16_min(a, b), i);
        assert_memory_equal(&is, &min, 4);
    }
    const uint32_t p[16] = {0, 1, 0x7fffffff, 0x80000000u, 0xffffffffu, 5},
                   q[16] = {1, 1, 0x80000000u, 0x7fffffff, 0, 6};
    for (int i = 0; i < 6; i++)
        assert_true(lane(v16_keep(w16_less(w16_load(p), w16_load(q)), one), i) == (p[i] < q[i] ? 1 : 0));
}
#pragma GCC pop_options

static bool missing(void) {
#ifdef TEST_VEC_AVX512
    bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    bool has = true;
#endif
    return !(has && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"));
}

static void test_skipped(void **state) {
    (void)state;
    print_message("skipped: this CPU lacks the instruction set\n");
    skip();
}

int main(void) {
    const struct CMUnitTest none[] = {cmocka_unit_test(test_skipped)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions), cmocka_unit_test(test_function_bits), cmocka_unit_test(test_special),
        cmocka_unit_test(test_bf16),      cmocka_unit_test(test_parts),         cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_choices),
    };
    if (missing()) return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
