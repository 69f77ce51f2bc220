// test_graph.c - tracing: names, ties, layers, the even cut, the listing, and what is refused in which words.
#include "graph/tiny.h"
#include "base/random.h"
#include <math.h>

static void test_names_and_ties(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_BF16);
    ppl_value x = input(g, "x", PPL_BF16, DIMS(2, 3)), w = param(g, "w", DIMS(4, 3));
    assert_int_equal(input(g, "x", PPL_BF16, DIMS(2, 3)), x);
    assert_int_equal(param(g, "w", DIMS(4, 3)), w);
    param(g, "x", DIMS(4)); // inputs, parameters, nodes and layers have names of their own
    layer(g, "x");
    ppl_value y = binary(g, PPL_OP_LINEAR, "x", x, w);
    assert_int_equal(g->n_params, 2);
    assert_int_equal(g->params[0].type.dtype, PPL_F32); // the master
    assert_int_equal(ppl_graph_type_of(g, w)->dtype, PPL_BF16);
    assert_true(g->values[y].data);
    assert_false(g->values[w].data);
    for (int32_t i = 0; i < 300; i++) { // the table of names grows
        char name[32];
        snprintf(name, sizeof name, "n%d", i);
        unary(g, PPL_OP_ACT, name, y);
    }
    ppl_value out[2];
    FAILS(PPL_ERR_ARG, "node n299: there is one of this name already, want another name",
          ppl_graph_apply(g, PPL_OP_ACT, "n299", &y, 1, NULL, out));
    ppl_type t;
    OK(ppl_graph_type(g, y, &t));
    assert_true(ppl_type_equal(&t, ppl_graph_type_of(g, y)));
    FAILS(PPL_ERR_ARG, "graph: value is -1, want 0..303", ppl_graph_type(g, -1, &t));
    ppl_graph_close(g);
    ppl_graph_close(NULL);
}

static void test_random_nodes_have_keys(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 3));
    apply(g, PPL_OP_DROPOUT, "drop", ATTRS(.i = {[7] = 5}, .f = {0.5}), x, -1, -1);
    assert_int_equal((uint64_t)g->nodes[0].attrs.i[7], ppl_name_key("drop"));
    unary(g, PPL_OP_ACT, "act", x);
    assert_int_equal(g->nodes[1].attrs.i[7], 0);
    ppl_graph_close(g);
}

static void test_refused_layers_and_inputs(void **state) {
    (void)state;
    ppl_graph *g;
    FAILS(PPL_ERR_ARG, "graph: dtype is 3, want f32, bf16 or f64", ppl_graph_open(PPL_I32, &g));
    g = open_graph(PPL_BF16);
    layer(g, "a");
    FAILS(PPL_ERR_ARG, "layer a: there is one of this name already, want another name", ppl_graph_layer(g, "a", 1));
    FAILS(PPL_ERR_ARG, "layer b: its weight is nan, want a finite number, 0 or more", ppl_graph_layer(g, "b", NAN));
    FAILS(PPL_ERR_ARG, "layer b: its weight is -1, want a finite number, 0 or more", ppl_graph_layer(g, "b", -1));
    FAILS(PPL_ERR_ARG, "layer: its name is empty, want a text", ppl_graph_layer(g, "", 1));
    FAILS(PPL_ERR_ARG, "layer: its name is empty, want a text", ppl_graph_layer(g, NULL, 1));
    FAILS(PPL_ERR_ARG, "layer: its name has the control character 10, want plain text", ppl_graph_layer(g, "a\nb", 1));
    char longest[PPL_NAME_BYTES + 1];
    memset(longest, 'n', sizeof longest);
    longest[PPL_NAME_BYTES] = 0;
    FAILS(PPL_ERR_ARG, "layer: its name 'nnnnnnnnnnnnnnnnnnnn...' is too long, want at most 95 bytes",
          ppl_graph_layer(g, longest, 1));
    longest[PPL_NAME_BYTES - 1] = 0;
    OK(ppl_graph_layer(g, longest, 1));

    ppl_value v;
    ppl_type t = ppl_type_make(PPL_F32, 2, (int64_t[]){2, 3});
    FAILS(PPL_ERR_SHAPE, "input x: it is f32 (2, 3), want i32 or the graph's bf16", ppl_graph_input(g, "x", &t, &v));
    t.dtype = PPL_I32;
    OK(ppl_graph_input(g, "x", &t, &v));
    t.dim[1] = 4;
    FAILS(PPL_ERR_SHAPE, "input x: it is i32 (2, 4), want i32 (2, 3) as where it was first used",
          ppl_graph_input(g, "x", &t, &v));
    t.dim[1] = 0;
    FAILS(PPL_ERR_SHAPE, "input y: dim 1 is 0, want at least 1", ppl_graph_input(g, "y", &t, &v));
    t.ndim = 7;
    FAILS(PPL_ERR_SHAPE, "input y: it has 7 dims, want 0..6", ppl_graph_input(g, "y", &t, &v));
    t.ndim = 0;
    FAILS(PPL_ERR_SHAPE, "input y: it is a scalar, want dim 0 to be the sample", ppl_graph_input(g, "y", &t, &v));
    t.dtype = 9;
    FAILS(PPL_ERR_SHAPE, "input y: dtype is 9, want f32, bf16, f64 or i32", ppl_graph_input(g, "y", &t, &v));
    ppl_graph_close(g);
}

