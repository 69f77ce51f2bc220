// test_attention.c - attention and its gradient on the cpu, against the definition in plain f64 loops: odd lengths and
// head sizes, grouped heads, causal and not, packed and apart, f32 and bf16, and bits that do not depend on threads.
#include "device/kernel_run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

typedef struct shape {
    int64_t batch, time, heads, kv_heads, d;
    bool causal;
    double scale; // 0: 1 / sqrt(d)
} shape;

enum { PACKED, APART };
enum { Q, K, V, DY, PARTS };

// q, k, v, dy in f64 as (B, heads or kv heads, T, D), and what attention makes of them.
typedef struct truth {
    shape s;
    double *part[PARTS], *o, *lse, *grad[3];
} truth;

static int64_t heads_of(const shape *s, int part) {
    return part == K || part == V ? s->kv_heads : s->heads;
}

static double *numbers(int64_t n) {
    double *p = calloc((size_t)n, sizeof *p);
    assert_non_null(p);
    return p;
}

static const double *row_of(const truth *t, int part, int64_t b, int64_t h, int64_t time) {
    int64_t heads = heads_of(&t->s, part), head = heads == t->s.heads ? h : h / (t->s.heads / t->s.kv_heads);
    return t->part[part] + ((b * heads + head) * t->s.time + time) * t->s.d;
}

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

// One query: its softmax, its output, and what it adds to the gradients, by the softmax's whole Jacobian.
static void query(truth *t, int64_t b, int64_t h, int64_t time, double *p, double *dp) {
    const shape *s = &t->s;
    int64_t kv = h / (s->heads / s->kv_heads), n = s->causal ? time + 1 : s->time, d = s->d;
    double scale = s->scale != 0 ? s->scale : 1 / sqrt((double)d), max = -INFINITY, sum = 0, mean = 0;
    const double *q = row_of(t, Q, b, h, time), *dy = row_of(t, DY, b, h, time);
    for (int64_t j = 0; j < n; j++) max = fmax(max, p[j] = scale * dot(q, row_of(t, K, b, h, j), d));
    for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - max);
    int64_t at = (b * s->heads + h) * s->time + time;
    t->lse[at] = max + log(sum);
    for (int64_t j = 0; j < n; j++) {
        p[j] /= sum;
        dp[j] = dot(dy, row_of(t, V, b, h, j), d);
        mean += p[j] * dp[j];
        for (int64_t i = 0; i < d; i++) t->o[at * d + i] += p[j] * row_of(t, V, b, h, j)[i];
    }
    for (int64_t j = 0; j < n; j++) {
        double ds = p[j] * (dp[j] - mean), *dk = t->grad[K] + ((b * s->kv_heads + kv) * s->time + j) * d;
        double *dv = t->grad[V] + ((b * s->kv_heads + kv) * s->time + j) * d, *dq = t->grad[Q] + at * d;
        for (int64_t i = 0; i < d; i++) {
            dq[i] += scale * ds * row_of(t, K, b, h, j)[i];
            dk[i] += scale * ds * q[i];
            dv[i] += p[j] * dy[i];
        }
    }
}

static void truth_make(truth *t, int32_t dtype) {
    const shape *s = &t->s;
    for (int part = 0; part < PARTS; part++) {
        int64_t n = s->batch * heads_of(s, part) * s->time * s->d;
        ppl_type type = type_of(PPL_F64, 1, n, 1, 1), stored = type_of(dtype, 1, n, 1, 1);
        t->part[part] = numbers(n);
        void *rounded = ppl_alloc(ppl_type_bytes(&stored));
        random_fill(t->part[part], &type, (uint64_t)part + 1, part == DY ? 1 : 2);
        ppl_convert(rounded, dtype, t->part[part], PPL_F64, n);
        ppl_convert(t->part[part], PPL_F64, rounded, dtype, n);
        ppl_free(rounded);
        if (part < 3) t->grad[part] = numbers(n);
    }
    t->o = numbers(s->batch * s->heads * s->time * s->d);
    t->lse = numbers(s->batch * s->heads * s->time);
    double *p = numbers(s->time), *dp = numbers(s->time);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t time = 0; time < s->time; time++) query(t, b, h, time, p, dp);
    free(p), free(dp);
}

static void truth_free(truth *t) {
    for (int i = 0; i < PARTS; i++) free(t->part[i]);
    for (int i = 0; i < 3; i++) free(t->grad[i]);
    free(t->o), free(t->lse);
}

// ---- the kernels' layout

