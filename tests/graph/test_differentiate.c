// test_differentiate.c - what backward nodes a graph gets, in which order and phase, and who adds what to what.
#include "graph/tiny.h"

static ppl_value norm(ppl_graph *g, const char *name, ppl_value x, int64_t width) {
    char gain[32], bias[32];
    snprintf(gain, sizeof gain, "%s.g", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    ppl_value w = param(g, gain, 1, &width), b = param(g, bias, 1, &width);
    return apply(g, PPL_OP_LAYERNORM, name, ATTRS(.f = {1e-5}), x, w, b);
}

// A transformer block between tied embeddings: accumulators at once, one chain for the residual, W off the chain.
static void test_block(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_BF16);
    layer(g, "embed");
    ppl_value ids = input(g, "ids", PPL_I32, DIMS(2, 4)), targets = input(g, "targets", PPL_I32, DIMS(2, 4));
    ppl_value wte = param(g, "wte", DIMS(16, 8));
    ppl_value x = binary(g, PPL_OP_EMBEDDING, "tok", ids, wte);
    layer(g, "block");
    ppl_value n = norm(g, "norm", x, 8);
    ppl_value q = binary(g, PPL_OP_LINEAR, "qkv", n, param(g, "wqkv", DIMS(24, 8)));
    ppl_value o = apply(g, PPL_OP_ATTENTION, "att", ATTRS(.i = {2, 2, 1}), q, -1, -1);
    ppl_value r = binary(g, PPL_OP_ADD, "res", x, o);
    ppl_value w = param(g, "wfc", DIMS(8, 8)), b = param(g, "bfc", DIMS(8));
    ppl_value f = apply(g, PPL_OP_LINEAR, "fc", ATTRS(.i = {PPL_ACT_GELU_TANH}), r, w, b);
    layer(g, "head");
    ppl_value logits = binary(g, PPL_OP_LINEAR, "logits", f, wte);
    ppl_value loss = binary(g, PPL_OP_CROSS_ENTROPY, "ce", logits, targets);
    OK(ppl_graph_loss(g, loss));
    OK(ppl_graph_differentiate(g));
    assert_backward(g, "I 2 %21 bf16 (2, 4, 16) = cross_entropy_grad(%20, %17, %1, %19)  ce\n"
                       "I 2 %22 bf16 (2, 4, 8) = linear_dx(%21, %2)  logits\n"
                       "W 2 +%23 f32 (16, 8) = linear_dw(%21, %15)  logits -> wte\n"
                       "I 1 %24 bf16 (2, 4, 8) = act_grad(%22, %16) i0=2  fc\n"
                       "I 1 %25 bf16 (2, 4, 8) = linear_dx(%24, %13)  fc\n"
                       "W 1 +%26 f32 (8, 8) = linear_dw(%24, %12)  fc -> wfc\n"
                       "W 1 +%27 f32 (8) = reduce(%24) i0=1  fc -> bfc\n"
                       "I 1 %28 bf16 (2, 4, 24) = attention_grad(%25, %10, %11, %9) i0=2 i1=2 i2=1  att\n"
                       "I 1 %29 bf16 (2, 4, 8) = linear_dx(%28, %8)  qkv\n"
                       "W 1 +%30 f32 (24, 8) = linear_dw(%28, %6)  qkv -> wqkv\n"
                       "I 1 %31 bf16 (2, 4, 8) = layernorm_dx(%29, %3, %4, %7)  norm\n"
                       "W 1 +%32 f32 (8), %33 f32 (8) = layernorm_dw(%29, %3, %7)  norm -> norm.g, norm.b\n"
                       "I 1 %34 bf16 (2, 4, 8) = add(%25, %31)  norm\n"
                       "W 0 +%35 f32 (16, 8) = embedding_dw(%0, %34) i0=16  tok -> wte\n");
    ppl_graph_close(g);
}

// The MSE of x against a target input of its shape ends the graph; then it is differentiated.
static void finish(ppl_graph *g, ppl_value x) {
    const ppl_type t = *ppl_graph_type_of(g, x);
    ppl_value target = input(g, "target", t.dtype, (size_t)t.ndim, t.dim);
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "mse", x, target)));
    OK(ppl_graph_differentiate(g));
}

