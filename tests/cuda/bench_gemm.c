// bench_gemm.c - the three products of a linear layer (y = x w^T + b, dx = dy w, dw += dy^T x) at the sizes of a GPT, in bf16
// and in f32: TFLOP/s, samples against sums in f64, and the same bits twice. Prints rows for scripts/gpu_check; exit status 1
// where one is wrong.
#include "bench.h"

enum { SAMPLED_ROWS = 4, SAMPLED_COLUMNS = 16 };

typedef struct product { // out[i][j] = sum over k of a(i, k) b(j, k)
    const char *name;
    int32_t op;
    int64_t rows, columns, k;
    const void *a, *b; // on the host
    int64_t a_row, a_k, b_row, b_k;
    int32_t in_dtype, out_dtype;
    const void *bias;
} product;

static double sum_of(const product *p, int64_t i, int64_t j) {
    double sum = p->bias ? bench_number(p->bias, p->in_dtype, j) : 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += (double)bench_number(p->a, p->in_dtype, i * p->a_row + k * p->a_k) *
               bench_number(p->b, p->in_dtype, j * p->b_row + k * p->b_k);
    return sum;
}

// The largest error of samples over what is allowed: a rounding of the result, and sums in f32 of numbers below 0.5, which
// tensor cores cut off where others round. With TF32 in place of f32 it would be several times as large.
static double error_of(bench *b, const product *p, const void *out) {
    double worst = 0, sums = (double)p->k / 12 * (p->in_dtype == PPL_BF16 ? 4e-6 : 1e-6);
    float *row = malloc((size_t)p->columns * sizeof *row);
    for (int64_t s = 0; s < SAMPLED_ROWS; s++) {
        int64_t i = s * (p->rows - 1) / (SAMPLED_ROWS - 1);
        bench_read(b, out, p->out_dtype, i * p->columns, p->columns, row);
        for (int64_t t = 0; t < SAMPLED_COLUMNS; t++) {
            int64_t j = t * (p->columns - 1) / (SAMPLED_COLUMNS - 1);
            double want = sum_of(p, i, j), is = bench_number(row, p->out_dtype, j);
            double allowed = (p->out_dtype == PPL_BF16 ? 0x1p-8 * fabs(want) : 0) + sums + 1e-6;
            double error = fabs(is - want) / allowed;
            if (worst == worst && !(error <= worst)) worst = error; // the first NaN is kept
        }
    }
    free(row);
    return worst;
}

static bool same_twice(bench *b, const product *p, ppl_device_program *program, const ppl_call *call, const void *out) {
    size_t bytes = (size_t)p->columns * bench_bytes(p->out_dtype);
    char *first = malloc(bytes), *second = malloc(bytes);
    bool same = true;
    for (int turn = 0; turn < 2; turn++) {
        bench_run(b, program, call);
        bench_read(b, out, p->out_dtype, (p->rows - 1) * p->columns, p->columns, turn ? second : first);
    }
    same = memcmp(first, second, bytes) == 0;
    free(first), free(second);
    return same;
}

static void measure(bench *b, product *p, const ppl_device_node *node, ppl_call *call) {
    char what[96], figure[128], wrong[96];
    ppl_device_program *program = bench_build(b, node);
    bench_run(b, program, call);
    double error = error_of(b, p, call->out[0]);
    bool same = same_twice(b, p, program, call, call->out[0]);
    call->add = node->spec.accumulates; // as a step's later microbatches do
    double seconds = bench_time(b, program, call);
    snprintf(what, sizeof what, "%s %-2s %lld x %lld x %lld", p->in_dtype == PPL_BF16 ? "bf16" : "f32 ", p->name,
             (long long)p->rows, (long long)p->columns, (long long)p->k);
    snprintf(figure, sizeof figure, "%s, error %.2f of what is allowed",
             bench_rate(2.0 * (double)p->rows * (double)p->columns * (double)p->k, seconds, p->in_dtype), error);
    snprintf(wrong, sizeof wrong, "%s", error <= 1 ? "not the same bits twice" : "samples are off");
    bench_row(b, what, figure, error <= 1 && same ? NULL : wrong);
    b->ops->program_free(b->device, program);
}

