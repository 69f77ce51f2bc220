// kernel_check.c - see kernel_check.h.
#include "support/kernel_check.h"
#include "ops/op.h"
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
    // rows of whole vectors, and more than one block of rows, columns, keys
    {.op = PPL_OP_LINEAR, .in = {X(2, 24, 32), W(64, 32), W(64)}, ACT(PPL_ACT_SILU)},
    {.op = PPL_OP_ADD, .in = {X(3, 5, 64), W(5, 64)}},
    {.op = PPL_OP_MUL, .in = {X(16, 64), W(64)}},
    {.op = PPL_OP_MUL, .in = {X(16, 64), SCALAR}},
    {.op = PPL_OP_ACT, .in = {X(8, 64)}, ACT(PPL_ACT_GELU_TANH)},
    {.op = PPL_OP_EMBEDDING, .in = {I(40), W(33, 64)}, .limit = 33},
    {.op = PPL_OP_EMBEDDING, .in = {I(300), W(1100, 24)}, .limit = 1100},
    {.op = PPL_OP_LAYERNORM, .in = {X(70, 1032), W(1032), W(1032)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_RMSNORM, .in = {X(70, 1032), W(1032)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_ROPE, .in = {X(2, 19, 128)}, .attrs = {.i = {32, 2, 0}, .f = {10000}}},
    {.op = PPL_OP_SOFTMAX, .in = {X(5, 264)}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 140, 384)}, .attrs = {.i = {4, 1, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 100, 384)}, .attrs = {.i = {1, 1, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 70, 480)}, .attrs = {.i = {2, 1, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 35, 450)}, .attrs = {.i = {1, 1, 1}}},
    {.op = PPL_OP_DROPOUT, .in = {X(5, 4, 32)}, .attrs = {.f = {0.25}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(2, 40, 3, 64)}, .attrs = {.i = {1, 2}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(2, 40, 72)}, .attrs = {.i = {1, 2}}},
    {.op = PPL_OP_SLICE, .in = {X(6, 64)}, .attrs = {.i = {1, 16, 32}}},
    {.op = PPL_OP_CONCAT, .in = {X(6, 16), X(6, 32)}, .attrs = {.i = {1}}},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(9, 2056), C(9)}, .limit = 2056},
    {.op = PPL_OP_MSE, .in = {X(16, 64), T(16, 64)}},
};
enum { CASES = sizeof cases / sizeof *cases };

enum { STORED = 1, ACCUMULATED = 2 };
static int seen[PPL_OPS]; // in which forms a kernel ran
static int failures;
static double worst[PPL_OPS]; // largest error as a part of what is allowed

// One rounding to bf16 may fall to the other side: a unit in the last place, 2^-7 of the value at most.
static double ulp(int32_t dtype) {
    return dtype == PPL_BF16 ? 0x1p-7 : 0;
}

typedef struct run {
    const ppl_kernel_check *check;
    ppl_interpret *t; // ran on the reference
    const ppl_node *node;
    ppl_kernel_spec spec;
    const char *text; // of the case
    int32_t threads;
    bool add;
    ppl_device *device;
    ppl_call call; // addresses on the device
    void *scratch, *packed;
    ppl_device_program *program;
    void *out[PPL_MAX_OUTPUTS]; // what it gave, on the host, with the margin
} run;

#define OK(call_)                                                                                                      \
    do {                                                                                                               \
        if ((call_) != PPL_OK) fail_msg("%s: node %s: %s", r->text, r->node->name, ppl_error());                       \
    } while (0)

// ---- numbers

// The largest score of an attention node, near enough: what exp sees has an error in proportion to it.
static double score_size(const run *r) {
    ppl_value lse = r->spec.op == PPL_OP_ATTENTION ? r->node->out[1] : r->node->in[2];
    const ppl_type *type = ppl_graph_type_of(r->t->graph, lse);
    double largest = 1;
    for (int64_t i = 0; i < ppl_type_elements(type); i++)
        largest = fmax(largest, fabs(ppl_number_get(r->t->data[lse], type->dtype, i)));
    return largest;
}

// What a kernel may have wrong, relative to the largest value: rounding of f32 sums and, where bf16 is multiplied, of the
// bf16 values that the attention kernels keep between their two products.
static double slack(const run *r, int32_t dtype) {
    bool attention = r->spec.op == PPL_OP_ATTENTION || r->spec.op == PPL_OP_ATTENTION_GRAD;
    if (r->spec.in[0].dtype == PPL_BF16 && attention && r->check->multiplies_bf16) return 0x1p-7;
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
static void compare(const run *r) {
    bool fused = r->spec.op == PPL_OP_LINEAR && r->spec.outputs == 2;
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        const ppl_type *type = &r->spec.out[k];
        const void *reference = r->t->data[r->node->out[k]];
        int64_t n = ppl_type_elements(type);
        double largest = 0, tolerance = slack(r, type->dtype);
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(ppl_number_get(reference, type->dtype, i)));
        for (int64_t i = 0; i < n; i++) {
            double want = ppl_number_get(reference, type->dtype, i), is = ppl_number_get(r->out[k], type->dtype, i);
            if (fused && k == 0) want = activated(r, r->out[1], i);
            if (r->spec.accumulates && r->add) want += before(i);
            double allowed = tolerance * (largest + (r->add ? 3 : 0)) + ulp(type->dtype) * fabs(want);
            double error = fabs(is - want);
            if (!(error <= allowed)) fail_at(r, k, i, is, want);
            if (allowed > 0) worst[r->spec.op] = fmax(worst[r->spec.op], error / allowed);
        }
    }
}