// A value read in layers 0, 1 and 2, twice in layer 1: one chain from the last use to the first, each add in the layer of
// the use that it adds, a node's own two uses in the order of its inputs.
static void test_chain_of_uses(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = param(g, "w", DIMS(4, 4));
    ppl_value h = binary(g, PPL_OP_LINEAR, "in", x, w);
    ppl_value a = unary(g, PPL_OP_SOFTMAX, "soft", h);
    layer(g, "l1");
    ppl_value b = binary(g, PPL_OP_MUL, "square", h, h);
    layer(g, "l2");
    ppl_value c = binary(g, PPL_OP_ADD, "join", a, b);
    ppl_value d = binary(g, PPL_OP_ADD, "skip", c, h);
    finish(g, d);
    assert_backward(g, "I 2 %10 f32 (2, 4) = mse_grad(%9, %6, %7)  mse\n"
                       "I 1 %11 f32 (2, 4) = mul(%10, %2)  square\n"
                       "I 1 %12 f32 (2, 4) = mul(%10, %2)  square\n"
                       "I 1 %13 f32 (2, 4) = add(%10, %11)  square\n"
                       "I 1 %14 f32 (2, 4) = add(%13, %12)  square\n"
                       "I 0 %15 f32 (2, 4) = softmax_grad(%10, %3)  soft\n"
                       "I 0 %16 f32 (2, 4) = add(%14, %15)  soft\n"
                       "W 0 +%17 f32 (4, 4) = linear_dw(%16, %0)  in -> w\n");
    ppl_graph_close(g);
}

// Two uses of a parameter in one node and a third later: an accumulator each, listed in graph order.
static void test_uses_of_a_parameter(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_BF16);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_BF16, DIMS(2, 4)), w = param(g, "w", DIMS(4)), one = param(g, "one", DIMS(2, 4));
    ppl_value n = apply(g, PPL_OP_LAYERNORM, "norm", ATTRS(.f = {1e-5}), x, w, w);
    ppl_value m = binary(g, PPL_OP_MUL, "gain", n, w);
    layer(g, "l1");
    ppl_value a = binary(g, PPL_OP_ADD, "shift", m, one); // no sum over rows: accumulated by a node of its own
    finish(g, a);
    assert_backward(g, "I 1 %10 bf16 (2, 4) = mse_grad(%9, %6, %7)  mse\n"
                       "W 1 +%11 f32 (2, 4) = accumulate(%10)  shift -> one\n"
                       "I 0 %12 bf16 (2, 4) = mul(%10, %1)  gain\n"
                       "W 0 %13 bf16 (2, 4) = mul(%10, %3)  gain\n"
                       "W 0 +%14 f32 (4) = reduce(%13) i0=1  gain -> w\n"
                       "W 0 +%15 f32 (4), %16 f32 (4) = layernorm_dw(%12, %0, %4)  norm -> w, w\n");
    const ppl_param *p = &g->params[0];
    assert_int_equal(p->n_uses, 3);
    for (int32_t i = 0; i < 3; i++) {
        const ppl_value_info *v = &g->values[p->uses[i]];
        assert_int_equal(v->kind, PPL_VALUE_ACCUMULATOR);
        assert_int_equal(v->param, 0);
        assert_int_equal(v->type.dtype, PPL_F32);
        assert_int_equal(v->output, i == 1);
        assert_int_equal(g->nodes[v->node].op, i == 2 ? PPL_OP_REDUCE : PPL_OP_LAYERNORM_DW);
    }
    ppl_graph_close(g);
}

// Nothing is emitted towards frozen parameters, nor towards what only they and inputs feed.
static void test_frozen(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = frozen(g, "w0", DIMS(4, 4));
    ppl_value h = binary(g, PPL_OP_LINEAR, "f0", x, w);
    layer(g, "l1");
    ppl_value gain = param(g, "gain", DIMS(4)), bias = frozen(g, "bias", DIMS(4)); // half of a layernorm
    h = apply(g, PPL_OP_LAYERNORM, "norm", ATTRS(.f = {1e-5}), h, gain, bias);
    layer(g, "l2");
    h = binary(g, PPL_OP_LINEAR, "f1", h, w); // a gradient passes through it
    finish(g, h);
    assert_backward(g, "I 2 %11 f32 (2, 4) = mse_grad(%10, %7, %8)  mse\n"
                       "I 2 %12 f32 (2, 4) = linear_dx(%11, %1)  f1\n"
                       "W 1 %13 f32 (4), %14 f32 (4) = layernorm_dw(%12, %2, %6)  norm\n"
                       "W 1 +%15 f32 (4) = accumulate(%13)  norm -> gain\n");
    assert_int_equal(g->params[0].n_uses, 0);
    ppl_graph_close(g);
}

