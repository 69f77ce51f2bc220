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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