// Where a part lies: which of q's inputs or outputs, and the number of its element.
static int64_t place(const shape *s, int form, int part, int64_t b, int64_t h, int64_t time, int64_t i,
                     int32_t *which) {
    int64_t before = 0, row = heads_of(s, part);
    *which = form == APART && part < DY ? part : 0;
    if (form == PACKED && part < DY) {
        for (int k = 0; k < part; k++) before += heads_of(s, k);
        row = s->heads + 2 * s->kv_heads;
    }
    return ((b * s->time + time) * row + before + h) * s->d + i;
}

// Compares or writes all of a part; data[which] has dtype. Returns the largest difference over the largest number.
static double part_each(const shape *s, int form, int part, double *f64, void *const *data, int32_t dtype, bool write) {
    double worst = 0, largest = 1e-30;
    int64_t heads = heads_of(s, part), n = 0;
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t time = 0; time < s->time; time++) {
                for (int64_t i = 0; i < s->d; i++, n++) {
                    int32_t which;
                    int64_t at = place(s, form, part, b, h, time, i, &which);
                    if (write) ppl_number_set(data[which], dtype, at, f64[n]);
                    double difference = fabs(ppl_number_get(data[which], dtype, at) - f64[n]);
                    worst = difference <= worst ? worst : difference; // a NaN stays
                    largest = fmax(largest, fabs(f64[n]));
                }
            }
        }
    }
    return worst / largest;
}

static void types_set(kernel_run *k, const shape *s, int form, int32_t dtype, bool gradient, int32_t threads) {
    int64_t row = (s->heads + (form == PACKED ? 2 * s->kv_heads : 0)) * s->d;
    ppl_type *in = k->spec.in + (gradient ? 3 : 0), o = type_of(dtype, 3, s->batch, s->time, s->heads * s->d);
    ppl_type lse = type_of(PPL_F32, 3, s->batch, s->heads, s->time);
    k->spec = (ppl_kernel_spec){.op = gradient ? PPL_OP_ATTENTION_GRAD : PPL_OP_ATTENTION,
                                .attrs = {.i = {s->heads, s->kv_heads, s->causal}, .f = {s->scale}},
                                .inputs = (gradient ? 3 : 0) + (form == PACKED ? 1 : 3),
                                .outputs = !gradient        ? 2
                                           : form == PACKED ? 1
                                                            : 3,
                                .threads = threads,
                                .param_input = -1};
    in[0] = type_of(dtype, 3, s->batch, s->time, row);
    in[1] = in[2] = type_of(dtype, 3, s->batch, s->time, s->kv_heads * s->d);
    if (gradient) {
        k->spec.in[0] = k->spec.in[1] = o;
        k->spec.in[2] = lse;
        memcpy(k->spec.out, in, 3 * sizeof *in);
    } else {
        k->spec.out[0] = o;
        k->spec.out[1] = lse;
    }
}

// Runs both kernels on the truth's inputs; the gradient reads what the forward wrote.
static void run_both(const truth *t, int form, int32_t dtype, int32_t threads, kernel_run *y, kernel_run *grad) {
    const shape *s = &t->s;
    *y = *grad = (kernel_run){0};
    types_set(y, s, form, dtype, false, threads);
    types_set(grad, s, form, dtype, true, threads);
    OK(kernel_open(y));
    OK(kernel_open(grad));
    for (int part = 0; part < 3; part++) {
        part_each(s, form, part, t->part[part], (void *const *)(uintptr_t)y->call.in, dtype, true);
        part_each(s, form, part, t->part[part], (void *const *)(uintptr_t)(grad->call.in + 3), dtype, true);
    }
    part_each(s, form, DY, t->part[DY], (void *const *)(uintptr_t)grad->call.in, dtype, true);
    memset(y->call.scratch, 0xff, y->needs.scratch); // NaN: nothing may be read before it is written
    memset(grad->call.scratch, 0xff, grad->needs.scratch);
    OK(kernel_go(y));
    memcpy((void *)(uintptr_t)grad->call.in[1], y->call.out[0], ppl_type_bytes(&y->spec.out[0]));
    memcpy((void *)(uintptr_t)grad->call.in[2], y->call.out[1], ppl_type_bytes(&y->spec.out[1]));
    OK(kernel_go(grad));
}

