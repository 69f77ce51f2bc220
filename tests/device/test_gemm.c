// test_gemm.c - the kernels that multiply on the cpu, against plain f64 loops: sizes of 1 and odd ones, transposes,
// accumulation, packed weights, activations fused and apart, and bits that repeat.
#include "device/cpu/gemm.h"
#include "device/kernel_run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

// A sum of products in f32, then stored: `size` is the sum of the products' magnitudes.
static void check_close(double got, double want, double size, int32_t dtype, const char *what, int64_t at) {
    double bound = size * 0x1p-20 + 1e-30 + (dtype == PPL_BF16 ? fabs(want) * 0x1p-8 : 0);
    if (!(fabs(got - want) <= bound)) fail_msg("%s [%lld]: %.9g, want %.9g", what, (long long)at, got, want);
}

typedef struct sizes {
    int64_t rows, ic, oc;
} sizes;
static const sizes shapes[] = {{1, 1, 1},   {1, 7, 3},    {3, 1, 5},    {5, 3, 1},     {2, 16, 16},
                               {7, 33, 65}, {64, 48, 17}, {65, 31, 96}, {65, 66, 131}, {200, 12, 33}};

// ---- gemm.h itself

static void check_gemm(bool a_transposed, bool b_transposed, bool add, int32_t b_dtype) {
    int64_t m = 13, tail = 5, n = 19, k = 11;
    ppl_gemm_spec spec = {.name = "test",
                          .batch = 1,
                          .m = m,
                          .n = n,
                          .k = k,
                          .tail = tail,
                          .a_transposed = a_transposed,
                          .b_transposed = b_transposed,
                          .add = add,
                          .b_param = true,
                          .dtype = PPL_F32,
                          .b_dtype = b_dtype,
                          .c_dtype = PPL_F32,
                          .threads = 1};
    ppl_gemm *g;
    OK(ppl_gemm_build(&spec, &g));
    ppl_type ta = type_of(PPL_F32, 2, m, k, 1), tb = type_of(b_dtype, 2, k, n, 1), tc = type_of(PPL_F32, 2, m, n, 1);
    float *a = ppl_alloc(ppl_type_bytes(&ta)), *c = ppl_alloc(ppl_type_bytes(&tc));
    float *before = ppl_alloc(ppl_type_bytes(&tc));
    void *b = ppl_alloc(ppl_type_bytes(&tb)), *scratch = ppl_alloc(ppl_gemm_scratch(g)), *packed = NULL;
    random_fill(a, &ta, 1, 1);
    random_fill(b, &tb, 2, 1);
    if (b_dtype != PPL_F32) assert_true(ppl_gemm_pack_bytes(g) > 0);
    if (ppl_gemm_pack_bytes(g)) {
        packed = ppl_alloc(ppl_gemm_pack_bytes(g));
        OK(ppl_gemm_pack(g, b, packed));
    }
    int64_t counts[] = {m, tail, m};
    for (int round = 0; round < 3; round++) {
        int64_t rows = counts[round];
        random_fill(c, &tc, 3, 1);
        memcpy(before, c, ppl_type_bytes(&tc));
        OK(ppl_gemm_run(g, rows, a, packed ? packed : b, c, scratch));
        for (int64_t i = 0; i < m * n; i++) {
            double sum = i < rows * n && !add ? 0 : (double)before[i], size = fabs(sum);
            for (int64_t l = 0; l < k && i < rows * n; l++) {
                int64_t r = i / n, o = i % n;
                double p = (double)a[a_transposed ? l * rows + r : r * k + l] *
                           ppl_number_get(b, b_dtype, b_transposed ? o * k + l : l * n + o);
                sum += p;
                size += fabs(p);
            }
            check_close((double)c[i], sum, size, PPL_F32, "gemm", i); // rows beyond are left alone
        }
    }
    ppl_gemm_free(g);
    ppl_free(a), ppl_free(b), ppl_free(c), ppl_free(before), ppl_free(scratch), ppl_free(packed);
}

