// bench_attention.c - causal attention forward and backward in bf16, heads of 64 and of 128, up to 8192 positions: TFLOP/s,
// sampled rows of o, dq, dk and dv against sums in f64, and the same bits twice. Prints rows for scripts/gpu_check; exit
// status 1 where one is wrong.
#include "bench.h"

typedef struct shape {
    int64_t batch, time, heads, d;
} shape;

typedef struct tensors { // on the host: packed q, k, v of (batch, time, 3, heads, d); dy as o
    shape s;
    const uint16_t *qkv, *dy;
    uint16_t *o, *dqkv;
    float *lse;
} tensors;

// Number i of a head's vector at position t; which: 0 q, 1 k, 2 v.
static double at(const tensors *x, const uint16_t *packed, int64_t n, int which, int64_t h, int64_t t, int64_t i) {
    const shape *s = &x->s;
    return bench_number(packed, PPL_BF16, ((n * s->time + t) * 3 + which) * s->heads * s->d + h * s->d + i);
}
static double out_at(const tensors *x, const uint16_t *y, int64_t n, int64_t h, int64_t t, int64_t i) {
    const shape *s = &x->s;
    return bench_number(y, PPL_BF16, (n * s->time + t) * s->heads * s->d + h * s->d + i);
}

static double score(const tensors *x, int64_t n, int64_t h, int64_t q, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < x->s.d; i++) sum += at(x, x->qkv, n, 0, h, q, i) * at(x, x->qkv, n, 1, h, k, i);
    return sum / sqrt((double)x->s.d);
}

// The weight that query q gives to key k, by the device's own log-sum-exp.
static double weight(const tensors *x, int64_t n, int64_t h, int64_t q, int64_t k) {
    return exp(score(x, n, h, q, k) - x->lse[(n * x->s.heads + h) * x->s.time + q]);
}

// What comes to the score of (q, k) from above: p (dy . v - dy . o).
static double score_grad(const tensors *x, int64_t n, int64_t h, int64_t q, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < x->s.d; i++)
        sum += out_at(x, x->dy, n, h, q, i) * (at(x, x->qkv, n, 2, h, k, i) - out_at(x, x->o, n, h, q, i));
    return weight(x, n, h, q, k) * sum;
}

// One vector: 0 o, 1 dq, 2 dk, 3 dv at a position, in f64.
static void vector_of(const tensors *x, int which, int64_t n, int64_t h, int64_t t, double *out) {
    const shape *s = &x->s;
    memset(out, 0, (size_t)s->d * sizeof *out);
    bool of_key = which >= 2;
    for (int64_t other = of_key ? t : 0; other < (of_key ? s->time : t + 1); other++) {
        int64_t q = of_key ? other : t, k = of_key ? t : other;
        double f = which == 0 || which == 3 ? weight(x, n, h, q, k) : score_grad(x, n, h, q, k) / sqrt((double)s->d);
        for (int64_t i = 0; i < s->d; i++)
            out[i] += f * (which == 0   ? at(x, x->qkv, n, 2, h, k, i)
                           : which == 1 ? at(x, x->qkv, n, 1, h, k, i)
                           : which == 2 ? at(x, x->qkv, n, 0, h, q, i)
                                        : out_at(x, x->dy, n, h, q, i));
    }
}

// The largest error of sampled vectors relative to the vector's own length.
static double error_of(const tensors *x, int first, int last) {
    const shape *s = &x->s;
    double worst = 0, *want = malloc((size_t)s->d * sizeof *want);
    for (int which = first; which <= last; which++) {
        for (int sample = 0; sample < 4; sample++) {
            int64_t n = sample % s->batch, h = (sample * 7) % s->heads, t = (s->time - 1) * sample / 3;
            double length = 0, apart = 0;
            vector_of(x, which, n, h, t, want);
            for (int64_t i = 0; i < s->d; i++) {
                double is = which == 0 ? out_at(x, x->o, n, h, t, i) : at(x, x->dqkv, n, which - 1, h, t, i);
                length += want[i] * want[i], apart += (is - want[i]) * (is - want[i]);
            }
            double error = sqrt(apart) / (sqrt(length) + 1e-3);
            if (worst == worst && !(error <= worst)) worst = error; // the first NaN is kept
        }
    }
    free(want);
    return worst;
}

static void tell(bench *b, const char *name, const shape *s, double flops, double seconds, double error, bool same) {
    char what[96], figure[128];
    snprintf(what, sizeof what, "%s T %lld d %lld, %lld heads x %lld", name, (long long)s->time, (long long)s->d,
             (long long)s->heads, (long long)s->batch);
    snprintf(figure, sizeof figure, "%s, error %.4f", bench_rate(flops, seconds, PPL_BF16), error);
    bench_row(b, what, figure, !(error <= 0.02) ? "samples are off" : !same ? "not the same bits twice" : NULL);
}

