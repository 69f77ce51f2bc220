// bench_memory.c - kernels that memory decides, against the time that memory alone would take: nanoseconds a number, and
// the ratio to a memcpy of as many bytes read and written, the two measured in turn. One thread and its own time, so that
// a busy machine disturbs it little; the best of several rounds.
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "ops/op.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9 };

typedef struct bench {
    int32_t op;
    ppl_attrs attrs;
    int64_t rows, columns;
    int32_t inputs;
    const char *shape; // of its inputs, by letter: see type_of
} bench;

static const bench benches[] = {
    {PPL_OP_ADD, {{0}, {0}}, 16384, 1024, 2, "xx"},
    {PPL_OP_ACT, {{PPL_ACT_GELU_TANH}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_ACT, {{PPL_ACT_GELU_ERF}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_ACT, {{PPL_ACT_SILU}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_ACT_GRAD, {{PPL_ACT_GELU_TANH}, {0}}, 16384, 1024, 2, "xx"},
    {PPL_OP_ACT_GRAD, {{PPL_ACT_GELU_ERF}, {0}}, 16384, 1024, 2, "xx"},
    {PPL_OP_LAYERNORM, {{0}, {1e-5}}, 16384, 1024, 3, "xcc"},
    {PPL_OP_LAYERNORM, {{0}, {1e-5}}, 43690, 384, 3, "xcc"},
    {PPL_OP_LAYERNORM_DX, {{0}, {0}}, 16384, 1024, 4, "xxc2"},
    {PPL_OP_LAYERNORM_DW, {{0}, {0}}, 16384, 1024, 3, "xx2"},
    {PPL_OP_RMSNORM, {{0}, {1e-5}}, 16384, 1024, 2, "xc"},
    {PPL_OP_RMSNORM_DX, {{0}, {0}}, 16384, 1024, 4, "xxc1"},
    {PPL_OP_REDUCE, {{1}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_ROPE, {{64, 16}, {1e4}}, 16384, 1024, 1, "x"},
    {PPL_OP_SOFTMAX, {{0}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_SOFTMAX_GRAD, {{0}, {0}}, 16384, 1024, 2, "xx"},
    {PPL_OP_DROPOUT, {{0, 0, 0, 0, 0, 0, 0, 77}, {0.1}}, 16384, 1024, 1, "x"},
    {PPL_OP_TRANSPOSE, {{1, 2}, {0}}, 16384, 1024, 1, "x"},
    {PPL_OP_EMBEDDING, {{0}, {0}}, 16384, 1024, 2, "iw"},
    {PPL_OP_EMBEDDING_DW, {{1000}, {0}}, 16384, 1024, 2, "ix"},
    {PPL_OP_CROSS_ENTROPY, {{0}, {0}}, 65536, 256, 2, "xt"},
    {PPL_OP_CROSS_ENTROPY, {{0}, {0}}, 512, 50257, 2, "xt"},
    {PPL_OP_CROSS_ENTROPY_GRAD, {{0}, {0}}, 65536, 256, 4, "sxt1"},
    {PPL_OP_CROSS_ENTROPY_GRAD, {{0}, {0}}, 512, 50257, 4, "sxt1"},
    {PPL_OP_MSE, {{0}, {0}}, 16384, 1024, 2, "xx"},
};

typedef struct work { // a kernel ready to run
    ppl_kernel_spec spec;
    ppl_call call;
    const ppl_kernel *kernel;
    void *state, *memory[PPL_MAX_INPUTS + PPL_MAX_OUTPUTS + 1];
    int32_t blocks;
    double bytes, numbers;
} work;

static void stop(const char *what) {
    fprintf(stderr, "bench_memory: %s: %s\n", what, ppl_error());
    exit(1);
}

static void *get_memory(work *w, size_t bytes) {
    void *p = ppl_alloc(bytes);
    if (!p) stop("memory");
    return w->memory[w->blocks++] = p;
}

// x rows by columns, c columns, w 1000 by columns; in f32 s a scalar, 1 and 2 one and two statistics a row; in i32 i ids
// below 1000, t targets.
static ppl_type type_of(const bench *b, char kind, int32_t dtype) {
    int64_t x[3] = {b->rows / 128, 128, b->columns}, two[3] = {x[0], x[1], 2}, w[2] = {1000, b->columns};
    if (b->rows % 128) x[0] = two[0] = b->rows / 2, x[1] = two[1] = 2;
    switch (kind) {
    case 'x': return ppl_type_make(dtype, 3, x);
    case 'c': return ppl_type_make(dtype, 1, &b->columns);
    case 'w': return ppl_type_make(dtype, 2, w);
    case 's': return ppl_type_make(PPL_F32, 0, NULL);
    case '2': return ppl_type_make(PPL_F32, 3, two);
    case '1': return ppl_type_make(PPL_F32, 2, x);
    default: return ppl_type_make(PPL_I32, 2, x);
    }
}

static void fill(void *data, const ppl_type *t, const bench *b, char kind) {
    int64_t n = ppl_type_elements(t);
    int32_t limit = kind == 'i' ? 1000 : (int32_t)b->columns;
    uint32_t r = 1;
    for (int64_t i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        double u = (double)(r >> 8) * 0x1p-24;
        if (t->dtype == PPL_I32) ((int32_t *)data)[i] = (int32_t)(u * limit);
        else ppl_number_set(data, t->dtype, i, kind == '1' || kind == '2' ? 1 + u : 4 * u - 2);
    }
}

static void open_work(work *w, const bench *b, int32_t dtype) {
    *w = (work){.kernel = ppl_cpu_kernel(b->op), .numbers = (double)(b->rows * b->columns)};
    uint32_t flags = ppl_op_get(b->op)->flags;
    w->spec = (ppl_kernel_spec){.op = b->op, .inputs = b->inputs, .attrs = b->attrs, .threads = 1, .param_input = -1};
    w->spec.accumulates = (flags & PPL_OP_ACCUMULATES) != 0;
    ppl_op_types t = {.inputs = b->inputs, .attrs = &w->spec.attrs, .acc_dtype = PPL_F32};
    t.accumulates = w->spec.accumulates;
    for (int32_t k = 0; k < b->inputs; k++) {
        w->spec.in[k] = type_of(b, b->shape[k], dtype);
        t.in[k] = &w->spec.in[k];
        void *data = get_memory(w, ppl_type_bytes(t.in[k]));
        fill(data, t.in[k], b, b->shape[k]);
        w->call.in[k] = data;
        if (b->shape[k] != 'w') w->bytes += (double)ppl_type_bytes(t.in[k]);
    }
    if (ppl_op_get(b->op)->infer(&t, w->spec.out, &w->spec.outputs) != PPL_OK) stop(ppl_op_name(b->op));
    for (int32_t k = 0; k < w->spec.outputs; k++) {
        w->call.out[k] = get_memory(w, ppl_type_bytes(&w->spec.out[k]));
        w->bytes += (double)ppl_type_bytes(&w->spec.out[k]);
    }
    static const ppl_call_env env = {.seed = 1, .training = true};
    w->call.env = &env;
    ppl_kernel_needs needs = {0};
    if (w->kernel->prepare(&w->spec, &needs, &w->state) != PPL_OK) stop(w->kernel->name);
    w->call.scratch = get_memory(w, needs.scratch + 64);
}

static void close_work(work *w) {
    w->kernel->free(w->state);
    while (w->blocks > 0) ppl_free(w->memory[--w->blocks]);
}

static double now(void) { // seconds this thread has run
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

// Seconds a byte of a memcpy, read and written counted.
static double copy_time(void *to, const void *from, size_t bytes) {
    double start = now();
    memcpy(to, from, bytes);
    return (now() - start) / (2 * (double)bytes);
}

enum { COPY = 64 << 20 };
static char *copy_from, *copy_to;

static void print_line(const char *name, const char *detail, double seconds, double numbers, double bytes,
                       double floor) {
    printf("%-20s %-22s %7.3f ns  %5.2f of memcpy\n", name, detail, seconds / numbers * 1e9, seconds / (bytes * floor));
}

static void run_bench(const bench *b, int32_t dtype) {
    work w;
    open_work(&w, b, dtype);
    double best = 1e9, floor = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        floor = least(floor, copy_time(copy_to, copy_from, COPY));
        double start = now();
        if (w.kernel->run(&w.spec, w.state, &w.call) != PPL_OK) stop(w.kernel->name);
        best = least(best, now() - start);
    }
    char detail[64];
    snprintf(detail, sizeof detail, "%s %lld x %lld%s%lld", ppl_dtype_name(dtype), (long long)b->rows,
             (long long)b->columns, b->op == PPL_OP_ACT || b->op == PPL_OP_ACT_GRAD ? " act " : " / ",
             (long long)b->attrs.i[0]);
    print_line(w.kernel->name, detail, best, w.numbers, w.bytes, floor);
    close_work(&w);
}

static void run_update(int32_t kind, int32_t copy_dtype) {
    int64_t n = 8 << 20;
    work w = {.numbers = (double)n};
    size_t bytes = (size_t)n * sizeof(float);
    const void *grad = get_memory(&w, bytes);
    float *weight = get_memory(&w, bytes), *m1 = get_memory(&w, bytes), *m2 = get_memory(&w, bytes);
    for (int64_t i = 0; i < n; i++) ((float *)grad)[i] = weight[i] = (float)(i % 1000) * 1e-3f, m1[i] = m2[i] = 1e-3f;
    ppl_update u = {.n = n,
                    .weight = weight,
                    .weight_out = weight,
                    .grads = &grad,
                    .uses = 1,
                    .kind = kind,
                    .moment1 = m1,
                    .moment1_out = m1,
                    .moment2 = m2,
                    .moment2_out = m2,
                    .copy_dtype = copy_dtype,
                    .lr = 1e-3,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .eps = 1e-8,
                    .decay = 0.1,
                    .momentum = 0.9,
                    .scale = 1,
                    .bias1 = 0.1,
                    .bias2 = 0.01};
    u.copy = copy_dtype == PPL_BF16 ? get_memory(&w, bytes / 2) : NULL;
    double best = 1e9, floor = 1e9, square = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        floor = least(floor, copy_time(copy_to, copy_from, COPY));
        double start = now();
        ppl_cpu_update(&u, 1);
        best = least(best, now() - start);
        start = now();
        volatile double sum = ppl_cpu_square_sum(&grad, 1, n, 1);
        (void)sum;
        square = least(square, now() - start);
    }
    double touched = (kind == PPL_ADAMW ? 28.0 : 20.0) + (u.copy ? 2 : 0);
    print_line(kind == PPL_ADAMW ? "adamw" : "sgd", u.copy ? "bf16 copy" : "f32", best, w.numbers, touched * (double)n,
               floor);
    print_line("square_sum", "f32", square, w.numbers, 4.0 * (double)n, floor);
    while (w.blocks > 0) ppl_free(w.memory[--w.blocks]);
}

int main(int argc, char **argv) {
    copy_from = ppl_alloc(COPY), copy_to = ppl_alloc(COPY);
    if (!copy_from || !copy_to) stop("memory");
    memset(copy_from, 1, COPY);
    printf("%s\n", ppl_cpu_isa());
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        if (argc > 1 && !strstr(ppl_op_name(benches[i].op), argv[1])) continue;
        run_bench(&benches[i], PPL_BF16);
        run_bench(&benches[i], PPL_F32);
    }
    if (argc < 2 || strstr("update", argv[1])) {
        run_update(PPL_ADAMW, PPL_BF16);
        run_update(PPL_SGD, PPL_F32);
    }
    ppl_free(copy_from), ppl_free(copy_to);
    return 0;
}