static void test_gemm(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) check_gemm(i & 1, i & 2, i & 4, i & 8 ? PPL_BF16 : PPL_F32);
}

// ---- linear

static kernel_run linear_open(sizes s, int32_t dtype, int64_t act, bool bias, int32_t param, int32_t threads) {
    kernel_run k = {.spec = {.op = PPL_OP_LINEAR,
                             .inputs = bias ? 3 : 2,
                             .outputs = act ? 2 : 1,
                             .threads = threads,
                             .param_input = param}};
    k.spec.attrs.i[0] = act;
    k.spec.in[0] = type_of(dtype, 2, s.rows, s.ic, 1);
    k.spec.in[1] = type_of(dtype, 2, s.oc, s.ic, 1);
    k.spec.in[2] = type_of(dtype, 1, s.oc, 1, 1);
    k.spec.out[0] = k.spec.out[1] = type_of(dtype, 2, s.rows, s.oc, 1);
    OK(kernel_open(&k));
    for (int32_t i = 0; i < k.spec.inputs; i++) random_fill(k.call.in[i], &k.spec.in[i], (uint64_t)i + 10, 1);
    OK(kernel_pack(&k));
    OK(kernel_go(&k));
    return k;
}

static void check_linear(sizes s, int32_t dtype, bool bias, int32_t param) {
    kernel_run k = linear_open(s, dtype, PPL_ACT_NONE, bias, param, 1);
    for (int64_t i = 0; i < s.rows * s.oc; i++) {
        int64_t r = i / s.oc, o = i % s.oc;
        double sum = bias ? input_at(&k, 2, o) : 0, size = fabs(sum);
        for (int64_t l = 0; l < s.ic; l++) {
            double p = input_at(&k, 0, r * s.ic + l) * input_at(&k, 1, o * s.ic + l);
            sum += p;
            size += fabs(p);
        }
        check_close(output_at(&k, 0, i), sum, size, dtype, "linear", i);
    }
    kernel_close(&k);
}

static void test_linear(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int v = 0; v < 8; v++) check_linear(shapes[i], v & 1 ? PPL_BF16 : PPL_F32, v & 2, v & 4 ? 1 : -1);
    }
}

// y = act(pre) gives the bits of linear without an activation, followed by act.
static void check_fused(sizes s, int32_t dtype, int64_t act) {
    kernel_run fused = linear_open(s, dtype, act, true, 1, 1), plain = linear_open(s, dtype, 0, true, 1, 1);
    kernel_run apart = {.spec = {.op = PPL_OP_ACT, .inputs = 1, .outputs = 1, .threads = 1, .param_input = -1}};
    apart.spec.attrs.i[0] = act;
    apart.spec.in[0] = apart.spec.out[0] = plain.spec.out[0];
    OK(kernel_open(&apart));
    size_t bytes = ppl_type_bytes(&plain.spec.out[0]);
    memcpy((void *)(uintptr_t)apart.call.in[0], plain.call.out[0], bytes);
    OK(kernel_go(&apart));
    assert_memory_equal(fused.call.out[1], plain.call.out[0], bytes);
    assert_memory_equal(fused.call.out[0], apart.call.out[0], bytes);
    kernel_close(&fused), kernel_close(&plain), kernel_close(&apart);
}

static void test_fused(void **state) {
    (void)state;
    if (!ppl_cpu_kernel(PPL_OP_ACT)) skip();
    for (int64_t act = PPL_ACT_RELU; act < PPL_ACTS; act++) {
        for (int v = 0; v < 2; v++) {
            check_fused((sizes){7, 33, 65}, v ? PPL_BF16 : PPL_F32, act);
            check_fused((sizes){200, 20, 67}, v ? PPL_BF16 : PPL_F32, act); // several blocks of rows
        }
    }
}

// ---- gradients

