// test_isa.c - kernels of the cpu device give the same bits on every instruction set and for any number of threads, store
// nothing beyond their outputs, and refuse ids that are out of range. Products are left out: oneDNN promises less.
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/rope_table.h"
#include "ops/op.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

// Inputs by letter: x (B, T, C), r (T, C), c (C), o one number, w (40, C) of the graph's dtype; s the seed, 1 and 2
// statistics (B, T) and (B, T, 2), in f32; i ids below 40, t targets below C and -1.
typedef struct entry {
    int32_t op;
    const char *inputs;
    ppl_attrs attrs;
} entry;

static const entry entries[] = {
    {PPL_OP_ADD, "xx", {{0}, {0}}},
    {PPL_OP_ADD, "xr", {{0}, {0}}},
    {PPL_OP_MUL, "xc", {{0}, {0}}},
    {PPL_OP_MUL, "xo", {{0}, {0}}},
    {PPL_OP_SCALE, "x", {{0}, {-0.3}}},
    {PPL_OP_EMBEDDING, "iw", {{0}, {0}}},
    {PPL_OP_LAYERNORM, "xcc", {{0}, {1e-5}}},
    {PPL_OP_RMSNORM, "xc", {{0}, {1e-5}}},
    {PPL_OP_ROPE, "x", {{6, 1, 0}, {100}}},
    {PPL_OP_ROPE, "x", {{6, 1, 1}, {100}}},
    {PPL_OP_ACT, "x", {{PPL_ACT_RELU}, {0}}},
    {PPL_OP_ACT, "x", {{PPL_ACT_GELU_TANH}, {0}}},
    {PPL_OP_ACT, "x", {{PPL_ACT_GELU_ERF}, {0}}},
    {PPL_OP_ACT, "x", {{PPL_ACT_SILU}, {0}}},
    {PPL_OP_SOFTMAX, "x", {{0}, {0}}},
    {PPL_OP_DROPOUT, "x", {{0, 0, 0, 0, 0, 0, 0, 99}, {0.2}}},
    {PPL_OP_TRANSPOSE, "x", {{0, 1}, {0}}},
    {PPL_OP_TRANSPOSE, "x", {{0, 2}, {0}}},
    {PPL_OP_TRANSPOSE, "x", {{2, 1}, {0}}},
    {PPL_OP_SLICE, "x", {{1, 1, 2}, {0}}},
    {PPL_OP_SLICE, "x", {{2, 3, 3}, {0}}},
    {PPL_OP_CONCAT, "xxx", {{1}, {0}}},
    {PPL_OP_CROSS_ENTROPY, "xt", {{0}, {0}}},
    {PPL_OP_MSE, "xx", {{0}, {0}}},
    {PPL_OP_REDUCE, "x", {{0}, {0}}},
    {PPL_OP_REDUCE, "x", {{1}, {0}}},
    {PPL_OP_REDUCE, "x", {{2}, {0}}},
    {PPL_OP_ACT_GRAD, "xx", {{PPL_ACT_RELU}, {0}}},
    {PPL_OP_ACT_GRAD, "xx", {{PPL_ACT_GELU_TANH}, {0}}},
    {PPL_OP_ACT_GRAD, "xx", {{PPL_ACT_GELU_ERF}, {0}}},
    {PPL_OP_ACT_GRAD, "xx", {{PPL_ACT_SILU}, {0}}},
    {PPL_OP_EMBEDDING_DW, "ix", {{40}, {0}}},
    {PPL_OP_LAYERNORM_DX, "xxc2", {{0}, {0}}},
    {PPL_OP_LAYERNORM_DW, "xx2", {{0}, {0}}},
    {PPL_OP_RMSNORM_DX, "xxc1", {{0}, {0}}},
    {PPL_OP_RMSNORM_DW, "xx1", {{0}, {0}}},
    {PPL_OP_SOFTMAX_GRAD, "xx", {{0}, {0}}},
    {PPL_OP_PAD, "x", {{1, 2, 400}, {0}}},
    {PPL_OP_CROSS_ENTROPY_GRAD, "sxt1", {{0}, {0}}},
    {PPL_OP_MSE_GRAD, "sxx", {{0}, {0}}},
    {PPL_OP_ACCUMULATE, "x", {{0}, {0}}},
};

// Small with tails, one vector wide, and large enough for several threads; C divides by rope's 6.
static const int64_t shapes[][3] = {{2, 3, 6}, {3, 5, 48}, {2, 170, 150}, {1, 25, 2100}};

