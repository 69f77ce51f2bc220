// test_stages.c - what a cut makes of a graph: programs, lifetimes and edges.
#include "graph/cuts.h"

static void test_chain(void **state) {
    (void)state;
    ppl_stages *s;
    OK(ppl_stages_chain(3, &s));
    assert_edges(s, "F %-1 0 -> 1(W) own -, 1\n"
                    "F %-1 1 -> 2(W) own -, 1\n"
                    "B %-1 1 -> 0(W) own -, 1\n"
                    "B %-1 2 -> 1(W) own -, 1\n");
    assert_null(s->graph);
    assert_int_equal(s->stage[0].n_values, 3);
    assert_int_equal(s->stage[1].n_values, 5);
    assert_int_equal(s->stage[2].n_values, 3);
    const ppl_stage_value *v = s->stage[1].values;
    const int32_t edges[] = {-1, 0, 1, 3, 2};
    for (int32_t i = 0; i < 5; i++) assert_int_equal(v[i].edge, edges[i]);
    assert_int_equal(ppl_stages_of_layer(s, 2), 2);
    ppl_stages_free(s);
    OK(ppl_stages_chain(1, &s));
    assert_int_equal(s->n_edges, 0);
    assert_int_equal(s->stage[0].n_values, 1);
    ppl_stages_free(s);
    FAILS(PPL_ERR_ARG, "stages: there are 0, want at least 1", ppl_stages_chain(0, &s));
    ppl_stages_free(NULL);
}

static void finish(ppl_graph *g, ppl_value x) {
    const ppl_type t = *ppl_graph_type_of(g, x);
    ppl_value target = input(g, "target", t.dtype, (size_t)t.ndim, t.dim);
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "mse", x, target)));
    OK(ppl_graph_differentiate(g));
}

static ppl_value linear(ppl_graph *g, const char *name, ppl_value x) {
    char w[32];
    snprintf(w, sizeof w, "%s.w", name);
    return binary(g, PPL_OP_LINEAR, name, x, param(g, w, DIMS(4, 4)));
}

static ppl_graph *three_linears(void) {
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value x = linear(g, "fa", input(g, "x", PPL_F32, DIMS(2, 4)));
    layer(g, "b");
    x = linear(g, "fb", x);
    layer(g, "c");
    finish(g, linear(g, "fc", x));
    return g;
}

