// test_kernels.c - every kernel of the cpu device against the reference device, forward and backward, f32 and bf16, on
// each instruction set of this machine, with one thread and with two. Each case is a small graph: the reference runs it,
// then each of its nodes runs alone on the cpu with the reference's inputs. An operator without a case fails the test.
#include "device/cpu/cpu.h"
#include "ops/op.h"
#include "support/cases.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ACT(a) .attrs = {.i = {a}}
static const ppl_case cases[] = {
    {.op = PPL_OP_LINEAR, .in = {X(1, 1), W(1, 1)}},
    {.op = PPL_OP_LINEAR, .in = {X(17), W(3, 17), W(3)}},
    {.op = PPL_OP_LINEAR, .in = {X(3, 17), W(33, 17), W(33)}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 5, 67), W(33, 67)}},
    {.op = PPL_OP_LINEAR, .in = {X(67, 33), W(1, 33), W(1)}},
    {.op = PPL_OP_LINEAR, .in = {X(130, 64), W(96, 64), W(96)}, ACT(PPL_ACT_GELU_TANH)},
    {.op = PPL_OP_LINEAR, .in = {X(1, 3), W(67, 3), W(67)}, ACT(PPL_ACT_RELU)},
    {.op = PPL_OP_LINEAR, .in = {X(3, 17, 33), W(67, 33), W(67)}, ACT(PPL_ACT_GELU_TANH)},
    {.op = PPL_OP_LINEAR, .in = {X(17, 33), W(17, 33)}, ACT(PPL_ACT_GELU_ERF)},
    {.op = PPL_OP_LINEAR, .in = {X(17, 3), W(33, 3), W(33)}, ACT(PPL_ACT_SILU)},
    {.op = PPL_OP_LINEAR, .in = {D(17, 33), X(3, 33), X(3)}},
    {.op = PPL_OP_LINEAR, .in = {X(5, 9), W(7, 9), W(7)}, ACT(PPL_ACT_SILU), .outputs = 2},
    {.op = PPL_OP_MATMUL, .in = {X(1, 1), X(1, 1)}},
    {.op = PPL_OP_MATMUL, .in = {X(3, 17), X(17, 33)}},
    {.op = PPL_OP_MATMUL, .in = {X(3, 17, 33), X(3, 33, 67)}},
    {.op = PPL_OP_MATMUL, .in = {X(3, 17, 5), X(3, 17, 33)}, .attrs = {.i = {1, 0}}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 3, 1, 17), X(2, 3, 33, 17)}, .attrs = {.i = {0, 1}}},
    {.op = PPL_OP_MATMUL, .in = {X(1, 33, 17), X(1, 3, 33)}, .attrs = {.i = {1, 1}}},
    {.op = PPL_OP_MATMUL, .in = {X(3, 17), W(17, 33)}},
    {.op = PPL_OP_ADD, .in = {X(3, 67), X(3, 67)}},
    {.op = PPL_OP_ADD, .in = {X(3, 17, 33), W(17, 33)}},
    {.op = PPL_OP_ADD, .in = {X(67, 3), W(3)}},
    {.op = PPL_OP_ADD, .in = {X(17, 1), X(1)}},
    {.op = PPL_OP_ADD, .in = {X(1000, 33), SCALAR}},
    {.op = PPL_OP_MUL, .in = {X(3, 67), X(3, 67)}},
    {.op = PPL_OP_MUL, .in = {X(3, 17, 33), W(17, 33)}},
    {.op = PPL_OP_MUL, .in = {X(67, 3), X(3)}},
    {.op = PPL_OP_MUL, .in = {X(1000, 33), SCALAR}},
    {.op = PPL_OP_SCALE, .in = {X(17, 67)}, .attrs = {.f = {-0.7}}},
    {.op = PPL_OP_SCALE, .in = {W(1)}, .attrs = {.f = {3}}},
    {.op = PPL_OP_EMBEDDING, .in = {I(1), W(1, 1)}, .limit = 1},
    {.op = PPL_OP_EMBEDDING, .in = {I(3, 17), W(7, 33)}, .limit = 7},
    {.op = PPL_OP_EMBEDDING, .in = {I(67), X(3, 17)}, .limit = 3},
    {.op = PPL_OP_EMBEDDING, .in = {I(300), W(67, 130)}, .limit = 67},
    {.op = PPL_OP_LAYERNORM, .in = {X(3, 1), W(1), W(1)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_LAYERNORM, .in = {X(1, 17), W(17), W(17)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_LAYERNORM, .in = {X(3, 17, 33), W(33), W(33)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_LAYERNORM, .in = {X(300, 67), W(67), W(67)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_LAYERNORM, .in = {X(17, 3), X(3), X(3)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_RMSNORM, .in = {X(3, 1), W(1)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_RMSNORM, .in = {X(3, 17, 33), W(33)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_RMSNORM, .in = {X(300, 67), W(67)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_RMSNORM, .in = {X(17, 3), X(3)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_ROPE, .in = {X(3, 17, 36)}, .attrs = {.i = {12, 2, 0}, .f = {10000}}},
    {.op = PPL_OP_ROPE, .in = {X(1, 67, 96)}, .attrs = {.i = {32, 3, 1}, .f = {10000}}},
    {.op = PPL_OP_ROPE, .in = {X(1, 1, 2)}, .attrs = {.i = {2, 1, 0}, .f = {10}}},
    {.op = PPL_OP_ACT, .in = {X(3, 17)}, ACT(PPL_ACT_NONE)},
    {.op = PPL_OP_ACT, .in = {X(3, 67)}, ACT(PPL_ACT_RELU)},
    {.op = PPL_OP_ACT, .in = {X(33, 67)}, ACT(PPL_ACT_GELU_TANH)},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_GELU_ERF)},
    {.op = PPL_OP_ACT, .in = {W(1)}, ACT(PPL_ACT_SILU)},
    {.op = PPL_OP_ACT, .in = {X(3, 67)}, ACT(PPL_ACT_SILU)},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_GELU_TANH), .gain = 8},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_GELU_ERF), .gain = 8},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_SILU), .gain = 100},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_GELU_TANH), .gain = 1000},
    {.op = PPL_OP_ACT, .in = {X(17, 67)}, ACT(PPL_ACT_GELU_ERF), .gain = 1000},
    {.op = PPL_OP_SOFTMAX, .in = {X(1, 1)}},
    {.op = PPL_OP_SOFTMAX, .in = {X(3, 17, 33)}},
    {.op = PPL_OP_SOFTMAX, .in = {X(300, 67)}},
    {.op = PPL_OP_SOFTMAX, .in = {X(3, 67)}, .gain = 100},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 1, 3)}, .attrs = {.i = {1, 1, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 17, 102)}, .attrs = {.i = {2, 2, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 67, 96)}, .attrs = {.i = {2, 2, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 33, 264)}, .attrs = {.i = {4, 2, 1}, .f = {0.3}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 130, 192)}, .attrs = {.i = {1, 1, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 17, 6), X(2, 17, 6), X(2, 17, 6)}, .attrs = {.i = {2, 2, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(3, 33, 132), X(3, 33, 33), X(3, 33, 33)}, .attrs = {.i = {4, 1, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 3, 64), X(1, 3, 32), X(1, 3, 32)}, .attrs = {.i = {4, 2, 0}, .f = {1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 17, 96)}, .attrs = {.i = {2, 2, 1}, .f = {1}}, .gain = 4},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 17, 33)}, .attrs = {.f = {0.3}}},
    {.op = PPL_OP_DROPOUT, .in = {X(33, 67)}, .attrs = {.f = {0.5}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 17)}, .attrs = {.f = {0}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 17)}, .attrs = {.f = {0.5}}, .evaluating = true},
    {.op = PPL_OP_RESHAPE, .in = {X(3, 34)}, .attrs = {.i = {2, 17, 6}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(3, 17)}, .attrs = {.i = {0, 1}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(3, 17, 33)}, .attrs = {.i = {2, 0}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(2, 17, 3, 33)}, .attrs = {.i = {1, 2}}},
    {.op = PPL_OP_SLICE, .in = {X(67)}, .attrs = {.i = {0, 3, 33}}},
    {.op = PPL_OP_SLICE, .in = {X(3, 17, 33)}, .attrs = {.i = {1, 16, 1}}},
    {.op = PPL_OP_SLICE, .in = {X(3, 17, 33)}, .attrs = {.i = {2, 1, 17}}},
    {.op = PPL_OP_CONCAT, .in = {X(3, 17)}, .attrs = {.i = {0}}},
    {.op = PPL_OP_CONCAT, .in = {X(3, 17), X(1, 17), W(33, 17)}, .attrs = {.i = {0}}},
    {.op = PPL_OP_CONCAT, .in = {X(3, 17), D(3, 1), X(3, 33)}, .attrs = {.i = {1}}},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(1, 1), C(1)}, .limit = 1},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(33, 67), C(33)}, .limit = 67},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(3, 17, 33), C(3, 17)}, .limit = 33},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(300, 257), C(300)}, .limit = 257},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(17, 67), C(17)}, .limit = 67, .gain = 100},
    {.op = PPL_OP_MSE, .in = {X(17, 67), T(17, 67)}},
    {.op = PPL_OP_MSE, .in = {W(1), D(1)}},
};
enum { CASES = sizeof cases / sizeof *cases };