static void test_all_frozen(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = frozen(g, "w0", DIMS(4, 4));
    finish(g, binary(g, PPL_OP_LINEAR, "f0", x, w));
    assert_backward(g, "");
    assert_int_equal(g->n_nodes, g->n_forward);
    assert_int_not_equal(g->seed, -1);
    ppl_graph_close(g);
}

// What only parameters feed has its gradient in W, down to the parameter.
static void test_values_of_parameters(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = param(g, "w", DIMS(3, 4)), v = param(g, "v", DIMS(4, 3));
    ppl_value t = apply(g, PPL_OP_TRANSPOSE, "t", ATTRS(.i = {0, 1}), w, -1, -1);
    ppl_value u = binary(g, PPL_OP_ADD, "u", t, v);
    ppl_value h = binary(g, PPL_OP_LINEAR, "f0", x, w);
    layer(g, "l1");
    h = binary(g, PPL_OP_LINEAR, "f1", h, u);
    finish(g, h);
    assert_backward(g, "I 1 %10 f32 (2, 4) = mse_grad(%9, %6, %7)  mse\n"
                       "I 1 %11 f32 (2, 3) = linear_dx(%10, %4)  f1\n"
                       "W 1 %12 f32 (4, 3) = linear_dw(%10, %5)  f1\n"
                       "W 0 +%13 f32 (3, 4) = linear_dw(%11, %0)  f0 -> w\n"
                       "W 0 +%14 f32 (4, 3) = accumulate(%12)  u -> v\n"
                       "W 0 %15 f32 (3, 4) = transpose(%12) i1=1  t\n"
                       "W 0 +%16 f32 (3, 4) = accumulate(%15)  t -> w\n");
    assert_false(g->values[u].data);
    ppl_graph_close(g);
}

// Scaled and added losses: the seed starts every branch.
static void test_losses(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_BF16);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_BF16, DIMS(2, 4)), ids = input(g, "ids", PPL_I32, DIMS(2));
    ppl_value w = param(g, "w", DIMS(4, 4));
    ppl_value h = binary(g, PPL_OP_LINEAR, "f", x, w);
    ppl_value a = binary(g, PPL_OP_CROSS_ENTROPY, "ce", h, ids);
    ppl_value b = binary(g, PPL_OP_MSE, "mse", x, h);
    ppl_value c = apply(g, PPL_OP_SCALE, "half", ATTRS(.f = {0.5}), b, -1, -1);
    OK(ppl_graph_loss(g, binary(g, PPL_OP_ADD, "sum", a, c)));
    OK(ppl_graph_differentiate(g));
    assert_backward(g, "I 0 %10 f32 () = scale(%9) f0=0.5  half\n"
                       "I 0 %11 bf16 (2, 4) = mse_grad(%10, %0, %3)  mse\n"
                       "I 0 %12 bf16 (2, 4) = scale(%11) f0=-1  mse\n"
                       "I 0 %13 bf16 (2, 4) = cross_entropy_grad(%9, %3, %1, %5)  ce\n"
                       "I 0 %14 bf16 (2, 4) = add(%12, %13)  ce\n"
                       "W 0 +%15 f32 (4, 4) = linear_dw(%14, %0)  f -> w\n");
    const size_t nodes = g->n_nodes;
    OK(ppl_graph_differentiate(g)); // again: no change
    assert_int_equal(g->n_nodes, nodes);
    ppl_graph_close(g);
}

// Shapes, joins and masks: aliases stay aliases, the mask is made again under the same key.
static void test_shapes(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 3, 4)), w = param(g, "w", DIMS(4, 4));
    ppl_value h = binary(g, PPL_OP_LINEAR, "f", x, w);
    ppl_value d = apply(g, PPL_OP_DROPOUT, "drop", ATTRS(.f = {0.25}), h, -1, -1);
    ppl_value r = apply(g, PPL_OP_RESHAPE, "flat", ATTRS(.i = {2, 6, 4}), d, -1, -1);
    ppl_value a = apply(g, PPL_OP_SLICE, "left", ATTRS(.i = {1, 0, 1}), r, -1, -1);
    ppl_value b = apply(g, PPL_OP_SLICE, "right", ATTRS(.i = {1, 1, 3}), r, -1, -1);
    ppl_value c = apply(g, PPL_OP_CONCAT, "swap", ATTRS(.i = {1}), b, a, -1);
    finish(g, c);
    assert_backward(g, "I 0 %11 f32 (6, 4) = mse_grad(%10, %7, %8)  mse\n"
                       "I 0 %12 f32 (6, 3) = slice(%11) i0=1 i2=3  swap\n"
                       "I 0 %13 f32 (6, 1) = slice(%11) i0=1 i1=3 i2=1  swap\n"
                       "I 0 %14 f32 (6, 4) = pad(%12) i0=1 i1=1 i2=4  right\n"
                       "I 0 %15 f32 (6, 4) = pad(%13) i0=1 i2=4  left\n"
                       "I 0 %16 f32 (6, 4) = add(%14, %15)  left\n"
                       "I 0 %17 f32 (2, 3, 4) = reshape(%16) i0=3 i1=2 i2=3 i3=4  flat\n"
                       "I 0 %18 f32 (2, 3, 4) = dropout(%17) f0=0.25  drop\n"
                       "W 0 +%19 f32 (4, 4) = linear_dw(%18, %0)  f -> w\n");
    const ppl_node *back = &g->nodes[g->n_nodes - 2];
    assert_int_equal(back->op, PPL_OP_DROPOUT);
    assert_int_equal(back->attrs.i[7], g->nodes[1].attrs.i[7]);
    ppl_graph_close(g);
}

