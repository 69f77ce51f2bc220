// test_finite_difference.c - the gradient of every operator against central differences, in f64 on the reference device:
// what proves gradient rules and backward kernels right. A forward operator without a case fails the test.
#include "ops/op.h"
#include "support/cases.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static const ppl_case cases[] = {
    {.op = PPL_OP_LINEAR, .in = {X(2, 3, 5), W(4, 5)}},
    {.op = PPL_OP_LINEAR, .in = {X(5), W(4, 5), W(4)}},
    {.op = PPL_OP_LINEAR, .in = {W(3, 5), W(4, 5), W(4)}},
    {.op = PPL_OP_LINEAR, .in = {D(3, 5), X(4, 5), X(4)}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 3), W(3, 3)}, .attrs = {.i = {PPL_ACT_RELU}}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 3, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_RELU}}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 3, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_GELU_TANH}}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 3, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_GELU_ERF}}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 3, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_SILU}}},
    {.op = PPL_OP_LINEAR, .in = {X(2, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_SILU}}, .outputs = 1},
    {.op = PPL_OP_LINEAR, .in = {X(2, 5), W(4, 5), W(4)}, .attrs = {.i = {PPL_ACT_SILU}}, .outputs = 2},
    {.op = PPL_OP_MATMUL, .in = {X(3, 4), X(4, 5)}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 3, 4), X(2, 4, 5)}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 4, 3), X(2, 4, 5)}, .attrs = {.i = {1, 0}}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 3, 4), X(2, 5, 4)}, .attrs = {.i = {0, 1}}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 2, 4, 3), X(2, 2, 5, 4)}, .attrs = {.i = {1, 1}}},
    {.op = PPL_OP_MATMUL, .in = {W(3, 3), AGAIN}},
    {.op = PPL_OP_MATMUL, .in = {X(2, 3, 4), AGAIN}, .attrs = {.i = {0, 1}}},
    {.op = PPL_OP_ADD, .in = {X(2, 3), X(2, 3)}},
    {.op = PPL_OP_ADD, .in = {X(2, 3, 4), W(3, 4)}},
    {.op = PPL_OP_ADD, .in = {X(2, 3, 4), X(4)}},
    {.op = PPL_OP_ADD, .in = {D(2, 3), SCALAR}},
    {.op = PPL_OP_ADD, .in = {X(2, 3), AGAIN}},
    {.op = PPL_OP_ADD, .in = {W(2, 3), AGAIN}},
    {.op = PPL_OP_MUL, .in = {X(2, 3), X(2, 3)}},
    {.op = PPL_OP_MUL, .in = {X(2, 3, 4), W(3, 4)}},
    {.op = PPL_OP_MUL, .in = {X(2, 3, 4), X(4)}},
    {.op = PPL_OP_MUL, .in = {X(2, 3), SCALAR}},
    {.op = PPL_OP_MUL, .in = {X(2, 3), AGAIN}},
    {.op = PPL_OP_SCALE, .in = {X(2, 3)}, .attrs = {.f = {-0.7}}},
    {.op = PPL_OP_SCALE, .in = {W(2, 3)}, .attrs = {.f = {3}}},
    {.op = PPL_OP_EMBEDDING, .in = {I(2, 3), W(4, 5)}, .limit = 4},
    {.op = PPL_OP_EMBEDDING, .in = {I(7), X(3, 2)}, .limit = 3},
    {.op = PPL_OP_LAYERNORM, .in = {X(2, 3, 7), W(7), W(7)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_LAYERNORM, .in = {W(3, 5), X(5), X(5)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_LAYERNORM, .in = {X(3, 5), W(5), X(5)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_LAYERNORM, .in = {D(3, 5), D(5), W(5)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_RMSNORM, .in = {X(2, 3, 7), W(7)}, .attrs = {.f = {1e-5}}},
    {.op = PPL_OP_RMSNORM, .in = {W(3, 5), X(5)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_ROPE, .in = {X(2, 3, 12)}, .attrs = {.i = {4, 2, 0}, .f = {10}}},
    {.op = PPL_OP_ROPE, .in = {X(2, 3, 12)}, .attrs = {.i = {6, 2, 1}, .f = {10000}}},
    {.op = PPL_OP_ACT, .in = {X(2, 3)}, .attrs = {.i = {PPL_ACT_NONE}}},
    {.op = PPL_OP_ACT, .in = {X(2, 3)}, .attrs = {.i = {PPL_ACT_RELU}}},
    {.op = PPL_OP_ACT, .in = {X(2, 3)}, .attrs = {.i = {PPL_ACT_GELU_TANH}}},
    {.op = PPL_OP_ACT, .in = {X(2, 3)}, .attrs = {.i = {PPL_ACT_GELU_ERF}}},
    {.op = PPL_OP_ACT, .in = {W(2, 3)}, .attrs = {.i = {PPL_ACT_SILU}}},
    {.op = PPL_OP_SOFTMAX, .in = {X(2, 3, 5)}},
    {.op = PPL_OP_SOFTMAX, .in = {W(5)}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 3, 18)}, .attrs = {.i = {2, 2, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 4, 18)}, .attrs = {.i = {2, 2, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 3, 24)}, .attrs = {.i = {4, 2, 1}, .f = {0.8}}},
    {.op = PPL_OP_ATTENTION, .in = {X(1, 5, 9)}, .attrs = {.i = {1, 1, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 3, 6), X(2, 3, 6), X(2, 3, 6)}, .attrs = {.i = {2, 2, 0}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 3, 12), X(2, 3, 6), X(2, 3, 6)}, .attrs = {.i = {4, 2, 1}}},
    {.op = PPL_OP_ATTENTION, .in = {X(2, 3, 12), X(2, 3, 3), X(2, 3, 3)}, .attrs = {.i = {4, 1, 0}, .f = {1.5}}},
    {.op = PPL_OP_ATTENTION, .in = {D(2, 3, 6), W(2, 3, 6), D(2, 3, 6)}, .attrs = {.i = {2, 2, 1}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 7)}, .attrs = {.f = {0.5}}},
    {.op = PPL_OP_DROPOUT, .in = {X(2, 3, 5)}, .attrs = {.f = {0.1}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 7)}, .attrs = {.f = {0}}},
    {.op = PPL_OP_DROPOUT, .in = {X(3, 7)}, .attrs = {.f = {0.5}}, .evaluating = true},
    {.op = PPL_OP_RESHAPE, .in = {X(2, 6)}, .attrs = {.i = {2, 3, 4}}},
    {.op = PPL_OP_RESHAPE, .in = {W(2, 3, 2)}, .attrs = {.i = {1, 12}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(2, 3)}, .attrs = {.i = {0, 1}}},
    {.op = PPL_OP_TRANSPOSE, .in = {X(2, 3, 4)}, .attrs = {.i = {2, 0}}},
    {.op = PPL_OP_TRANSPOSE, .in = {W(2, 3, 4, 2)}, .attrs = {.i = {1, 2}}},
    {.op = PPL_OP_SLICE, .in = {X(5)}, .attrs = {.i = {0, 1, 3}}},
    {.op = PPL_OP_SLICE, .in = {X(2, 5, 3)}, .attrs = {.i = {1, 2, 3}}},
    {.op = PPL_OP_SLICE, .in = {W(2, 3, 4)}, .attrs = {.i = {2, 0, 1}}},
    {.op = PPL_OP_CONCAT, .in = {X(2, 3)}, .attrs = {.i = {0}}},
    {.op = PPL_OP_CONCAT, .in = {X(2, 3), X(4, 3), W(1, 3)}, .attrs = {.i = {0}}},
    {.op = PPL_OP_CONCAT, .in = {X(2, 3, 2), D(2, 1, 2), X(2, 2, 2)}, .attrs = {.i = {1}}},
    {.op = PPL_OP_CONCAT, .in = {X(2, 3), AGAIN}, .attrs = {.i = {1}}},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(7, 5), C(7)}, .limit = 5},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {X(2, 3, 4), C(2, 3)}, .limit = 4},
    {.op = PPL_OP_CROSS_ENTROPY, .in = {W(3, 2), C(3)}, .limit = 2},
    {.op = PPL_OP_MSE, .in = {X(4, 3), T(4, 3)}},
    {.op = PPL_OP_MSE, .in = {W(3), D(3)}},
    {.op = PPL_OP_MSE, .in = {X(2, 3), X(2, 3)}},
};
enum { CASES = sizeof cases / sizeof *cases };