static ppl_type type_of(char letter, const int64_t b[3], int32_t dtype) {
    int64_t two[3] = {b[0], b[1], 2}, w[2] = {40, b[2]};
    switch (letter) {
    case 'x': return ppl_type_make(dtype, 3, b);
    case 'r': return ppl_type_make(dtype, 2, b + 1);
    case 'c': return ppl_type_make(dtype, 1, b + 2);
    case 'o': return ppl_type_make(dtype, 0, NULL);
    case 'w': return ppl_type_make(dtype, 2, w);
    case 's': return ppl_type_make(PPL_F32, 0, NULL);
    case '1': return ppl_type_make(PPL_F32, 2, b);
    case '2': return ppl_type_make(PPL_F32, 3, two);
    default: return ppl_type_make(PPL_I32, 2, b);
    }
}

static void fill(void *data, const ppl_type *t, char letter, int64_t columns, uint64_t *seed) {
    int64_t n = ppl_type_elements(t);
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t word = (uint32_t)(*seed >> 32);
        if (letter == 'i') ((int32_t *)data)[i] = (int32_t)(word % 40);
        else if (letter == 't') ((int32_t *)data)[i] = (int32_t)(word % (uint32_t)(columns + 1)) - 1;
        else ppl_number_set(data, t->dtype, i, (double)(int32_t)word * 0x1p-30 + (letter == '1' || letter == '2'));
    }
}

typedef struct job {
    ppl_kernel_spec spec;
    ppl_call call;
    size_t bytes[PPL_MAX_OUTPUTS];
} job;

static void open_job(job *j, const entry *e, const int64_t shape[3], int32_t dtype) {
    uint64_t seed = 42;
    memset(j, 0, sizeof *j);
    j->spec =
        (ppl_kernel_spec){.op = e->op, .inputs = (int32_t)strlen(e->inputs), .attrs = e->attrs, .param_input = -1};
    j->spec.accumulates = (ppl_op_get(e->op)->flags & PPL_OP_ACCUMULATES) != 0;
    ppl_op_types t = {.inputs = j->spec.inputs, .attrs = &j->spec.attrs, .acc_dtype = PPL_F32};
    t.accumulates = j->spec.accumulates;
    for (int32_t k = 0; k < j->spec.inputs; k++) {
        j->spec.in[k] = type_of(e->inputs[k], shape, dtype);
        t.in[k] = &j->spec.in[k];
        void *data = malloc(ppl_type_bytes(t.in[k])); // exact: checkers see a read too far
        fill(data, t.in[k], e->inputs[k], shape[2], &seed);
        j->call.in[k] = data;
    }
    if (ppl_op_get(e->op)->infer(&t, j->spec.out, &j->spec.outputs) != PPL_OK) fail_msg("%s", ppl_error());
    for (int32_t k = 0; k < j->spec.outputs; k++) {
        j->bytes[k] = ppl_type_bytes(&j->spec.out[k]);
        j->call.out[k] = malloc(j->bytes[k] + 1);
        memset(j->call.out[k], 0x3f, j->bytes[k] + 1);
    }
}

static void close_job(job *j) {
    for (int32_t k = 0; k < j->spec.inputs; k++) free((void *)j->call.in[k]);
    for (int32_t k = 0; k < j->spec.outputs; k++) free(j->call.out[k]);
}

static ppl_status run_job(job *j, const char *isa, int32_t threads) {
    static const ppl_call_env env = {.seed = 3, .step = 4, .first_sample = 5, .training = true};
    assert_int_equal(ppl_cpu_isa_set(isa), PPL_OK);
    const ppl_kernel *kernel = ppl_cpu_kernel(j->spec.op);
    assert_non_null(kernel);
    assert_string_equal(kernel->name, ppl_op_name(j->spec.op));
    ppl_kernel_needs needs = {0};
    void *state = NULL;
    j->spec.threads = threads;
    assert_int_equal(kernel->prepare(&j->spec, &needs, &state), PPL_OK);
    j->call.env = &env;
    j->call.scratch = needs.scratch ? malloc(needs.scratch) : NULL;
    if (needs.scratch) memset(j->call.scratch, 0x7f, needs.scratch); // NaN, if it were read
    ppl_status st = kernel->run(&j->spec, state, &j->call);
    free(j->call.scratch);
    kernel->free(state);
    for (int32_t k = 0; k < j->spec.outputs; k++) assert_int_equal(((char *)j->call.out[k])[j->bytes[k]], 0x3f);
    return st;
}

// Once = and, where it accumulates, once +=.
static void run_fully(job *j, const char *isa, int32_t threads) {
    for (int add = 0; add <= j->spec.accumulates; add++) {
        j->call.add = add;
        if (run_job(j, isa, threads) != PPL_OK) fail_msg("%s: %s", ppl_op_name(j->spec.op), ppl_error());
    }
}