// Runs twice into the same place; whether the bits stayed. out: the numbers on the host.
static bool run_twice(bench *b, ppl_device_program *p, const ppl_call *call, int64_t n, uint16_t *out) {
    uint16_t *again = malloc((size_t)n * sizeof *again);
    bench_run(b, p, call);
    bench_read(b, call->out[0], PPL_BF16, 0, n, out);
    bench_run(b, p, call);
    bench_read(b, call->out[0], PPL_BF16, 0, n, again);
    bool same = memcmp(out, again, (size_t)n * sizeof *out) == 0;
    free(again);
    return same;
}

static ppl_device_node node_of(int32_t op, const shape *s) {
    ppl_device_node node = {.name = "attention", .param = -1};
    ppl_type qkv = ppl_type_make(PPL_BF16, 3, (int64_t[]){s->batch, s->time, 3 * s->heads * s->d});
    ppl_type o = ppl_type_make(PPL_BF16, 3, (int64_t[]){s->batch, s->time, s->heads * s->d});
    ppl_type lse = ppl_type_make(PPL_F32, 3, (int64_t[]){s->batch, s->heads, s->time});
    bool forward = op == PPL_OP_ATTENTION;
    node.spec = (ppl_kernel_spec){.op = op,
                                  .inputs = forward ? 1 : 4,
                                  .outputs = forward ? 2 : 1,
                                  .threads = 1,
                                  .param_input = -1,
                                  .attrs = {.i = {s->heads, s->heads, 1}}};
    ppl_type grad[4] = {o, o, lse, qkv};
    if (!forward) memcpy(node.spec.in, grad, sizeof grad);
    node.spec.in[0] = forward ? qkv : o;
    node.spec.out[0] = forward ? o : qkv;
    if (forward) node.spec.out[1] = lse;
    return node;
}

static void measure(bench *b, const shape *s) {
    int64_t n_o = s->batch * s->time * s->heads * s->d, n_lse = s->batch * s->heads * s->time;
    void *qkv_at, *dy_at, *o_at = bench_room(b, PPL_BF16, n_o), *lse_at = bench_room(b, PPL_F32, n_lse);
    void *dqkv_at = bench_room(b, PPL_BF16, 3 * n_o);
    tensors x = {.s = *s, .qkv = bench_numbers(b, PPL_BF16, 3 * n_o, 1, &qkv_at)};
    x.dy = bench_numbers(b, PPL_BF16, n_o, 2, &dy_at);
    x.o = malloc((size_t)n_o * 2), x.dqkv = malloc((size_t)n_o * 6), x.lse = malloc((size_t)n_lse * 4);
    ppl_device_node node[2] = {node_of(PPL_OP_ATTENTION, s), node_of(PPL_OP_ATTENTION_GRAD, s)};
    ppl_device_program *p[2] = {bench_build(b, &node[0]), bench_build(b, &node[1])};
    ppl_call call[2] = {{.in = {qkv_at}, .out = {o_at, lse_at}},
                        {.in = {dy_at, o_at, lse_at, qkv_at}, .out = {dqkv_at}}};
    double flops = 2.0 * (double)(s->batch * s->heads * s->d) * (double)s->time * (double)s->time; // causal: half of 4
    bool same = run_twice(b, p[0], &call[0], n_o, x.o);
    bench_read(b, lse_at, PPL_F32, 0, n_lse, x.lse);
    tell(b, "forward ", s, flops, bench_time(b, p[0], &call[0]), error_of(&x, 0, 0), same);
    same = run_twice(b, p[1], &call[1], 3 * n_o, x.dqkv);
    tell(b, "backward", s, 2.5 * flops, bench_time(b, p[1], &call[1]), error_of(&x, 1, 3), same);
    for (int i = 0; i < 2; i++) b->ops->program_free(b->device, p[i]);
    void *all[] = {qkv_at, dy_at, o_at, lse_at, dqkv_at};
    for (int i = 0; i < 5; i++) b->ops->memory_free(b->device, all[i]);
    free((void *)x.qkv), free((void *)x.dy), free(x.o), free(x.dqkv), free(x.lse);
}

int main(int argc, char **argv) {
    bench b;
    bench_open(&b, "attention", argc, argv);
    enum { TOKENS = 16384, WIDTH = 2048 };
    for (int64_t d = 64; d <= 128; d *= 2) {
        if (b.tiny) measure(&b, &(shape){2, 70, 2, d});
        for (int64_t time = 1024; !b.tiny && time <= 8192; time *= 2)
            measure(&b, &(shape){TOKENS / time, time, WIDTH / d, d});
    }
    return bench_close(&b);
}