enum { STORED = 1, ACCUMULATED = 2 };
static int seen[PPL_DTYPES][PPL_OPS]; // in which forms a kernel ran
static int failures;
static double worst[PPL_DTYPES][PPL_OPS]; // largest error as a part of what is allowed

// One rounding to bf16 may fall to the other side: a unit in the last place, 2^-7 of the value at most.
static double ulp(int32_t dtype) {
    return dtype == PPL_BF16 ? 0x1p-7 : 0;
}

typedef struct run {
    ppl_interpret *t; // ran on the reference
    const ppl_node *node;
    ppl_kernel_spec spec;
    const char *text; // of the case
    int32_t threads;
    bool add;
} run;

// The largest score of an attention node, near enough: what exp sees has an error in proportion to it.
static double score_size(const run *r) {
    ppl_value lse = r->spec.op == PPL_OP_ATTENTION ? r->node->out[1] : r->node->in[2];
    const ppl_type *type = ppl_graph_type_of(r->t->graph, lse);
    double largest = 1;
    for (int64_t i = 0; i < ppl_type_elements(type); i++)
        largest = fmax(largest, fabs(ppl_number_get(r->t->data[lse], type->dtype, i)));
    return largest;
}

// What a kernel may have wrong, relative to the largest value: rounding of f32 sums and, where the CPU multiplies bf16,
// of the bf16 values that the attention kernels keep between their two products.
static double slack(const run *r, int32_t dtype) {
    bool attention = r->spec.op == PPL_OP_ATTENTION || r->spec.op == PPL_OP_ATTENTION_GRAD;
    if (r->spec.in[0].dtype == PPL_BF16 && attention && ppl_cpu_bf16()) return 0x1p-7;
    if (dtype != PPL_F32 && dtype != PPL_BF16) return 0;
    return 1e-6 * (attention ? score_size(r) : 1);
}

