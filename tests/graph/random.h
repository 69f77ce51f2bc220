// random.h - random models over one shape, for properties that hold for every graph: shared and frozen parameters, values
// read several times, aliases, values of parameters alone, recomputed layers.
#ifndef PPL_TESTS_GRAPH_RANDOM_H
#define PPL_TESTS_GRAPH_RANDOM_H
#include "base/random.h"
#include "graph/tiny.h"

typedef struct draw {
    uint64_t key, count;
    ppl_value turned; // a transposed parameter that later steps may read again; 0 none (0 is the input)
} draw;

static inline uint32_t pick(draw *d, uint32_t below) {
    uint32_t r[4];
    ppl_philox(d->key, 0, d->count++, r);
    return r[0] % below;
}

static inline ppl_value random_param(ppl_graph *g, draw *d, const char *kind, size_t ndim, const int64_t *dim) {
    char name[32];
    uint32_t which = pick(d, 3);
    snprintf(name, sizeof name, "%s%u", kind, which);
    return which == 2 ? frozen(g, name, ndim, dim) : param(g, name, ndim, dim);
}

// One operator, or a few, on x and another value y of the same shape (2, 3, 4).
static inline ppl_value random_step(ppl_graph *g, draw *d, const char *name, ppl_value x, ppl_value y) {
    char other[40], third[40];
    snprintf(other, sizeof other, "%s.1", name);
    snprintf(third, sizeof third, "%s.2", name);
    ppl_value w = random_param(g, d, "w", DIMS(4, 4)), v = random_param(g, d, "v", DIMS(4));
    switch (pick(d, 12)) {
    case 0: return binary(g, PPL_OP_LINEAR, name, x, w);
    case 1: return apply(g, PPL_OP_LINEAR, name, ATTRS(.i = {PPL_ACT_GELU_TANH}), x, w, v);
    case 2: return binary(g, PPL_OP_ADD, name, x, y);
    case 3: return binary(g, PPL_OP_MUL, name, x, y);
    case 4:
        x = apply(g, PPL_OP_RESHAPE, other, ATTRS(.i = {2, 6, 4}), x, -1, -1);
        x = binary(g, PPL_OP_LINEAR, third, x, w);
        return apply(g, PPL_OP_RESHAPE, name, ATTRS(.i = {3, 2, 3, 4}), x, -1, -1);
    case 5: return unary(g, PPL_OP_SOFTMAX, name, x);
    case 6: return apply(g, PPL_OP_LAYERNORM, name, ATTRS(.f = {1e-3}), x, v, random_param(g, d, "v", DIMS(4)));
    case 7:
        if (!d->turned || pick(d, 2)) d->turned = apply(g, PPL_OP_TRANSPOSE, other, ATTRS(.i = {0, 1}), w, -1, -1);
        return binary(g, PPL_OP_LINEAR, name, x, d->turned);
    case 8:
        x = apply(g, PPL_OP_CONCAT, other, ATTRS(.i = {2}), x, y, -1);
        return apply(g, PPL_OP_SLICE, name, ATTRS(.i = {2, 2, 4}), x, -1, -1);
    case 9: return apply(g, PPL_OP_SCALE, name, ATTRS(.f = {-0.7}), x, -1, -1);
    case 10: return apply(g, PPL_OP_DROPOUT, name, ATTRS(.f = {0.25}), x, -1, -1);
    default: return binary(g, PPL_OP_MUL, name, x, v);
    }
}

// A graph of about `steps` steps in a few layers, differentiated. Everything is joined at the end.
static inline ppl_graph *random_graph(draw *d, int32_t steps) {
    ppl_graph *g = open_graph(PPL_F64);
    ppl_value pool[64];
    int32_t n = 1, layers = 0;
    layer(g, "l0");
    pool[0] = input(g, "x", PPL_F64, DIMS(2, 3, 4));
    for (int32_t i = 0; i < steps; i++) {
        char name[32];
        if (pick(d, 3) == 0) {
            snprintf(name, sizeof name, "l%d", ++layers);
            layer(g, name);
        }
        snprintf(name, sizeof name, "n%d", i);
        ppl_value x = pool[pick(d, 2) ? n - 1 : (int32_t)pick(d, (uint32_t)n)], y = pool[pick(d, (uint32_t)n)];
        pool[n++] = random_step(g, d, name, x, y);
    }
    ppl_value last = binary(g, PPL_OP_ADD, "join", pool[n - 1], pool[pick(d, (uint32_t)n)]);
    ppl_value target = input(g, "target", PPL_F64, DIMS(2, 3, 4));
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "mse", last, target)));
    for (int32_t l = 0; l <= layers; l++) OK(ppl_graph_recompute(g, l, pick(d, 4) == 0));
    OK(ppl_graph_differentiate(g));
    return g;
}

#endif