static ppl_device_node node_of(int32_t op, int32_t inputs, const ppl_type *in, ppl_type out) {
    ppl_device_node n = {.name = "product", .param = -1};
    n.spec = (ppl_kernel_spec){.op = op, .inputs = inputs, .outputs = 1, .threads = 1, .param_input = -1};
    memcpy(n.spec.in, in, (size_t)inputs * sizeof *in);
    n.spec.out[0] = out;
    n.spec.accumulates = op == PPL_OP_LINEAR_DW;
    return n;
}

static ppl_type matrix(int32_t dtype, int64_t rows, int64_t columns) {
    return ppl_type_make(dtype, 2, (int64_t[]){rows, columns});
}

// x (rows, ic), w (oc, ic), b (oc): all three products.
static void layer(bench *b, int32_t dtype, int64_t rows, int64_t ic, int64_t oc) {
    void *at[4];
    void *x = bench_numbers(b, dtype, rows * ic, 1, &at[0]), *w = bench_numbers(b, dtype, oc * ic, 2, &at[1]);
    void *bias = bench_numbers(b, dtype, oc, 3, &at[2]), *dy = bench_numbers(b, dtype, rows * oc, 4, &at[3]);
    ppl_type tx = matrix(dtype, rows, ic), tw = matrix(dtype, oc, ic), ty = matrix(dtype, rows, oc),
             tb = ppl_type_make(dtype, 1, &oc);
    product p[3] = {{"y", PPL_OP_LINEAR, rows, oc, ic, x, w, ic, 1, ic, 1, dtype, dtype, bias},
                    {"dx", PPL_OP_LINEAR_DX, rows, ic, oc, dy, w, oc, 1, 1, ic, dtype, dtype, NULL},
                    {"dw", PPL_OP_LINEAR_DW, oc, ic, rows, dy, x, 1, oc, 1, ic, dtype, PPL_F32, NULL}};
    ppl_device_node node[3] = {node_of(PPL_OP_LINEAR, 3, (ppl_type[]){tx, tw, tb}, ty),
                               node_of(PPL_OP_LINEAR_DX, 2, (ppl_type[]){ty, tw}, tx),
                               node_of(PPL_OP_LINEAR_DW, 2, (ppl_type[]){ty, tx}, matrix(PPL_F32, oc, ic))};
    ppl_call call[3] = {{.in = {at[0], at[1], at[2]}}, {.in = {at[3], at[1]}}, {.in = {at[3], at[0]}}};
    for (int i = 0; i < 3; i++) {
        call[i].out[0] = bench_room(b, p[i].out_dtype, p[i].rows * p[i].columns);
        measure(b, &p[i], &node[i], &call[i]);
        b->ops->memory_free(b->device, call[i].out[0]);
    }
    for (int i = 0; i < 4; i++) b->ops->memory_free(b->device, at[i]);
    free(x), free(w), free(bias), free(dy);
}

int main(int argc, char **argv) {
    static const int64_t shapes[][2] = {{2048, 6144}, {2048, 2048}, {2048, 8192}, {8192, 2048}, {2048, 50304}};
    static const int64_t tiny[][2] = {{64, 192}, {64, 40}};
    bench b;
    bench_open(&b, "products", argc, argv);
    int count = b.tiny ? 2 : 5;
    for (int i = 0; i < count; i++) {
        const int64_t *s = b.tiny ? tiny[i] : shapes[i];
        layer(&b, PPL_BF16, b.tiny ? 48 : 8192, s[0], s[1]);
    }
    layer(&b, PPL_F32, b.tiny ? 48 : 8192, b.tiny ? 64 : 2048, b.tiny ? 40 : 8192);
    return bench_close(&b);
}