static void fail_at(const run *r, int32_t output, int64_t i, double is, double want) {
    if (failures++ > 20) return;
    print_error("%s: node %s (%s), %s, %d threads, add %d: output %d[%lld] is %.9g, want %.9g\n", r->text,
                r->node->name, ppl_op_name(r->spec.op), ppl_dtype_name(r->t->graph->dtype), r->threads, r->add, output,
                (long long)i, is, want);
}

// What an accumulator holds before +=.
static double before(int64_t i) {
    return (double)(i % 7) - 3;
}

// act of element i of the kernel's own pre-activation, rounded as it is stored.
static double activated(const run *r, const void *pre, int64_t i) {
    ppl_type one = ppl_type_make(r->spec.out[1].dtype, 0, NULL);
    ppl_kernel_spec act = {.inputs = 1, .outputs = 1, .attrs.i[0] = r->spec.attrs.i[0], .in[0] = one, .out[0] = one};
    double y;
    ppl_call call = {.in = {(const char *)pre + (size_t)i * ppl_dtype_size(one.dtype)}, .out = {&y}};
    ppl_reference_kernel(PPL_OP_ACT)->run(&act, NULL, &call);
    return ppl_number_get(&y, one.dtype, 0);
}

// out against the reference's value, which for a fused activation is recomputed from the kernel's own pre-activation.
static void compare(const run *r, void *const *out) {
    bool fused = r->spec.op == PPL_OP_LINEAR && r->spec.outputs == 2;
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        const ppl_type *type = &r->spec.out[k];
        const void *reference = r->t->data[r->node->out[k]];
        int64_t n = ppl_type_elements(type);
        double largest = 0, tolerance = slack(r, type->dtype);
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(ppl_number_get(reference, type->dtype, i)));
        for (int64_t i = 0; i < n; i++) {
            double want = ppl_number_get(reference, type->dtype, i), is = ppl_number_get(out[k], type->dtype, i);
            if (fused && k == 0) want = activated(r, out[1], i);
            if (r->spec.accumulates && r->add) want += before(i);
            double allowed = tolerance * (largest + (r->add ? 3 : 0)) + ulp(type->dtype) * fabs(want);
            double error = fabs(is - want), *most = &worst[r->t->graph->dtype][r->spec.op];
            if (!(error <= allowed)) fail_at(r, k, i, is, want);
            if (allowed > 0) *most = fmax(*most, error / allowed);
        }
    }
}