static void check_linear_dx(sizes s, int32_t dtype, int32_t param) {
    kernel_run k = {.spec = {.op = PPL_OP_LINEAR_DX, .inputs = 2, .outputs = 1, .threads = 1, .param_input = param}};
    k.spec.in[0] = type_of(dtype, 2, s.rows, s.oc, 1);
    k.spec.in[1] = type_of(dtype, 2, s.oc, s.ic, 1);
    k.spec.out[0] = type_of(dtype, 2, s.rows, s.ic, 1);
    OK(kernel_open(&k));
    random_fill(k.call.in[0], &k.spec.in[0], 20, 1);
    random_fill(k.call.in[1], &k.spec.in[1], 21, 1);
    OK(kernel_pack(&k));
    OK(kernel_go(&k));
    for (int64_t i = 0; i < s.rows * s.ic; i++) {
        double sum = 0, size = 0;
        for (int64_t l = 0; l < s.oc; l++) {
            double p = input_at(&k, 0, i / s.ic * s.oc + l) * input_at(&k, 1, l * s.ic + i % s.ic);
            sum += p;
            size += fabs(p);
        }
        check_close(output_at(&k, 0, i), sum, size, dtype, "linear_dx", i);
    }
    kernel_close(&k);
}

static void check_linear_dw(sizes s, int32_t dtype, bool accumulates) {
    kernel_run k = {.spec = {.op = PPL_OP_LINEAR_DW,
                             .inputs = 2,
                             .outputs = 1,
                             .accumulates = accumulates,
                             .threads = 1,
                             .param_input = -1}};
    k.spec.in[0] = type_of(dtype, 2, s.rows, s.oc, 1);
    k.spec.in[1] = type_of(dtype, 2, s.rows, s.ic, 1);
    k.spec.out[0] = type_of(accumulates ? PPL_F32 : dtype, 2, s.oc, s.ic, 1);
    OK(kernel_open(&k));
    random_fill(k.call.in[0], &k.spec.in[0], 30, 1);
    random_fill(k.call.in[1], &k.spec.in[1], 31, 1);
    random_fill(k.call.out[0], &k.spec.out[0], 32, 1); // must not be read by the first
    for (int times = 1; times <= (accumulates ? 2 : 1); times++) {
        k.call.add = times > 1;
        OK(kernel_go(&k));
        for (int64_t i = 0; i < s.oc * s.ic; i++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < s.rows; l++) {
                double p = input_at(&k, 0, l * s.oc + i / s.ic) * input_at(&k, 1, l * s.ic + i % s.ic);
                sum += p;
                size += fabs(p);
            }
            check_close(output_at(&k, 0, i), times * sum, times * size, k.spec.out[0].dtype, "linear_dw", i);
        }
    }
    kernel_close(&k);
}

static void test_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int v = 0; v < 4; v++) {
            check_linear_dx(shapes[i], v & 1 ? PPL_BF16 : PPL_F32, v & 2 ? 1 : -1);
            check_linear_dw(shapes[i], v & 1 ? PPL_BF16 : PPL_F32, v & 2);
        }
    }
    check_linear_dw((sizes){33000, 1, 65}, PPL_BF16, true); // several slabs
}

// ---- matmul

static void check_matmul(int64_t batch, sizes s, int32_t dtype, bool a_transposed, bool b_transposed, int32_t param) {
    int64_t m = s.rows, n = s.oc, depth = s.ic;
    kernel_run k = {.spec = {.op = PPL_OP_MATMUL, .inputs = 2, .outputs = 1, .threads = 1, .param_input = param}};
    k.spec.attrs.i[0] = a_transposed;
    k.spec.attrs.i[1] = b_transposed;
    k.spec.in[0] = type_of(dtype, 3, batch, a_transposed ? depth : m, a_transposed ? m : depth);
    k.spec.in[1] = type_of(dtype, 3, batch, b_transposed ? n : depth, b_transposed ? depth : n);
    k.spec.out[0] = type_of(dtype, 3, batch, m, n);
    OK(kernel_open(&k));
    random_fill(k.call.in[0], &k.spec.in[0], 40, 1);
    random_fill(k.call.in[1], &k.spec.in[1], 41, 1);
    OK(kernel_pack(&k));
    OK(kernel_go(&k));
    for (int64_t i = 0; i < batch * m * n; i++) {
        int64_t b = i / (m * n), r = i / n % m, c = i % n;
        double sum = 0, size = 0;
        for (int64_t l = 0; l < depth; l++) {
            double p = input_at(&k, 0, b * m * depth + (a_transposed ? l * m + r : r * depth + l)) *
                       input_at(&k, 1, b * depth * n + (b_transposed ? c * depth + l : l * n + c));
            sum += p;
            size += fabs(p);
        }
        check_close(output_at(&k, 0, i), sum, size, dtype, "matmul", i);
    }
    kernel_close(&k);
}