static void test_refused_params(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_BF16);
    ppl_value v;
    ppl_param_spec spec = {.init = PPL_INIT_NORMAL, .a = 0.02};
    OK(ppl_graph_param(g, "w", 2, (int64_t[]){4, 3}, &spec, &v));
    FAILS(PPL_ERR_SHAPE, "parameter w: it is f32 (4, 4), want f32 (4, 3) as where it was first used",
          ppl_graph_param(g, "w", 2, (int64_t[]){4, 4}, &spec, &v));
    spec.decay = 1;
    FAILS(PPL_ERR_SHAPE,
          "parameter w: init 2, decay 1, frozen 0, a 0.02, want 2, 0, 0, 0.02 as where it was first used",
          ppl_graph_param(g, "w", 2, (int64_t[]){4, 3}, &spec, &v));
    spec.frozen = 2;
    FAILS(PPL_ERR_ARG, "parameter u: decay is 1 and frozen 2, want 0 or 1",
          ppl_graph_param(g, "u", 1, (int64_t[]){4}, &spec, &v));
    spec = (ppl_param_spec){.init = 4};
    FAILS(PPL_ERR_ARG, "parameter u: init is 4, want 0..3", ppl_graph_param(g, "u", 1, (int64_t[]){4}, &spec, &v));
    spec = (ppl_param_spec){.a = NAN};
    FAILS(PPL_ERR_ARG, "parameter u: a is nan, want a finite number, 0 or more",
          ppl_graph_param(g, "u", 1, (int64_t[]){4}, &spec, &v));
    spec = (ppl_param_spec){0};
    FAILS(PPL_ERR_SHAPE, "parameter u: it has 9 dims, want 0..6",
          ppl_graph_param(g, "u", 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, &spec, &v));
    FAILS(PPL_ERR_SHAPE, "parameter u: it has more than 2^40 elements, want that at most",
          ppl_graph_param(g, "u", 2, (int64_t[]){1 << 21, 1 << 21}, &spec, &v));
    assert_int_equal(g->n_params, 1);
    ppl_graph_close(g);
}

static void test_refused_nodes(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 3)), w = param(g, "w", DIMS(4, 5)), in[] = {x, w, 99}, out[4];
    FAILS(PPL_ERR_ARG, "node fc: there is no layer yet, want one begun before",
          ppl_graph_apply(g, PPL_OP_LINEAR, "fc", in, 2, NULL, out));
    OK(ppl_graph_layer(g, "block", 1));
    FAILS(PPL_ERR_SHAPE, "layer block, node fc: linear: w is f32 (4, 5), want f32 (any, 3) beside x f32 (2, 3)",
          ppl_graph_apply(g, PPL_OP_LINEAR, "fc", in, 2, NULL, out));
    FAILS(PPL_ERR_ARG, "layer block, node fc: linear: input 2 is value 99, want 0..1",
          ppl_graph_apply(g, PPL_OP_LINEAR, "fc", in, 3, NULL, out));
    FAILS(PPL_ERR_SHAPE, "layer block, node fc: linear: it has 9 inputs, want 2..3",
          ppl_graph_apply(g, PPL_OP_LINEAR, "fc", in, 9, NULL, out));
    FAILS(PPL_ERR_ARG, "node fc: operator is 99, want 0..33", ppl_graph_apply(g, 99, "fc", in, 2, NULL, out));
    FAILS(PPL_ERR_ARG, "node fc: linear_dw is a gradient's own operator, want a forward one",
          ppl_graph_apply(g, PPL_OP_LINEAR_DW, "fc", in, 2, NULL, out));
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(g->n_values, 2);
    FAILS(PPL_ERR_SHAPE, "loss: x is f32 (2, 3), want a scalar f32", ppl_graph_loss(g, x));
    FAILS(PPL_ERR_ARG, "loss: it is value 2, want 0..1", ppl_graph_loss(g, 2));
    ppl_value s = param(g, "s", 0, NULL);
    FAILS(PPL_ERR_ARG, "loss: s is no operator's result, want one", ppl_graph_loss(g, s));
    ppl_value r = unary(g, PPL_OP_RESHAPE, "r", s); // another name for the parameter
    FAILS(PPL_ERR_ARG, "loss: r is no operator's result, want one", ppl_graph_loss(g, r));
    FAILS(PPL_ERR_ARG, "graph: no loss is named, want one", ppl_graph_differentiate(g));
    ppl_value loss = binary(g, PPL_OP_MSE, "loss", x, x);
    OK(ppl_graph_loss(g, loss));
    FAILS(PPL_ERR_ARG, "loss: it is named already, want it once", ppl_graph_loss(g, loss));
    FAILS(PPL_ERR_ARG, "node late: the loss is named already, want it before",
          ppl_graph_apply(g, PPL_OP_ACT, "late", &x, 1, NULL, out));
    FAILS(PPL_ERR_ARG, "layer late: the loss is named already, want it before", ppl_graph_layer(g, "late", 1));
    ppl_graph_close(g);
}

