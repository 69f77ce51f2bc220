// bench_kernels.c - how fast the kernels that multiply are on one core of this CPU, for the shapes of a small GPT: the
// best of many runs in GFLOP/s, and as a ratio to the best plain product of this CPU measured in between. What it
// prints is a table for people and for scripts/bench.
#include "device/cpu/gemm.h"
#include "device/kernel_run.h"
#include "ppl.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds = 0.15; // per kernel

static void must(ppl_status st) {
    if (st == PPL_OK) return;
    fprintf(stderr, "bench_kernels: %s\n", ppl_error());
    exit(1);
}

// Seconds that this thread has computed: with one thread the time of a kernel, whatever else the machine does.
static double computed(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The fastest of repeated runs, in seconds.
static double best_of(kernel_run *k) {
    double best = 1e30, end = computed() + seconds;
    for (int i = 0; i < 3 || computed() < end; i++) {
        double from = computed();
        must(kernel_go(k));
        double took = computed() - from;
        if (took < best) best = took;
    }
    return best;
}

// GFLOP/s of a product that suits every cache: what the others are held against.
static double peak_gflops(void) {
    enum { N = 256 };
    kernel_run k = {.spec = {.op = PPL_OP_MATMUL, .inputs = 2, .outputs = 1, .threads = 1, .param_input = -1}};
    k.spec.in[0] = k.spec.in[1] = k.spec.out[0] = type_of(PPL_F32, 2, N, N, 1);
    must(kernel_open(&k));
    random_fill(k.call.in[0], &k.spec.in[0], 1, 1);
    random_fill(k.call.in[1], &k.spec.in[1], 2, 1);
    double best = best_of(&k);
    kernel_close(&k);
    return 2.0 * N * N * N / best * 1e-9;
}

static void measure(const char *what, kernel_run *k, double flops) {
    must(kernel_open(k));
    for (int32_t i = 0; i < k->spec.inputs; i++) random_fill(k->call.in[i], &k->spec.in[i], (uint64_t)i + 1, 0.5);
    must(kernel_pack(k));
    double peak = peak_gflops(), best = best_of(k), gflops = flops / best * 1e-9;
    printf("%-34s %-5s %10.1f us %8.1f GFLOP/s  %5.2f of the f32 product's %.1f\n", what,
           ppl_dtype_name(k->spec.in[0].dtype), best * 1e6, gflops, gflops / peak, peak);
    fflush(stdout);
    kernel_close(k);
}

static void linear(const char *name, int32_t dtype, int64_t rows, int64_t ic, int64_t oc, int64_t act) {
    char what[64];
    double flops = 2.0 * (double)rows * (double)ic * (double)oc;
    kernel_run k = {
        .spec = {.op = PPL_OP_LINEAR,
                 .inputs = 3,
                 .outputs = act ? 2 : 1,
                 .attrs = {.i = {act}},
                 .in = {type_of(dtype, 2, rows, ic, 1), type_of(dtype, 2, oc, ic, 1), type_of(dtype, 1, oc, 1, 1)},
                 .out = {type_of(dtype, 2, rows, oc, 1), type_of(dtype, 2, rows, oc, 1)},
                 .threads = 1,
                 .param_input = 1}};
    snprintf(what, sizeof what, "linear %s %d->%d", name, (int)ic, (int)oc);
    measure(what, &k, flops);
    k = (kernel_run){.spec = {.op = PPL_OP_LINEAR_DX,
                              .inputs = 2,
                              .outputs = 1,
                              .in = {type_of(dtype, 2, rows, oc, 1), type_of(dtype, 2, oc, ic, 1)},
                              .out = {type_of(dtype, 2, rows, ic, 1)},
                              .threads = 1,
                              .param_input = 1}};
    snprintf(what, sizeof what, "linear_dx %d->%d", (int)oc, (int)ic);
    measure(what, &k, flops);
    k = (kernel_run){.spec = {.op = PPL_OP_LINEAR_DW,
                              .inputs = 2,
                              .outputs = 1,
                              .accumulates = true,
                              .in = {type_of(dtype, 2, rows, oc, 1), type_of(dtype, 2, rows, ic, 1)},
                              .out = {type_of(PPL_F32, 2, oc, ic, 1)},
                              .threads = 1,
                              .param_input = -1}};
    k.call.add = true;
    snprintf(what, sizeof what, "linear_dw %dx%d", (int)oc, (int)ic);
    measure(what, &k, flops);
}

// Flops counted: those of the products over the part that is not masked; the gradient has five, one of them again.
static void attention(int32_t dtype, int64_t batch, int64_t time, int64_t heads, int64_t d, bool causal) {
    char what[64];
    double pairs = (double)(batch * heads) * (double)time * (double)(causal ? time + 1 : 2 * time) / 2;
    ppl_type qkv = type_of(dtype, 3, batch, time, 3 * heads * d), o = type_of(dtype, 3, batch, time, heads * d);
    ppl_type lse = type_of(PPL_F32, 3, batch, heads, time);
    ppl_attrs attrs = {.i = {heads, heads, causal}};
    kernel_run k = {.spec = {.op = PPL_OP_ATTENTION,
                             .inputs = 1,
                             .outputs = 2,
                             .attrs = attrs,
                             .in = {qkv},
                             .out = {o, lse},
                             .threads = 1,
                             .param_input = -1}};
    snprintf(what, sizeof what, "attention T %d H %d D %d%s", (int)time, (int)heads, (int)d, causal ? " causal" : "");
    measure(what, &k, 4 * pairs * (double)d);
    k = (kernel_run){.spec = {.op = PPL_OP_ATTENTION_GRAD,
                              .inputs = 4,
                              .outputs = 1,
                              .attrs = attrs,
                              .in = {o, o, lse, qkv},
                              .out = {qkv},
                              .threads = 1,
                              .param_input = -1}};
    snprintf(what, sizeof what, "attention_grad T %d H %d D %d%s", (int)time, (int)heads, (int)d,
             causal ? " causal" : "");
    measure(what, &k, 10 * pairs * (double)d);
}

int main(int argc, char **argv) {
    if (argc > 1) seconds = atof(argv[1]);
    must(ppl_cpu_isa_set(NULL));
    printf("instruction set %s, bf16 products %s\n", ppl_cpu_isa(), ppl_cpu_bf16() ? "native" : "widened to f32");
    for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++) {
        linear("", dtype, 1024, 384, 1152, PPL_ACT_NONE);
        linear("gelu", dtype, 1024, 384, 1536, PPL_ACT_GELU_TANH);
        linear("", dtype, 1024, 1536, 384, PPL_ACT_NONE);
        linear("", dtype, 256, 768, 3072, PPL_ACT_NONE);
        attention(dtype, 1, 256, 6, 64, true);
        attention(dtype, 1, 256, 6, 64, false);
        attention(dtype, 1, 1024, 6, 64, true);
        attention(dtype, 1, 256, 3, 128, true);
    }
    return 0;
}
