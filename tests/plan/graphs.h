// graphs.h - a graph with all that makes edges hard: ties, skips, several readers, aliases, dropout.
#ifndef PPL_TESTS_PLAN_GRAPHS_H
#define PPL_TESTS_PLAN_GRAPHS_H
#include "graph/tiny.h"

// Tied embeddings, a residual stream, a value of layer 0 that every later layer reads, a reshape on the way, dropout.
static inline ppl_graph *make_graph(int32_t layers) {
    ppl_graph *g = open_graph(PPL_BF16);
    layer(g, "embed");
    ppl_value ids = input(g, "ids", PPL_I32, DIMS(2, 4)), targets = input(g, "targets", PPL_I32, DIMS(2, 4));
    ppl_value wte = param(g, "wte", DIMS(16, 8)), x = binary(g, PPL_OP_EMBEDDING, "tok", ids, wte), skip = x;
    char name[16];
    for (int32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "block%d", i);
        layer(g, name);
        char n[6][24];
        static const char *const parts[] = {"w", "a", "r", "d", "m", "s"};
        for (int32_t k = 0; k < 6; k++) snprintf(n[k], sizeof n[k], "%s.%s", name, parts[k]);
        ppl_value a = apply(g, PPL_OP_LINEAR, n[1], ATTRS(.i = {PPL_ACT_GELU_TANH}), x, param(g, n[0], DIMS(8, 8)), -1);
        a = apply(g, PPL_OP_RESHAPE, n[2], ATTRS(.i = {2, 8, 8}), a, -1, -1);
        a = apply(g, PPL_OP_RESHAPE, n[4], ATTRS(.i = {3, 2, 4, 8}), a, -1, -1);
        a = apply(g, PPL_OP_DROPOUT, n[3], ATTRS(.f = {0.1}), a, -1, -1);
        x = binary(g, PPL_OP_ADD, n[5], a, i % 2 ? skip : x);
    }
    layer(g, "head");
    ppl_value logits = apply(g, PPL_OP_RESHAPE, "flat", ATTRS(.i = {2, 8, 8}), x, -1, -1);
    logits = binary(g, PPL_OP_LINEAR, "logits", logits, wte);
    targets = apply(g, PPL_OP_RESHAPE, "rows", ATTRS(.i = {1, 8}), targets, -1, -1);
    ppl_value loss = binary(g, PPL_OP_CROSS_ENTROPY, "ce", logits, targets);
    unary(g, PPL_OP_SOFTMAX, "unread", unary(g, PPL_OP_SOFTMAX, "probabilities", logits)); // behind the loss
    OK(ppl_graph_loss(g, loss));
    OK(ppl_graph_differentiate(g));
    return g;
}

#endif