enum { MARGIN = 64 }; // bytes behind an output that a kernel must leave alone

// The same program again gives the same bits.
static void repeat(const run *r, ppl_device *device, ppl_device_program *program, const ppl_program_run *what,
                   void *const *out) {
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.out[k]);
        void *first = malloc(bytes);
        memcpy(first, out[k], bytes);
        assert_int_equal(ppl_device_cpu.program_run(device, program, what), PPL_OK);
        if (memcmp(first, out[k], bytes)) fail_msg("%s: node %s gives other bits again", r->text, r->node->name);
        free(first);
    }
}

// A fused activation gives the bits of ACT on the pre-activation that is kept.
static void fused_bits(const run *r, ppl_device *device, void *const *out) {
    const ppl_device_ops *cpu = &ppl_device_cpu;
    ppl_device_program *program;
    ppl_program_needs needs;
    size_t bytes = ppl_type_bytes(&r->spec.out[0]);
    ppl_device_node node = {.param = -1, .name = "parts"};
    node.spec = (ppl_kernel_spec){.op = PPL_OP_ACT, .inputs = 1, .outputs = 1, .attrs = r->spec.attrs};
    node.spec.in[0] = node.spec.out[0] = r->spec.out[0];
    assert_int_equal(cpu->program_build(device, 0, 0, &node, 1, &needs, &program), PPL_OK);
    assert_int_equal(needs.scratch, 0);
    ppl_call call = {.in = {out[1]}, .out = {malloc(bytes)}};
    ppl_program_run what = {.calls = &call, .env = &r->t->env};
    assert_int_equal(cpu->program_run(device, program, &what), PPL_OK);
    if (memcmp(call.out[0], out[0], bytes)) fail_msg("%s: fused and apart give other bits", r->text);
    free(call.out[0]);
    cpu->program_free(device, program);
}

// Runs the node alone on the cpu.
static void run_node(run *r) {
    const ppl_device_ops *cpu = &ppl_device_cpu;
    const ppl_graph *g = r->t->graph;
    ppl_device *device;
    ppl_device_program *program;
    ppl_program_needs needs;
    ppl_device_options options = {.threads = r->threads, .fail_task = -1, .stall_task = -1};
    int32_t param_input = r->spec.param_input;
    int32_t param = param_input < 0 ? -1 : g->values[r->node->in[param_input]].param;
    ppl_device_node node = {.spec = r->spec, .param = param, .name = r->node->name};
    if (cpu->open(&options, &device) != PPL_OK ||
        cpu->program_build(device, 0, 0, &node, 1, &needs, &program) != PPL_OK)
        fail_msg("%s: %s", r->text, ppl_error());
    ppl_call call = {.add = r->add};
    void *scratch, *packed, *out[PPL_MAX_OUTPUTS];
    assert_int_equal(cpu->memory_get(device, needs.scratch, &scratch), PPL_OK);
    assert_int_equal(cpu->memory_get(device, needs.pack, &packed), PPL_OK);
    memset(scratch, 0xff, needs.scratch); // NaN: a kernel may not rely on zeros
    assert_int_equal(cpu->pack_bind(device, packed, needs.pack), PPL_OK);
    if (param >= 0) assert_int_equal(cpu->pack(device, param, r->t->data[r->node->in[param_input]]), PPL_OK);
    for (int32_t k = 0; k < r->spec.inputs; k++) call.in[k] = r->t->data[r->node->in[k]];
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.out[k]);
        out[k] = call.out[k] = malloc(bytes + MARGIN);
        memset(out[k], 0xff, bytes + MARGIN);
        for (int64_t i = 0; r->add && i < ppl_type_elements(&r->spec.out[k]); i++)
            ppl_number_set(out[k], r->spec.out[k].dtype, i, before(i));
    }
    ppl_program_run what = {.calls = &call, .scratch = scratch, .env = &r->t->env};
    if (cpu->program_run(device, program, &what) != PPL_OK) fail_msg("%s: %s", r->text, ppl_error());
    compare(r, out);
    if (r->spec.op == PPL_OP_LINEAR && r->spec.outputs == 2) fused_bits(r, device, out);
    if (!r->add) repeat(r, device, program, &what, out);
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        const unsigned char *end = (unsigned char *)out[k] + ppl_type_bytes(&r->spec.out[k]);
        for (int i = 0; i < MARGIN; i++)
            if (end[i] != 0xff) fail_msg("%s: node %s writes behind output %d", r->text, r->node->name, k);
        free(out[k]);
    }
    cpu->memory_free(device, scratch);
    cpu->memory_free(device, packed);
    cpu->program_free(device, program);
    cpu->close(device);
}