// ---- a node alone on the device

enum { MARGIN = 64 }; // bytes behind an output that a kernel must leave alone

static void *memory(const run *r, size_t bytes) {
    void *p = NULL;
    OK(r->check->ops->memory_get(r->device, bytes, &p));
    return p;
}

static void write_to(const run *r, void *to, const void *from, size_t bytes) {
    OK(r->check->ops->copy_in(r->device, to, from, bytes, 0));
    OK(r->check->ops->synchronize(r->device));
}

// Outputs begin as 0xff, which is NaN, or as what an accumulator holds.
static void outputs_fill(run *r) {
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.out[k]) + MARGIN;
        memset(r->out[k], 0xff, bytes);
        for (int64_t i = 0; r->add && i < ppl_type_elements(&r->spec.out[k]); i++)
            ppl_number_set(r->out[k], r->spec.out[k].dtype, i, before(i));
        write_to(r, r->call.out[k], r->out[k], bytes);
    }
}

static void go(run *r) {
    ppl_program_run what = {.calls = &r->call, .scratch = r->scratch, .env = &r->t->env};
    OK(r->check->ops->program_run(r->device, r->program, &what));
    OK(r->check->ops->synchronize(r->device));
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.out[k]);
        OK(r->check->ops->copy_out(r->device, r->out[k], r->call.out[k], bytes + MARGIN, 0));
        for (int i = 0; i < MARGIN; i++)
            if (((unsigned char *)r->out[k])[bytes + (size_t)i] != 0xff)
                fail_msg("%s: node %s writes behind output %d", r->text, r->node->name, k);
    }
}

// The same program again gives the same bits.
static void repeat(run *r) {
    void *first[PPL_MAX_OUTPUTS];
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        first[k] = malloc(ppl_type_bytes(&r->spec.out[k]));
        memcpy(first[k], r->out[k], ppl_type_bytes(&r->spec.out[k]));
    }
    go(r);
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        if (memcmp(first[k], r->out[k], ppl_type_bytes(&r->spec.out[k])))
            fail_msg("%s: node %s gives other bits again", r->text, r->node->name);
        free(first[k]);
    }
}

// A fused activation gives the bits of ACT on the pre-activation that is kept.
static void fused_bits(const run *r) {
    const ppl_device_ops *ops = r->check->ops;
    ppl_device_program *program;
    ppl_program_needs needs;
    size_t bytes = ppl_type_bytes(&r->spec.out[0]);
    ppl_device_node node = {.param = -1, .name = "parts"};
    node.spec = (ppl_kernel_spec){.op = PPL_OP_ACT, .inputs = 1, .outputs = 1, .attrs = r->spec.attrs};
    node.spec.in[0] = node.spec.out[0] = r->spec.out[0];
    OK(ops->program_build(r->device, 0, 0, &node, 1, &needs, &program));
    assert_int_equal(needs.scratch, 0);
    ppl_call call = {.in = {r->call.out[1]}, .out = {memory(r, bytes)}};
    ppl_program_run what = {.calls = &call, .env = &r->t->env};
    OK(ops->program_run(r->device, program, &what));
    void *parts = malloc(bytes);
    OK(ops->copy_out(r->device, parts, call.out[0], bytes, 0));
    if (memcmp(parts, r->out[0], bytes)) fail_msg("%s: fused and apart give other bits", r->text);
    free(parts);
    ops->memory_free(r->device, call.out[0]);
    ops->program_free(r->device, program);
}