static void test_matmul(void **state) {
    (void)state;
    for (size_t i = 0; i + 2 < sizeof shapes / sizeof *shapes; i++) {
        for (int v = 0; v < 16; v++)
            check_matmul(v & 8 ? 1 : 1 + v % 3, shapes[i], v & 1 ? PPL_BF16 : PPL_F32, v & 2, v & 4, v & 8 ? 1 : -1);
    }
}

// ---- bits

static void check_repeats(int32_t dtype, int32_t threads) {
    sizes s = {300, 24, 100};
    kernel_run one = linear_open(s, dtype, PPL_ACT_GELU_TANH, true, 1, threads);
    size_t bytes = ppl_type_bytes(&one.spec.out[0]);
    void *first = ppl_alloc(bytes);
    memcpy(first, one.call.out[0], bytes);
    OK(kernel_go(&one)); // the same again
    assert_memory_equal(one.call.out[0], first, bytes);
    kernel_run two = linear_open(s, dtype, PPL_ACT_GELU_TANH, true, 1, threads); // prepared again
    assert_memory_equal(two.call.out[0], first, bytes);
    OK(kernel_go(&one)); // and after another was prepared
    assert_memory_equal(one.call.out[0], first, bytes);
    if (one.needs.pack) {
        assert_int_equal(one.needs.pack_key, two.needs.pack_key);
        assert_memory_equal(one.call.packed, two.call.packed, one.needs.pack);
    }
    kernel_close(&one), kernel_close(&two);
    ppl_free(first);
}

// The layout of memory puts a matrix at any multiple of its number's size.
static void check_places(int32_t dtype) {
    sizes s = {37, 50, 67};
    kernel_run k = linear_open(s, dtype, PPL_ACT_NONE, true, -1, 1);
    size_t bytes = ppl_type_bytes(&k.spec.out[0]), number = ppl_dtype_size(dtype);
    ppl_call moved = k.call;
    char *memory[4];
    for (int i = 0; i < 3; i++) {
        memory[i] = ppl_alloc(ppl_type_bytes(&k.spec.in[i]) + 64);
        moved.in[i] = memcpy(memory[i] + number * (size_t)(i + 1), k.call.in[i], ppl_type_bytes(&k.spec.in[i]));
    }
    memory[3] = ppl_alloc(bytes + 64);
    moved.out[0] = memory[3] + 5 * number;
    OK(k.kernel->run(&k.spec, k.state, &moved));
    assert_memory_equal(moved.out[0], k.call.out[0], bytes);
    for (int i = 0; i < 4; i++) ppl_free(memory[i]);
    kernel_close(&k);
}

static void test_repeats(void **state) {
    (void)state;
    check_places(PPL_F32);
    check_places(PPL_BF16);
    check_repeats(PPL_F32, 1);
    check_repeats(PPL_BF16, 1);
    check_repeats(PPL_F32, 2);
    check_repeats(PPL_BF16, 2);
}

