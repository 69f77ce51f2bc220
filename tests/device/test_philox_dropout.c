// test_philox_dropout.c - dropout on each instruction set of this machine against base/random.c, bit by bit: the mask is
// a function of seed, key, step, sample and element, whatever the shape, the microbatch and the number of threads.
#include "base/memory.h"
#include "base/random.h"
#include "device/cpu/cpu.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct trial {
    int64_t samples, rows, columns;
    double p;
    uint64_t seed, key;
    int64_t step, first_sample;
} trial;

static const trial trials[] = {
    {1, 1, 1, 0.5, 1, 2, 0, 0},
    {3, 1, 5, 0.1, 7, 0xffffffffffffffffull, 1, 0},
    {2, 3, 21, 0.9, 0, 0, 123456789, 40},
    {4, 33, 31, 0.25, 0x123456789abcdef0ull, 0x8000000000000001ull, 0x100000002, 1000000}, // step above 2^32
    {2, 5, 1024, 0.3, 5, 6, 7, (1 << 23) - 1},
    {3, 40, 257, 0.75, 5, 6, 7, 8}, // more than one stretch a sample, ends inside a vector
};

static ppl_kernel_spec spec_of(const trial *t, int32_t dtype, int32_t threads) {
    int64_t dim[3] = {t->samples, t->rows, t->columns};
    ppl_kernel_spec s = {.op = PPL_OP_DROPOUT, .inputs = 1, .outputs = 1, .threads = threads, .param_input = -1};
    s.attrs.f[0] = t->p, s.attrs.i[7] = (int64_t)t->key;
    s.in[0] = s.out[0] = ppl_type_make(dtype, 3, dim);
    return s;
}

static void run(const trial *t, int32_t dtype, int32_t threads, bool training, const void *x, void *y) {
    ppl_kernel_spec spec = spec_of(t, dtype, threads);
    ppl_call_env env = {.seed = t->seed, .step = t->step, .first_sample = t->first_sample, .training = training};
    ppl_call call = {.in = {x}, .out = {y}, .env = &env};
    ppl_kernel_needs needs = {0};
    void *state = NULL;
    const ppl_kernel *k = ppl_cpu_kernel(PPL_OP_DROPOUT);
    assert_int_equal(k->prepare(&spec, &needs, &state), PPL_OK);
    assert_int_equal(needs.scratch, 0);
    assert_int_equal(k->run(&spec, state, &call), PPL_OK);
    k->free(state);
}

// By the contract's own words.
static bool kept(const trial *t, int64_t sample, int64_t e) {
    uint32_t word[4];
    uint64_t n = (uint64_t)(t->first_sample + sample);
    ppl_philox(ppl_mix_key(t->seed, t->key), (uint64_t)t->step, n << 40 | (uint64_t)e >> 2, word);
    return word[e & 3] >= (uint32_t)(t->p * 4294967296.0);
}

static int64_t numbers(const trial *t) {
    return t->samples * t->rows * t->columns;
}

static void fill(void *x, int32_t dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) ppl_number_set(x, dtype, i, (double)(i % 1000 + 1) / 100);
}

static void check(const trial *t, int32_t dtype, const void *x, const void *y) {
    int64_t size = t->rows * t->columns;
    float scale = (float)(1 / (1 - t->p));
    for (int64_t i = 0; i < numbers(t); i++) {
        float want = kept(t, i / size, i % size) ? (float)ppl_number_get(x, dtype, i) * scale : 0;
        if (dtype == PPL_BF16) assert_int_equal(((const ppl_bf16 *)y)[i], ppl_bf16_from_f32(want));
        else assert_memory_equal((const float *)y + i, &want, 4);
    }
}

static bool choose(const char *isa) {
    if (ppl_cpu_isa_set(isa) == PPL_OK) return true;
    print_message("skipped: %s\n", ppl_error());
    return false;
}

static void test_mask(void **state) {
    if (!choose(*state)) skip();
    for (size_t k = 0; k < sizeof trials / sizeof *trials; k++) {
        const trial *t = &trials[k];
        for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++) {
            size_t bytes = (size_t)numbers(t) * ppl_dtype_size(dtype);
            char *x = malloc(bytes), *y = malloc(bytes + 1);
            fill(x, dtype, numbers(t));
            for (int32_t threads = 1; threads <= 3; threads++) {
                memset(y, 0x55, bytes + 1);
                run(t, dtype, threads, true, x, y);
                check(t, dtype, x, y);
                assert_int_equal(y[bytes], 0x55);
            }
            run(t, dtype, 1, false, x, y);
            assert_memory_equal(x, y, bytes); // the identity when not training
            free(x), free(y);
        }
    }
}

// Two microbatches of one sample give what one of two samples does.
static void test_microbatches(void **state) {
    if (!choose(*state)) skip();
    trial both = {2, 7, 100, 0.4, 11, 12, 13, 14}, one = both;
    one.samples = 1;
    float x[1400], y[1400], part[1400];
    fill(x, PPL_F32, 1400);
    run(&both, PPL_F32, 1, true, x, y);
    run(&one, PPL_F32, 1, true, x, part);
    one.first_sample++;
    run(&one, PPL_F32, 1, true, x + 700, part + 700);
    assert_memory_equal(y, part, sizeof y);
}

// About 1 - p are kept, and a mask changes with each thing that it is keyed by.
static void test_share(void **state) {
    if (!choose(*state)) skip();
    enum { N = 100000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *z = malloc(N * sizeof *z);
    for (int i = 0; i < N; i++) x[i] = 1;
    const trial base = {1, 1, N, 0.2, 1, 2, 3, 4};
    run(&base, PPL_F32, 1, true, x, y);
    int count = 0;
    for (int i = 0; i < N; i++) count += y[i] != 0;
    assert_in_range(count, (int)(0.795 * N), (int)(0.805 * N)); // 4 standard deviations are 0.005
    for (int k = 0; k < 4; k++) {
        trial t = base;
        t.seed += k == 0, t.key += k == 1, t.step += k == 2, t.first_sample += k == 3;
        run(&t, PPL_F32, 1, true, x, z);
        count = 0;
        for (int i = 0; i < N; i++) count += (y[i] != 0) == (z[i] != 0);
        assert_in_range(count, (int)(0.67 * N), (int)(0.69 * N)); // 0.8^2 + 0.2^2
    }
    free(x), free(y), free(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {.name = "mask avx2", .test_func = test_mask, .initial_state = "avx2"},
        {.name = "mask avx512", .test_func = test_mask, .initial_state = "avx512"},
        {.name = "microbatches avx2", .test_func = test_microbatches, .initial_state = "avx2"},
        {.name = "microbatches avx512", .test_func = test_microbatches, .initial_state = "avx512"},
        {.name = "share avx2", .test_func = test_share, .initial_state = "avx2"},
        {.name = "share avx512", .test_func = test_share, .initial_state = "avx512"},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