static void node_open(run *r) {
    const ppl_device_ops *ops = r->check->ops;
    ppl_program_needs needs;
    int32_t param_input = r->spec.param_input;
    int32_t param = param_input < 0 ? -1 : r->t->graph->values[r->node->in[param_input]].param;
    ppl_device_node node = {.spec = r->spec, .param = param, .name = r->node->name};
    OK(ops->program_build(r->device, 0, 0, &node, 1, &needs, &r->program));
    r->call = (ppl_call){.add = r->add};
    r->scratch = memory(r, needs.scratch);
    r->packed = memory(r, needs.pack);
    char *nan = malloc(needs.scratch + 1);
    memset(nan, 0xff, needs.scratch); // NaN: a kernel may not rely on zeros
    write_to(r, r->scratch, nan, needs.scratch);
    free(nan);
    for (int32_t k = 0; k < r->spec.inputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.in[k]);
        r->call.in[k] = memory(r, bytes);
        write_to(r, (void *)(uintptr_t)r->call.in[k], r->t->data[r->node->in[k]], bytes);
    }
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        size_t bytes = ppl_type_bytes(&r->spec.out[k]) + MARGIN;
        r->call.out[k] = memory(r, bytes);
        r->out[k] = malloc(bytes);
    }
    OK(ops->pack_bind(r->device, r->packed, needs.pack));
    if (param >= 0) OK(ops->pack(r->device, param, r->call.in[param_input]));
}

static void node_close(run *r) {
    const ppl_device_ops *ops = r->check->ops;
    for (int32_t k = 0; k < r->spec.inputs; k++) ops->memory_free(r->device, (void *)(uintptr_t)r->call.in[k]);
    for (int32_t k = 0; k < r->spec.outputs; k++) {
        ops->memory_free(r->device, r->call.out[k]);
        free(r->out[k]);
    }
    ops->program_free(r->device, r->program);
    ops->memory_free(r->device, r->scratch);
    ops->memory_free(r->device, r->packed);
}

static void run_node(run *r) {
    node_open(r);
    outputs_fill(r);
    go(r);
    compare(r);
    if (r->spec.op == PPL_OP_LINEAR && r->spec.outputs == 2) fused_bits(r);
    if (!r->add) repeat(r);
    node_close(r);
}

// ---- cases

static ppl_device *device_open(const ppl_kernel_check *check, int32_t threads) {
    ppl_device *device;
    ppl_device_options options = {.threads = threads, .fail_task = -1, .stall_task = -1};
    if (check->ops->open(&options, &device) != PPL_OK) fail_msg("%s", ppl_error());
    return device;
}

// shared: a device for all nodes. Devices that pack parameters bind their memory once: they are opened for each node.
static void node_check(run *r, ppl_device *shared) {
    r->device = shared ? shared : device_open(r->check, r->threads);
    for (int add = 0; add <= r->spec.accumulates; add++) r->add = add, run_node(r);
    if (!shared) r->check->ops->close(r->device);
    seen[r->spec.op] |= r->spec.accumulates ? ACCUMULATED : STORED;
}

static void case_check(const ppl_kernel_check *check, const ppl_case *c, ppl_device *shared) {
    char text[256];
    ppl_graph *g;
    ppl_interpret t;
    ppl_case_print(c, text);
    if (ppl_case_build(c, check->dtype, &g) != PPL_OK || ppl_interpret_open(&t, g, "reference", 1) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    ppl_case_fill(c, &t, 2);
    if (ppl_interpret_forward(&t) != PPL_OK || ppl_interpret_backward(&t, 0.37, false) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    for (size_t i = 0; i < g->n_nodes; i++) {
        run r = {.check = check, .t = &t, .node = &g->nodes[i], .text = text};
        ppl_interpret_spec(g, r.node, &r.spec);
        for (r.threads = 1; r.threads <= check->threads; r.threads++) node_check(&r, shared);
    }
    ppl_interpret_close(&t);
    ppl_graph_close(g);
}

// Every operator that is not an alias ran; those that accumulate ran in both forms (ACCUMULATE does nothing else).
static void coverage_check(int32_t dtype) {
    for (int32_t op = 0; op < PPL_OPS; op++) {
        uint32_t flags = ppl_op_get(op)->flags;
        if (flags & PPL_OP_ALIAS) continue;
        int want = flags & PPL_OP_ACCUMULATES ? op == PPL_OP_ACCUMULATE ? ACCUMULATED : ACCUMULATED | STORED : STORED;
        if ((seen[op] & want) != want)
            fail_msg("%s %s: no case here, want one for each form (%d)", ppl_dtype_name(dtype), ppl_op_name(op), want);
    }
}

void ppl_kernel_check_run(const ppl_kernel_check *check) {
    memset(seen, 0, sizeof seen);
    memset(worst, 0, sizeof worst);
    failures = 0;
    ppl_device *shared = check->ops->flags & PPL_DEVICE_HOST ? NULL : device_open(check, 1);
    for (int i = 0; i < CASES; i++)
        if ((!check->only || strcmp(check->only, ppl_op_name(cases[i].op)) == 0) &&
            (!check->wants || check->wants(&cases[i])))
            case_check(check, &cases[i], shared);
    if (shared) check->ops->close(shared);
    for (int32_t op = 0; op < PPL_OPS && getenv("PPL_TEST_VERBOSE"); op++)
        print_message("%-20s %.3f of what is allowed\n", ppl_op_name(op), worst[op]);
    if (failures) fail_msg("%d numbers are wrong", failures);
    if (!check->only) coverage_check(check->dtype);
}