static void test_listing(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    OK(ppl_graph_layer(g, "embed", 0));
    ppl_value ids = input(g, "ids", PPL_I32, DIMS(2, 4)), w = frozen(g, "wte", DIMS(16, 8));
    ppl_value x = binary(g, PPL_OP_EMBEDDING, "tok", ids, w);
    OK(ppl_graph_layer(g, "block", 1.5));
    ppl_value gain = param(g, "gain", DIMS(8)), bias = param(g, "bias", DIMS(8));
    x = apply(g, PPL_OP_LAYERNORM, "norm", ATTRS(.f = {1e-5}), x, gain, bias);
    x = apply(g, PPL_OP_SLICE, "half", ATTRS(.i = {2, 4, 4}), x, -1, -1);
    const char *want = "input %0 i32 (2, 4)  ids\n"
                       "param %1 f32 (16, 8)  wte (frozen)\n"
                       "param %3 f32 (8)  gain\n"
                       "param %4 f32 (8)  bias\n"
                       "layer 0 weight 0  embed\n"
                       "layer 1 weight 1.5  block\n"
                       "F 0 %2 f32 (2, 4, 8) = embedding(%0, %1)  tok\n"
                       "F 1 %5 f32 (2, 4, 8), %6 f32 (2, 4, 2) = layernorm(%2, %3, %4) f0=1e-05  norm\n"
                       "F 1 %7 f32 (2, 4, 4) = slice(%5) i0=2 i1=4 i2=4  half\n";
    char *text = print_graph(g);
    assert_string_equal(text, want);
    free(text);
    size_t needed;
    char few[10];
    memset(few, '#', sizeof few);
    OK(ppl_graph_print(g, few, 9, &needed));
    assert_memory_equal(few, "input %0\0#", 10);
    assert_int_equal(needed, strlen(want) + 1);
    ppl_graph_close(g);
}

static void test_layer_parameters(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 3)), w = param(g, "w", DIMS(3, 3)), b = frozen(g, "b", DIMS(3));
    param(g, "unused", DIMS(100));
    layer(g, "a");
    layer(g, "b");
    x = binary(g, PPL_OP_LINEAR, "one", x, w);
    layer(g, "c");
    apply(g, PPL_OP_LINEAR, "two", ATTRS(.i = {0}), x, w, b); // w is tied: counted at b
    const int64_t want[] = {0, 9, 3};
    for (int32_t l = 0; l < 3; l++) assert_int_equal(ppl_graph_layer_parameters(g, l), want[l]);
    assert_int_equal(ppl_graph_layer_parameters(g, 3), 0);
    assert_int_equal(ppl_graph_layer_parameters(g, -1), 0);
    assert_int_equal(ppl_graph_layers(g), 3);
    assert_string_equal(ppl_graph_layer_name(g, 2), "c");
    assert_string_equal(ppl_graph_layer_name(g, 3), "?");
    ppl_graph_close(g);
}