// Each layer a stage, and all in one.
static void test_linears(void **state) {
    (void)state;
    ppl_graph *g = three_linears();
    ppl_stages *s = cut_at(g, CUT(0, 1, 2));
    assert_edges(s, "F %2 0 -> 1(W) own -, 32\n"
                    "F %4 1 -> 2(W) own -, 32\n"
                    "B %13 1 -> 0(W) own -, 32\n"
                    "B %11 2 -> 1(W) own -, 32\n");
    assert_stage(s, 0,
                 "F: fa.linear\n"
                 "I:\n"
                 "W: fa.linear_dw\n"
                 "%0 FW, %2 FF e0, %13 WW e2\n"
                 "inputs x; params fa.w; accumulators %15\n");
    assert_stage(s, 1,
                 "F: fb.linear\n"
                 "I: fb.linear_dx\n"
                 "W: fb.linear_dw\n"
                 "%2 FW e0, %4 FF e1, %11 IW e3, %13 II e2\n"
                 "inputs; params fb.w; accumulators %14\n");
    assert_stage(s, 2,
                 "F: fc.linear mse.mse\n"
                 "I: mse.mse_grad fc.linear_dx\n"
                 "W: fc.linear_dw\n"
                 "%4 FW e1, %6 FI, %7 FI, %8 FF, %10 IW, %11 II e3\n"
                 "inputs target; params fc.w; accumulators %12\n");
    assert_int_equal(ppl_stages_of_layer(s, 1), 1);
    assert_true(s->stage[0].flops[PPL_PHASE_F] == 2 * 2 * 4 * 4);
    assert_true(s->stage[0].flops[PPL_PHASE_I] == 0);
    assert_true(s->stage[0].flops[PPL_PHASE_W] == 2 * 2 * 4 * 4);
    assert_true(s->stage[0].bytes[PPL_PHASE_F] == 4 * (8 + 16 + 8));
    ppl_stages_free(s);
    s = cut_at(g, CUT(0));
    assert_edges(s, "");
    assert_stage(s, 0,
                 "F: fa.linear fb.linear fc.linear mse.mse\n"
                 "I: mse.mse_grad fc.linear_dx fb.linear_dx\n"
                 "W: fc.linear_dw fb.linear_dw fa.linear_dw\n"
                 "%0 FW, %2 FW, %4 FW, %6 FI, %7 FI, %8 FF, %10 IW, %11 IW, %13 IW\n"
                 "inputs x target; params fa.w fb.w fc.w; accumulators %12 %14 %15\n");
    assert_int_equal(s->stage[0].layers, 3);
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// A value of stage 0 is read by stage 3 and by itself: its gradient comes straight back and joins the one that came over
// the stages between.
static void test_skip(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value x = linear(g, "fa", input(g, "x", PPL_F32, DIMS(2, 4)));
    ppl_value y = unary(g, PPL_OP_SOFTMAX, "sa", x);
    layer(g, "b");
    y = linear(g, "fb", y);
    layer(g, "c");
    y = linear(g, "fc", y);
    layer(g, "d");
    finish(g, binary(g, PPL_OP_MUL, "join", y, x));
    ppl_stages *s = cut_at(g, CUT(0, 1, 2, 3));
    assert_edges(s, "F %2 0 -> 3(I) own -, 32\n"
                    "F %3 0 -> 1(W) own I, 32\n"
                    "F %5 1 -> 2(W) own -, 32\n"
                    "F %7 2 -> 3(I) own -, 32\n"
                    "B %17 1 -> 0(I) own -, 32\n"
                    "B %15 2 -> 1(W) own -, 32\n"
                    "B %13 3 -> 2(W) own -, 32\n"
                    "B %14 3 -> 0(I) own -, 32\n");
    assert_stage(s, 0,
                 "F: fa.linear sa.softmax\n"
                 "I: sa.softmax_grad sa.add\n"
                 "W: fa.linear_dw\n"
                 "%0 FW, %2 FF e0, %3 FI e1, %14 II e7, %17 II e4, %19 II, %20 IW\n"
                 "inputs x; params fa.w; accumulators %21\n");
    assert_stage(s, 3,
                 "F: join.mul mse.mse\n"
                 "I: mse.mse_grad join.mul join.mul\n"
                 "W:\n"
                 "%2 FI e0, %7 FI e3, %8 FI, %9 FI, %10 FF, %12 II, %13 II e6, %14 II e7\n"
                 "inputs target; params; accumulators\n");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// One value crosses every cut, read as it is and through an alias that a stage between makes; another crosses as an alias.
static void test_tuple_and_alias(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value x = linear(g, "fa", input(g, "x", PPL_F32, DIMS(2, 3, 4)));
    layer(g, "b");
    ppl_value r = apply(g, PPL_OP_RESHAPE, "flat", ATTRS(.i = {2, 6, 4}), x, -1, -1); // stage b makes the alias only
    layer(g, "c");
    ppl_value y = linear(g, "fc", r);
    ppl_value z = apply(g, PPL_OP_RESHAPE, "back", ATTRS(.i = {3, 2, 3, 4}), y, -1, -1);
    layer(g, "d");
    finish(g, binary(g, PPL_OP_MUL, "join", z, x));
    ppl_stages *s = cut_at(g, CUT(0, 1, 2, 3));
    assert_edges(s, "F %2 0 -> 2(W) 3(I) own -, 96\n"
                    "F %5 2 -> 3(I) own -, 96\n"
                    "B %18 1 -> 0(W) own -, 96\n"
                    "B %15 2 -> 1(I) own -, 96\n"
                    "B %12 3 -> 2(W) own -, 96\n"
                    "B %13 3 -> 1(I) own -, 96\n");
    assert_stage(s, 1,
                 "F:\n"
                 "I: flat.add\n"
                 "W:\n"
                 "%13 II e5, %15 II e3, %18 II e2\n"
                 "inputs; params; accumulators\n");
    assert_stage(s, 2,
                 "F: fc.linear\n"
                 "I: fc.linear_dx\n"
                 "W: fc.linear_dw\n"
                 "%2 FW e0, %5 FF e1, %12 IW e4, %15 II e3\n"
                 "inputs; params fc.w; accumulators %16\n");
    assert_stage(s, 3,
                 "F: join.mul mse.mse\n"
                 "I: mse.mse_grad join.mul join.mul\n"
                 "W:\n"
                 "%2 FI e0, %5 FI e1, %7 FI, %8 FI, %9 FF, %11 II, %12 II e4, %13 II e5\n"
                 "inputs target; params; accumulators\n");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// No gradient goes to a frozen stage; its values still go up.
static void test_frozen_first_stage(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "embed");
    ppl_value ids = input(g, "ids", PPL_I32, DIMS(2)), w = frozen(g, "wte", DIMS(16, 4));
    ppl_value x = binary(g, PPL_OP_EMBEDDING, "tok", ids, w);
    layer(g, "b");
    finish(g, linear(g, "fb", x));
    ppl_stages *s = cut_at(g, CUT(0, 1));
    assert_edges(s, "F %2 0 -> 1(W) own -, 32\n");
    assert_stage(s, 0,
                 "F: tok.embedding\n"
                 "I:\n"
                 "W:\n"
                 "%0 FF, %2 FF e0\n"
                 "inputs ids; params wte; accumulators\n");
    assert_stage(s, 1,
                 "F: fb.linear mse.mse\n"
                 "I: mse.mse_grad\n"
                 "W: fb.linear_dw\n"
                 "%2 FW e0, %4 FI, %5 FI, %6 FF, %8 IW\n"
                 "inputs target; params fb.w; accumulators %9\n");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// Tied embeddings: each stage's accumulator goes to the other; a third use in the first stage is one more.
static void test_tied(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "embed");
    ppl_value ids = input(g, "ids", PPL_I32, DIMS(2)), classes = input(g, "classes", PPL_I32, DIMS(2));
    ppl_value w = param(g, "wte", DIMS(4, 4));
    ppl_value x = binary(g, PPL_OP_LINEAR, "proj", binary(g, PPL_OP_EMBEDDING, "tok", ids, w), w);
    layer(g, "b");
    x = linear(g, "fb", x);
    layer(g, "head");
    OK(ppl_graph_loss(g, binary(g, PPL_OP_CROSS_ENTROPY, "ce", binary(g, PPL_OP_LINEAR, "head", x, w), classes)));
    OK(ppl_graph_differentiate(g));
    ppl_stages *s = cut_at(g, CUT(0, 1, 2));
    assert_edges(s, "F %4 0 -> 1(W) own -, 32\n"
                    "F %6 1 -> 2(W) own -, 32\n"
                    "B %14 1 -> 0(W) own -, 32\n"
                    "B %12 2 -> 1(W) own -, 32\n"
                    "U %17 0 -> 2(F) own -, 64\n"
                    "U %18 0 -> 2(F) own -, 64\n"
                    "U %13 2 -> 0(F) own -, 64\n");
    assert_stage(s, 0,
                 "F: tok.embedding proj.linear\n"
                 "I: proj.linear_dx\n"
                 "W: proj.linear_dw tok.embedding_dw\n"
                 "%0 FW, %3 FW, %4 FF e0, %14 IW e2, %16 IW\n"
                 "inputs ids; params wte; accumulators %17 %18\n");
    assert_int_equal(g->params[0].n_uses, 3);
    ppl_stages_free(s);
    s = cut_at(g, CUT(0));
    assert_edges(s, "");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// A value of parameters alone, made in stage 0 and read in stage 1: its gradient leaves stage 1 in I, though it was W's.
static void test_parameter_crosses(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value w = param(g, "w", DIMS(4, 4));
    ppl_value t = apply(g, PPL_OP_TRANSPOSE, "t", ATTRS(.i = {0, 1}), w, -1, -1);
    ppl_value x = binary(g, PPL_OP_LINEAR, "fa", input(g, "x", PPL_F32, DIMS(2, 4)), t);
    layer(g, "b");
    finish(g, binary(g, PPL_OP_LINEAR, "fb", x, t));
    ppl_stages *s = cut_at(g, CUT(0, 1));
    assert_edges(s, "F %1 0 -> 1(I) own -, 64\n"
                    "F %3 0 -> 1(I) own -, 32\n"
                    "B %9 1 -> 0(W) own -, 32\n"
                    "B %10 1 -> 0(W) own -, 64\n");
    assert_stage(s, 0,
                 "F: t.transpose fa.linear\n"
                 "I:\n"
                 "W: fa.linear_dw fa.add t.transpose t.accumulate\n"
                 "%1 FF e0, %2 FW, %3 FF e1, %9 WW e2, %10 WW e3, %11 WW, %12 WW, %13 WW\n"
                 "inputs x; params w; accumulators %14\n");
    assert_stage(s, 1,
                 "F: fb.linear mse.mse\n"
                 "I: mse.mse_grad fb.linear_dx fb.linear_dw\n"
                 "W:\n"
                 "%1 FI e0, %3 FI e1, %4 FI, %5 FI, %6 FF, %8 II, %9 II e2, %10 II e3\n"
                 "inputs target; params; accumulators\n");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// A reshaped parameter: the stage that reads it and the stage that accumulates for it both have it.
static void test_parameter_alias_crosses(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value w = param(g, "w", DIMS(16));
    ppl_value r = apply(g, PPL_OP_RESHAPE, "r", ATTRS(.i = {2, 4, 4}), w, -1, -1);
    layer(g, "b");
    finish(g, binary(g, PPL_OP_LINEAR, "fb", input(g, "x", PPL_F32, DIMS(2, 4)), r));
    ppl_stages *s = cut_at(g, CUT(0, 1));
    assert_edges(s, "B %8 1 -> 0(W) own -, 64\n"
                    "U %10 0 -> 1(F) own -, 64\n");
    assert_stage(s, 0,
                 "F:\n"
                 "I:\n"
                 "W: r.accumulate\n"
                 "%8 WW e0\n"
                 "inputs; params w; accumulators %10\n");
    assert_stage(s, 1,
                 "F: fb.linear mse.mse\n"
                 "I: mse.mse_grad fb.linear_dw\n"
                 "W:\n"
                 "%2 FI, %3 FI, %4 FI, %5 FF, %7 II, %8 II e0\n"
                 "inputs x target; params w; accumulators\n");
    ppl_stages_free(s);
    ppl_graph_close(g);
}

static void test_refused(void **state) {
    (void)state;
    ppl_stages *s;
    ppl_graph *g = three_linears();
#define REFUSED(words, ...) FAILS(PPL_ERR_ARG, words, ppl_stages_build(g, CUT(__VA_ARGS__), &s))
    REFUSED("cut: stage 0 begins at layer 1 (b), want 0..0", 1, 2);
    REFUSED("cut: stage 1 begins at layer 0 (a), want 1..2", 0, 0);
    REFUSED("cut: stage 2 begins at layer 1 (b), want 2..2", 0, 1, 1);
    REFUSED("cut: stage 1 begins at layer 3 (?), want 1..2", 0, 3);
    REFUSED("cut: 4 stages of 3 layers, want 1..3", 0, 1, 2, 3);
    FAILS(PPL_ERR_ARG, "cut: 0 stages of 3 layers, want 1..3", ppl_stages_build(g, 0, NULL, &s));
    ppl_graph_close(g);
    g = open_graph(PPL_F32);
    layer(g, "a");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 4));
    ppl_value loss = binary(g, PPL_OP_MSE, "mse", linear(g, "fa", x), x);
    layer(g, "late");
    unary(g, PPL_OP_SOFTMAX, "after", x);
    OK(ppl_graph_loss(g, loss));
    REFUSED("cut: the graph is not differentiated, want it to be", 0, 1);
    OK(ppl_graph_differentiate(g));
    REFUSED("cut: the loss is in layer 0 (a), want it in the last stage, which begins at layer 1", 0, 1);
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain),
                                       cmocka_unit_test(test_linears),
                                       cmocka_unit_test(test_skip),
                                       cmocka_unit_test(test_tuple_and_alias),
                                       cmocka_unit_test(test_frozen_first_stage),
                                       cmocka_unit_test(test_tied),
                                       cmocka_unit_test(test_parameter_crosses),
                                       cmocka_unit_test(test_parameter_alias_crosses),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
