// tiny.h - small graphs in few words, for tests: every call must succeed.
#ifndef PPL_TESTS_GRAPH_TINY_H
#define PPL_TESTS_GRAPH_TINY_H
#include "graph/stages.h"
#include "ops/op.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

// The call fails with this status and exactly these words.
#define FAILS(status, words, call)                                                                                     \
    do {                                                                                                               \
        assert_int_equal((call), (status));                                                                            \
        assert_string_equal(ppl_error(), (words));                                                                     \
    } while (0)

static inline ppl_graph *open_graph(int32_t dtype) {
    ppl_graph *g;
    OK(ppl_graph_open(dtype, &g));
    return g;
}

static inline void layer(ppl_graph *g, const char *name) {
    OK(ppl_graph_layer(g, name, 1));
}

#define DIMS(...)                                                                                                      \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                                                \
        __VA_ARGS__                                                                                                    \
    }

static inline ppl_value input(ppl_graph *g, const char *name, int32_t dtype, size_t ndim, const int64_t *dim) {
    ppl_value v;
    ppl_type type = ppl_type_make(dtype, (int32_t)ndim, dim);
    OK(ppl_graph_input(g, name, &type, &v));
    return v;
}

static inline ppl_value param(ppl_graph *g, const char *name, size_t ndim, const int64_t *dim) {
    ppl_value v;
    OK(ppl_graph_param(g, name, (int32_t)ndim, dim, &(ppl_param_spec){.init = PPL_INIT_NORMAL, .a = 0.02}, &v));
    return v;
}

static inline ppl_value frozen(ppl_graph *g, const char *name, size_t ndim, const int64_t *dim) {
    ppl_value v;
    ppl_param_spec spec = {.init = PPL_INIT_NORMAL, .a = 0.02, .frozen = 1};
    OK(ppl_graph_param(g, name, (int32_t)ndim, dim, &spec, &v));
    return v;
}

// Applies an operator of up to three inputs (-1: fewer); gives its first output.
static inline ppl_value apply(ppl_graph *g, int32_t op, const char *name, ppl_attrs attrs, ppl_value a, ppl_value b,
                              ppl_value c) {
    ppl_value in[3] = {a, b, c}, out[PPL_MAX_OUTPUTS];
    int32_t inputs = b == -1 ? 1 : c == -1 ? 2 : 3;
    OK(ppl_graph_apply(g, op, name, in, inputs, &attrs, out));
    return out[0];
}

#define ATTRS(...) ((ppl_attrs){__VA_ARGS__})

static inline ppl_value unary(ppl_graph *g, int32_t op, const char *name, ppl_value a) {
    return apply(g, op, name, ATTRS(.i = {0}), a, -1, -1);
}

static inline ppl_value binary(ppl_graph *g, int32_t op, const char *name, ppl_value a, ppl_value b) {
    return apply(g, op, name, ATTRS(.i = {0}), a, b, -1);
}

static inline char *print_graph(const ppl_graph *g) { // free it
    size_t needed;
    OK(ppl_graph_print(g, NULL, 0, &needed));
    char *text = malloc(needed);
    assert_non_null(text);
    OK(ppl_graph_print(g, text, needed, &needed));
    assert_int_equal(strlen(text) + 1, needed);
    return text;
}

// The part of the listing from the first backward node to the loss.
static inline void assert_backward(const ppl_graph *g, const char *want) {
    char *text = print_graph(g), *from = strstr(text, "\nI "), *w = strstr(text, "\nW ");
    if (!from || (w && w < from)) from = w;
    char *end = strstr(text, "\nloss ");
    assert_non_null(end);
    end[1] = 0;
    assert_string_equal(from ? from + 1 : "", want);
    free(text);
}

#endif