static void compare(const entry *e, const int64_t shape[3], int32_t dtype, const char *isa, int32_t least,
                    int32_t most) {
    job want, is;
    open_job(&want, e, shape, dtype);
    open_job(&is, e, shape, dtype);
    run_fully(&want, "avx2", 1);
    for (int32_t threads = least; threads <= most; threads++) {
        run_fully(&is, isa, threads);
        for (int32_t k = 0; k < want.spec.outputs; k++) {
            if (memcmp(want.call.out[k], is.call.out[k], want.bytes[k]) == 0) continue;
            fail_msg("%s (%s) %s (%d, %d, %d), %s with %d threads: output %d has other bits than avx2 with 1 thread",
                     ppl_op_name(e->op), e->inputs, ppl_dtype_name(dtype), (int)shape[0], (int)shape[1], (int)shape[2],
                     isa, threads, k);
        }
    }
    close_job(&want), close_job(&is);
}

static void compare_all(const char *isa, int32_t least, int32_t most) {
    if (ppl_cpu_isa_set(isa) != PPL_OK) {
        print_message("skipped: %s\n", ppl_error());
        skip();
    }
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++)
                compare(&entries[k], shapes[s], dtype, isa, least, most);
}

static void test_threads(void **state) {
    (void)state;
    compare_all("avx2", 2, 3);
}
static void test_instruction_sets(void **state) {
    (void)state;
    compare_all("avx512", 1, 2);
}

// A bad id is told with its position, and nothing was written.
static void test_ids(void **state) {
    (void)state;
    static const struct {
        int32_t op;
        const char *inputs;
        int32_t input, id;
        ppl_attrs attrs;
        const char *error;
    } bad[] = {
        {PPL_OP_EMBEDDING, "iw", 0, 40, {{0}, {0}}, "embedding: id 40 at position 4, want 0..39"},
        {PPL_OP_EMBEDDING, "iw", 0, -1, {{0}, {0}}, "embedding: id -1 at position 4, want 0..39"},
        {PPL_OP_EMBEDDING_DW, "ix", 0, 41, {{40}, {0}}, "embedding: id 41 at position 4, want 0..39"},
        {PPL_OP_CROSS_ENTROPY, "xt", 1, 6, {{0}, {0}}, "cross_entropy: target 6 at position 4, want below 6"},
        {PPL_OP_CROSS_ENTROPY_GRAD, "sxt1", 2, 7, {{0}, {0}}, "cross_entropy: target 7 at position 4, want below 6"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        job j;
        open_job(&j, &(entry){bad[k].op, bad[k].inputs, bad[k].attrs}, shapes[0], PPL_F32);
        ((int32_t *)j.call.in[bad[k].input])[4] = bad[k].id;
        assert_int_equal(run_job(&j, "avx2", 1), PPL_ERR_DATA);
        assert_string_equal(ppl_error(), bad[k].error);
        for (size_t i = 0; i < j.bytes[0]; i++) assert_int_equal(((char *)j.call.out[0])[i], 0x3f);
        close_job(&j);
    }
}

static void test_f64(void **state) {
    (void)state;
    ppl_kernel_spec spec = {.op = PPL_OP_ADD, .inputs = 1, .threads = 1};
    spec.in[0] = ppl_type_make(PPL_F64, 0, NULL);
    ppl_kernel_needs needs = {0};
    void *kept = NULL;
    assert_int_equal(ppl_cpu_kernel(PPL_OP_ADD)->prepare(&spec, &needs, &kept), PPL_ERR_DEVICE);
    assert_string_equal(ppl_error(), "add: input 0 is f64, want f32 or bf16 on the cpu device");
}

// One table for equal angles, as long as somebody uses it.
static void test_rope_table(void **state) {
    (void)state;
    const ppl_rope_table *a, *b, *c;
    assert_int_equal(ppl_rope_table_get(5, 4, 100, &a), PPL_OK);
    assert_int_equal(ppl_rope_table_get(5, 4, 100, &b), PPL_OK);
    assert_int_equal(ppl_rope_table_get(5, 4, 101, &c), PPL_OK);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    ppl_rope_table_free(a);
    assert_true(b->turn[0] == 1 && b->turn[2] == 0);               // position 0: no turn
    assert_true(fabsf(b->turn[3 * 4 + 1] - 0.955336f) < 1e-6f);    // cos(3 * 100^(-2/4))
    assert_true(fabsf(b->turn[3 * 4 + 2 + 1] - 0.29552f) < 1e-6f); // and its sine
    ppl_rope_table_free(b), ppl_rope_table_free(c), ppl_rope_table_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_instruction_sets),
        cmocka_unit_test(test_rope_table), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