static const double seed = 0.37; // what the loss is divided by need not be 1

static double loss_at(ppl_interpret *t, int32_t param, double *x, int64_t i, double to) {
    double was = x[i], loss;
    x[i] = to;
    ppl_interpret_write(t, t->graph->params[param].value, x);
    x[i] = was;
    if (ppl_interpret_forward(t) != PPL_OK) fail_msg("%s", ppl_error());
    ppl_interpret_read(t, t->graph->loss, &loss);
    return seed * loss;
}

// The largest difference between the graph's gradient and central differences, relative to the largest gradient.
static double gap(ppl_interpret *t, int32_t param, double *largest) {
    int64_t n = ppl_type_elements(&t->graph->params[param].type);
    double *x = calloc((size_t)n, sizeof *x), *g = calloc((size_t)n, sizeof *g), worst = 0;
    const double h = 1e-5; // error of the difference: about h^2 L''' + 1e-16 L / h
    ppl_interpret_gradient(t, param, g);
    ppl_interpret_read(t, t->graph->params[param].value, x);
    *largest = 0;
    for (int64_t i = 0; i < n; i++) *largest = fmax(*largest, fabs(g[i]));
    for (int64_t i = 0; i < n; i++) {
        double up = loss_at(t, param, x, i, x[i] + h), down = loss_at(t, param, x, i, x[i] - h);
        double difference = fabs((up - down) / (2 * h) - g[i]);
        if (!(difference <= worst)) worst = difference; // a NaN stays
    }
    ppl_interpret_write(t, t->graph->params[param].value, x);
    free(x);
    free(g);
    return worst / fmax(*largest, 1e-3);
}