static void check_case(const ppl_case *c, int32_t dtype) {
    char text[256];
    ppl_graph *g;
    ppl_interpret t;
    ppl_case_print(c, text);
    if (ppl_case_build(c, dtype, &g) != PPL_OK || ppl_interpret_open(&t, g, "reference", 1) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    ppl_case_fill(c, &t, 2);
    if (ppl_interpret_forward(&t) != PPL_OK || ppl_interpret_backward(&t, 0.37, false) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    for (size_t i = 0; i < g->n_nodes; i++) {
        run r = {.t = &t, .node = &g->nodes[i], .text = text};
        if (!ppl_cpu_kernel(r.node->op)) continue; // an alias; what else lacks one fails at the end
        ppl_interpret_spec(g, r.node, &r.spec);
        for (r.threads = 1; r.threads <= PPL_TEST_THREADS; r.threads++)
            for (int add = 0; add <= r.spec.accumulates; add++) r.add = add, run_node(&r);
        seen[dtype][r.spec.op] |= r.spec.accumulates ? ACCUMULATED : STORED;
    }
    ppl_interpret_close(&t);
    ppl_graph_close(g);
}

// Every operator that is not an alias has a kernel here and ran; those that accumulate ran in both forms (ACCUMULATE
// does nothing else).
static void check_coverage(int32_t dtype) {
    for (int32_t op = 0; op < PPL_OPS; op++) {
        uint32_t flags = ppl_op_get(op)->flags;
        if (flags & PPL_OP_ALIAS) continue;
        int want = flags & PPL_OP_ACCUMULATES ? op == PPL_OP_ACCUMULATE ? ACCUMULATED : ACCUMULATED | STORED : STORED;
        if (!ppl_cpu_kernel(op)) fail_msg("%s: the cpu device has no kernel", ppl_op_name(op));
        if ((seen[dtype][op] & want) != want)
            fail_msg("%s %s: no case here, want one for each form (%d)", ppl_dtype_name(dtype), ppl_op_name(op), want);
    }
}

typedef struct setting {
    const char *isa;
    int32_t dtype;
} setting;

static void test_kernels(void **state) {
    const setting *s = *state;
    if (ppl_cpu_isa_set(s->isa) != PPL_OK) {
        print_message("skipped: %s\n", ppl_error());
        skip();
    }
    memset(seen, 0, sizeof seen);
    memset(worst, 0, sizeof worst);
    failures = 0;
    for (int i = 0; i < CASES; i++) check_case(&cases[i], s->dtype);
    for (int32_t op = 0; op < PPL_OPS && getenv("PPL_TEST_VERBOSE"); op++)
        print_message("%-20s %.3f of what is allowed\n", ppl_op_name(op), worst[s->dtype][op]);
    if (failures) fail_msg("%d numbers are wrong", failures);
    check_coverage(s->dtype);
}

int main(void) {
    static setting settings[] = {{"avx2", PPL_F32}, {"avx2", PPL_BF16}, {"avx512", PPL_F32}, {"avx512", PPL_BF16}};
    const struct CMUnitTest tests[] = {
        {.name = "avx2 f32", .test_func = test_kernels, .initial_state = &settings[0]},
        {.name = "avx2 bf16", .test_func = test_kernels, .initial_state = &settings[1]},
        {.name = "avx512 f32", .test_func = test_kernels, .initial_state = &settings[2]},
        {.name = "avx512 bf16", .test_func = test_kernels, .initial_state = &settings[3]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