static void check(double got, double bound, const shape *s, int form, int32_t dtype, const char *what) {
    if (got <= bound) return;
    fail_msg("%s, %s, %s, B %d T %d H %d K %d D %d causal %d: off by %g of the largest, want %g at most", what,
             form == PACKED ? "packed" : "apart", ppl_dtype_name(dtype), (int)s->batch, (int)s->time, (int)s->heads,
             (int)s->kv_heads, (int)s->d, s->causal, got, bound);
}

static void check_shape(shape s, int32_t dtype) {
    truth t = {.s = s};
    truth_make(&t, dtype);
    double bound = dtype == PPL_BF16 ? 0x1p-7 : 2e-6 * (1 + (s.scale != 0 ? s.scale * sqrt((double)s.d) : 1));
    for (int form = PACKED; form <= APART; form++) {
        kernel_run y, grad;
        run_both(&t, form, dtype, 1, &y, &grad);
        check(part_each(&s, form, DY, t.o, y.call.out, dtype, false), bound, &s, form, dtype, "o");
        for (int64_t i = 0; i < s.batch * s.heads * s.time; i++) {
            double want = t.lse[i];
            check(fabs(output_at(&y, 1, i) - want), 1e-6 * (1 + fabs(want)), &s, form, dtype, "lse");
        }
        static const char *const names[] = {"dq", "dk", "dv"};
        for (int part = 0; part < 3; part++) {
            double off = part_each(&s, form, part, t.grad[part], grad.call.out, dtype, false);
            // with one key the gradient of the softmax is 0: what is left is rounding against nothing
            if (s.time > 1 || part == V) check(off, 4 * bound, &s, form, dtype, names[part]);
        }
        kernel_close(&y), kernel_close(&grad);
    }
    truth_free(&t);
}

static const shape shapes[] = {
    {1, 1, 1, 1, 1, true, 0},      {2, 3, 2, 1, 5, false, 0},     {1, 16, 1, 1, 16, true, 0},
    {2, 47, 3, 3, 7, true, 0},     {1, 48, 2, 2, 64, true, 0},    {1, 49, 4, 2, 17, false, 0.5},
    {1, 97, 6, 2, 33, true, 0.25}, {2, 65, 2, 1, 96, false, 0},   {1, 131, 1, 1, 128, true, 0},
    {1, 50, 2, 1, 255, true, 0},   {1, 100, 1, 1, 256, false, 0}, {1, 200, 4, 1, 24, true, 2.0},
};

static void test_f32(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(shapes[i], PPL_F32);
}

static void test_bf16(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(shapes[i], PPL_BF16);
}

// Scores far apart: the running maximum must hold, whichever block has the largest.
static void test_large_scores(void **state) {
    (void)state;
    check_shape((shape){1, 150, 2, 1, 32, true, 20.0}, PPL_F32);
    check_shape((shape){1, 150, 2, 2, 32, false, 20.0}, PPL_F32);
}

static void check_threads(int32_t dtype) {
    truth t = {.s = {3, 61, 4, 2, 40, true, 0}};
    truth_make(&t, dtype);
    kernel_run y1, grad1, y, grad;
    run_both(&t, PACKED, dtype, 1, &y1, &grad1);
    for (int32_t threads = 1; threads <= 4; threads++) {
        run_both(&t, PACKED, dtype, threads, &y, &grad);
        for (int i = 0; i < 2; i++) assert_memory_equal(y.call.out[i], y1.call.out[i], ppl_type_bytes(&y.spec.out[i]));
        assert_memory_equal(grad.call.out[0], grad1.call.out[0], ppl_type_bytes(&grad.spec.out[0]));
        kernel_close(&y), kernel_close(&grad);
    }
    kernel_close(&y1), kernel_close(&grad1);
    truth_free(&t);
}

static void test_threads(void **state) {
    (void)state;
    check_threads(PPL_F32);
    check_threads(PPL_BF16);
}

static void test_refusals(void **state) {
    (void)state;
    shape s = {1, 4, 3, 2, 8, true, 0}; // 2 does not divide 3
    for (int gradient = 0; gradient < 2; gradient++) {
        kernel_run k = {0};
        types_set(&k, &s, PACKED, PPL_F32, gradient, 1);
        assert_int_equal(kernel_open(&k), PPL_ERR_SHAPE);
        shape whole = {1, 4, 2, 2, 8, true, 0};
        types_set(&k, &whole, APART, PPL_F64, gradient, 1);
        assert_int_equal(kernel_open(&k), PPL_ERR_DEVICE);
        assert_non_null(strstr(ppl_error(), "q is f64, want f32 or bf16"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),     cmocka_unit_test(test_bf16),     cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