// The best of all cuts, by trying each: (heaviest, squares, squares of layer counts).
static void search(const double *w, int32_t n, int32_t left, double worst, double squares, double layers,
                   double best[3]) {
    if (left == 0) {
        double now[3] = {worst, squares, layers};
        if (n != 0) return;
        for (int i = 0; i < 3; i++) {
            if (now[i] > best[i]) return;
            if (now[i] < best[i]) break;
        }
        memcpy(best, now, sizeof now);
        return;
    }
    double sum = 0;
    for (int32_t k = 1; k <= n - left + 1; k++) {
        sum += w[k - 1];
        search(w + k, n - k, left - 1, sum > worst ? sum : worst, squares + sum * sum, layers + k * k, best);
    }
}

static void test_even_cut(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 300; round++) {
        double w[9];
        uint32_t r[12];
        for (uint64_t i = 0; i < 3; i++) ppl_philox(3, round, i, r + 4 * i);
        int32_t n = 1 + (int32_t)(r[11] % 9);
        ppl_graph *g = open_graph(PPL_F32);
        bool weighed = false;
        for (int32_t i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "l%d", i);
            w[i] = r[i] % 4;
            weighed = weighed || w[i] > 0;
            OK(ppl_graph_layer(g, name, w[i]));
        }
        for (int32_t i = 0; !weighed && i < n; i++) w[i] = 1;
        for (int32_t stages = 1; stages <= n; stages++) {
            int32_t first[9];
            double best[3] = {INFINITY, INFINITY, INFINITY}, got[3] = {0};
            OK(ppl_graph_cut_even(g, stages, first));
            assert_int_equal(first[0], 0);
            for (int32_t s = 0; s < stages; s++) {
                int32_t end = s + 1 < stages ? first[s + 1] : n;
                assert_true(end > first[s]);
                double sum = 0;
                for (int32_t i = first[s]; i < end; i++) sum += w[i];
                got[0] = sum > got[0] ? sum : got[0];
                got[1] += sum * sum;
                got[2] += (end - first[s]) * (end - first[s]);
            }
            search(w, n, stages, 0, 0, 0, best);
            for (int i = 0; i < 3; i++) assert_true(got[i] == best[i]);
        }
        ppl_graph_close(g);
    }
}

static void test_even_cut_of_a_gpt(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    int32_t first[8];
    OK(ppl_graph_layer(g, "embed", 0));
    for (int32_t i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        OK(ppl_graph_layer(g, name, 0.1)); // sums of which are rounded
    }
    OK(ppl_graph_layer(g, "head", 0));
    OK(ppl_graph_cut_even(g, 3, first));
    assert_int_equal(first[1], 3);
    assert_int_equal(first[2], 5);
    OK(ppl_graph_cut_even(g, 8, first));
    for (int32_t s = 0; s < 8; s++) assert_int_equal(first[s], s);
    FAILS(PPL_ERR_ARG, "cut: 9 stages of 8 layers, want a layer for each", ppl_graph_cut_even(g, 9, first));
    FAILS(PPL_ERR_ARG, "cut: 0 stages, want at least 1", ppl_graph_cut_even(g, 0, first));
    ppl_graph_close(g);
}

// Masks belong to samples: what dropout takes must have them in dim 0.
static void test_dropout_of_samples(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "l");
    ppl_value x = input(g, "x", PPL_F32, DIMS(2, 3, 4)), w = param(g, "w", DIMS(4, 4)), out = -1;
    const ppl_attrs half = {.f = {0.5}};
    ppl_value flat = apply(g, PPL_OP_RESHAPE, "flat", ATTRS(.i = {2, 6, 4}), x, -1, -1);
    assert_int_equal(ppl_graph_apply(g, PPL_OP_DROPOUT, "drop", &flat, 1, &half, &out), PPL_ERR_SHAPE);
    assert_string_equal(ppl_error(), "node drop: its input is f32 (6, 4), want dim 0 to be the 2 samples of input x");
    OK(ppl_graph_apply(g, PPL_OP_DROPOUT, "drop", &x, 1, &half, &out));
    OK(ppl_graph_apply(g, PPL_OP_DROPOUT, "drop w", &w, 1, &half, &out)); // not of the data
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropout_of_samples),
                                       cmocka_unit_test(test_names_and_ties),
                                       cmocka_unit_test(test_random_nodes_have_keys),
                                       cmocka_unit_test(test_refused_layers_and_inputs),
                                       cmocka_unit_test(test_refused_params),
                                       cmocka_unit_test(test_refused_nodes),
                                       cmocka_unit_test(test_listing),
                                       cmocka_unit_test(test_layer_parameters),
                                       cmocka_unit_test(test_even_cut),
                                       cmocka_unit_test(test_even_cut_of_a_gpt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