// The value before a fused activation is an output like any other; statistics are not.
static void test_second_outputs(void **state) {
    (void)state;
    static const char *const want[] = {"I 0 %7 f32 (2, 4) = mse_grad(%6, %3, %4)  mse\n"
                                       "W 0 +%8 f32 (4, 4) = linear_dw(%7, %0)  f -> w\n",
                                       "I 0 %8 f32 (2, 4) = mse_grad(%7, %4, %5)  mse\n"
                                       "I 0 %9 f32 (2, 4) = mul(%8, %2)  swish\n"
                                       "I 0 %10 f32 (2, 4) = mul(%8, %3)  swish\n"
                                       "W 0 %11 f32 (2, 4) = act_grad(%10, %3) i0=1  f\n"
                                       "W 0 %12 f32 (2, 4) = add(%9, %11)  f\n"
                                       "W 0 +%13 f32 (4, 4) = linear_dw(%12, %0)  f -> w\n"};
    for (int32_t both = 0; both < 2; both++) {
        ppl_graph *g = open_graph(PPL_F32);
        layer(g, "l0");
        ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = param(g, "w", DIMS(4, 4)), out[2];
        OK(ppl_graph_apply(g, PPL_OP_LINEAR, "f", (ppl_value[]){x, w}, 2, &ATTRS(.i = {PPL_ACT_RELU}), out));
        finish(g, both ? binary(g, PPL_OP_MUL, "swish", out[1], out[0]) : out[1]);
        assert_backward(g, want[both]);
        ppl_graph_close(g);
    }
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = param(g, "w", DIMS(4)), out[2];
    OK(ppl_graph_apply(g, PPL_OP_RMSNORM, "norm", (ppl_value[]){x, w}, 2, NULL, out));
    ppl_value target = input(g, "target", PPL_F32, DIMS(2));
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "mse", out[1], target)));
    const size_t values = g->n_values;
    FAILS(PPL_ERR_ARG, "node norm: the loss depends on output 1 of rmsnorm, which has no gradient, want output 0",
          ppl_graph_differentiate(g));
    assert_int_equal(g->n_nodes, g->n_forward); // as it was traced
    assert_int_equal(g->n_values, values);
    assert_int_equal(g->seed, -1);
    ppl_graph_close(g);
}

// A value that does not reach the loss, and a parameter that nothing reads, have no gradient.
static void test_unused(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l0");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4)), w = param(g, "w", DIMS(4, 4)), v = param(g, "v", DIMS(4, 4));
    param(g, "alone", DIMS(4));
    ppl_value h = binary(g, PPL_OP_LINEAR, "f", x, w);
    unary(g, PPL_OP_SOFTMAX, "nowhere", binary(g, PPL_OP_LINEAR, "side", h, v));
    finish(g, h);
    assert_backward(g, "I 0 %10 f32 (2, 4) = mse_grad(%9, %4, %7)  mse\n"
                       "W 0 +%11 f32 (4, 4) = linear_dw(%10, %0)  f -> w\n");
    assert_int_equal(g->params[1].n_uses, 0);
    assert_int_equal(g->params[2].n_uses, 0);
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block),
                                       cmocka_unit_test(test_chain_of_uses),
                                       cmocka_unit_test(test_uses_of_a_parameter),
                                       cmocka_unit_test(test_frozen),
                                       cmocka_unit_test(test_all_frozen),
                                       cmocka_unit_test(test_values_of_parameters),
                                       cmocka_unit_test(test_losses),
                                       cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_second_outputs),
                                       cmocka_unit_test(test_unused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