// Kernels whose keys are equal share one packed copy of a weight, so the copies must be equal too. A square weight is
// the trap: linear and linear_dx pack it to one size, but transposed.
static void check_pack_keys(int32_t dtype) {
    enum { N = 48 };
    kernel_run k[4] = {linear_open((sizes){4, N, N}, dtype, 0, false, 1, 1),
                       linear_open((sizes){300, N, N}, dtype, PPL_ACT_RELU, true, 1, 1)};
    for (int i = 2; i < 4; i++) {
        k[i].spec = (ppl_kernel_spec){
            .op = i == 2 ? PPL_OP_LINEAR_DX : PPL_OP_MATMUL, .inputs = 2, .outputs = 1, .threads = 1, .param_input = 1};
        k[i].spec.in[0] = k[i].spec.in[1] = k[i].spec.out[0] = type_of(dtype, 2, N, N, 1);
        OK(kernel_open(&k[i]));
        random_fill(k[i].call.in[1], &k[i].spec.in[1], 11, 1); // as linear_open's
        OK(kernel_pack(&k[i]));
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            if (!k[i].needs.pack || !k[j].needs.pack || k[i].needs.pack_key != k[j].needs.pack_key) continue;
            assert_int_equal(k[i].needs.pack, k[j].needs.pack);
            assert_memory_equal(k[i].call.packed, k[j].call.packed, k[i].needs.pack);
        }
    }
    if (!strcmp(ppl_cpu_isa(), "avx2")) assert_int_equal(k[0].needs.pack_key, k[1].needs.pack_key); // else oneDNN's own
    for (int i = 0; i < 4; i++) kernel_close(&k[i]);
}

static void test_pack_keys(void **state) {
    (void)state;
    check_pack_keys(PPL_F32);
    check_pack_keys(PPL_BF16);
}

static void test_refusals(void **state) {
    (void)state;
    static const int32_t ops[] = {PPL_OP_LINEAR, PPL_OP_LINEAR_DX, PPL_OP_LINEAR_DW, PPL_OP_MATMUL};
    for (int i = 0; i < 4; i++) {
        kernel_run k = {.spec = {.op = ops[i], .inputs = 2, .outputs = 1, .threads = 1, .param_input = -1}};
        k.spec.in[0] = k.spec.in[1] = k.spec.out[0] = type_of(PPL_F64, 2, 2, 2, 1);
        assert_int_equal(kernel_open(&k), PPL_ERR_DEVICE);
        assert_non_null(strstr(ppl_error(), "f64, want f32 or bf16"));
        k.spec.in[0] = k.spec.in[1] = k.spec.out[0] = type_of(PPL_F32, 2, 0, 0, 1);
        assert_int_equal(kernel_open(&k), PPL_ERR_SHAPE);
    }
}

static void test_isa(void **state) {
    (void)state;
    assert_int_equal(ppl_cpu_isa_set("sse2"), PPL_ERR_ARG);
    assert_non_null(strstr(ppl_error(), "\"sse2\", want avx2 or avx512"));
    OK(ppl_cpu_isa_set(NULL));
    char before[16];
    snprintf(before, sizeof before, "%s", ppl_cpu_isa());
    OK(ppl_cpu_isa_set("avx2"));
    assert_string_equal(ppl_cpu_isa(), "avx2");
    assert_ptr_equal(ppl_cpu_kernel(PPL_OP_LINEAR), &ppl_cpu_linear_avx2);
    OK(ppl_cpu_isa_set(NULL)); // keeps the choice
    assert_string_equal(ppl_cpu_isa(), "avx2");
    ppl_status st = ppl_cpu_isa_set("avx512");
    assert_true(st == PPL_OK || st == PPL_ERR_DEVICE);
    assert_string_equal(ppl_cpu_isa(), st == PPL_OK ? "avx512" : "avx2");
    OK(ppl_cpu_isa_set(before));
    assert_null(ppl_cpu_kernel(-1));
    assert_null(ppl_cpu_kernel(PPL_OPS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),      cmocka_unit_test(test_linear),    cmocka_unit_test(test_fused),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_matmul),    cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_pack_keys), cmocka_unit_test(test_isa),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