// Accumulators: "=" starts over, "+=" doubles.
static void accumulates(ppl_interpret *t, int32_t param, const char *name) {
    int64_t n = ppl_type_elements(&t->graph->params[param].type);
    double *once = calloc((size_t)n, sizeof *once), *twice = calloc((size_t)n, sizeof *twice);
    assert_int_equal(ppl_interpret_backward(t, seed, false), PPL_OK);
    ppl_interpret_gradient(t, param, once);
    assert_int_equal(ppl_interpret_backward(t, seed, true), PPL_OK);
    ppl_interpret_gradient(t, param, twice);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(twice[i] - 2 * once[i]) <= 1e-12 * fabs(once[i]))) fail_msg("%s: += gives no sum", name);
    free(once);
    free(twice);
}

static void check(const ppl_case *c) {
    char text[256];
    ppl_graph *g;
    ppl_interpret t;
    ppl_case_print(c, text);
    if (ppl_case_build(c, PPL_F64, &g) != PPL_OK || ppl_interpret_open(&t, g, "reference", 1) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    ppl_case_fill(c, &t, 1);
    if (ppl_interpret_forward(&t) != PPL_OK || ppl_interpret_backward(&t, seed, false) != PPL_OK)
        fail_msg("%s: %s", text, ppl_error());
    assert_true(g->n_params > 0);
    for (int32_t p = 0; p < (int32_t)g->n_params; p++) {
        double largest, worst = gap(&t, p, &largest);
        if (!(worst <= 1e-6)) fail_msg("%s: parameter %s is off by %g", text, g->params[p].name, worst);
        if (!(largest > 0)) fail_msg("%s: parameter %s has no gradient", text, g->params[p].name);
    }
    assert_int_equal(ppl_interpret_forward(&t), PPL_OK); // differences have moved the activations
    for (int32_t p = 0; p < (int32_t)g->n_params; p++) accumulates(&t, p, text);
    ppl_interpret_close(&t);
    ppl_graph_close(g);
}

static void test_operator(void **state) {
    int32_t op = *(int32_t *)*state, found = 0;
    for (int i = 0; i < CASES; i++) {
        if (cases[i].op != op) continue;
        found++;
        check(&cases[i]);
    }
    if (!found) fail_msg("operator %s has no case here, want at least one", ppl_op_name(op));
}

int main(void) {
    static struct CMUnitTest tests[PPL_OPS];
    static int32_t ops[PPL_OPS];
    size_t n = 0;
    for (int32_t op = 0; op < PPL_OPS; op++) {
        if (ppl_op_get(op)->flags & PPL_OP_BACKWARD) continue;
        ops[n] = op;
        tests[n] = (struct CMUnitTest){.name = ppl_op_name(op), .test_func = test_operator, .initial_state = &ops[n]};
        n++;
    }
    return _cmocka_run_group_tests("finite differences", tests, n, NULL, NULL);
}
