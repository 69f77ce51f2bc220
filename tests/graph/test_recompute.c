// test_recompute.c - recomputed layers: forward nodes emitted again among the backward ones, and no others.
#include "graph/tiny.h"

// Three layers of a linear with an activation and dropout; the middle one is recomputed.
static ppl_graph *three_layers(int32_t recomputed) {
    ppl_graph *g = open_graph(PPL_F32);
    ppl_value x = -1;
    for (int32_t l = 0; l < 3; l++) {
        char name[32];
        snprintf(name, sizeof name, "l%d", l);
        layer(g, name);
        if (l == 0) x = input(g, "x", PPL_F32, DIMS(2, 4));
        snprintf(name, sizeof name, "w%d", l);
        ppl_value w = param(g, name, DIMS(4, 4));
        snprintf(name, sizeof name, "fc%d", l);
        x = apply(g, PPL_OP_LINEAR, name, ATTRS(.i = {PPL_ACT_RELU}), x, w, -1);
        snprintf(name, sizeof name, "drop%d", l);
        x = apply(g, PPL_OP_DROPOUT, name, ATTRS(.f = {0.5}), x, -1, -1);
        snprintf(name, sizeof name, "soft%d", l);
        x = unary(g, PPL_OP_SOFTMAX, name, x);
    }
    ppl_value target = input(g, "target", PPL_F32, DIMS(2, 4));
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "mse", x, target)));
    if (recomputed >= 0) OK(ppl_graph_recompute(g, recomputed, 1));
    OK(ppl_graph_differentiate(g));
    return g;
}

static int32_t count(const ppl_graph *g, int32_t op, int32_t layer, bool backward) {
    int32_t n = 0;
    for (size_t i = backward ? g->n_forward : 0; i < (backward ? g->n_nodes : g->n_forward); i++)
        n += g->nodes[i].op == op && g->nodes[i].layer == layer;
    return n;
}

static void test_one_layer(void **state) {
    (void)state;
    ppl_graph *g = three_layers(1);
    for (int32_t l = 0; l < 3; l++) {
        int32_t again = l == 1;
        assert_int_equal(count(g, PPL_OP_LINEAR, l, true), again);
        assert_int_equal(count(g, PPL_OP_SOFTMAX, l, true), again);
        assert_int_equal(count(g, PPL_OP_DROPOUT, l, true), again + (l >= 0)); // its gradient is a dropout too
    }
    for (size_t i = g->n_forward; i < g->n_nodes; i++) { // nothing backward reads what layer 1 made in the forward
        const ppl_node *n = &g->nodes[i];
        if (n->layer != 1) continue;
        for (int32_t k = 0; k < n->inputs; k++) {
            int32_t from = g->values[n->in[k]].node;
            if (from >= 0 && (size_t)from < g->n_forward) assert_int_equal(g->nodes[from].layer, 0);
            if (from >= 0) assert_true((size_t)from < i); // and everything is computed before it is read
        }
    }
    ppl_stages *s = NULL;
    OK(ppl_stages_build(g, 3, (int32_t[]){0, 1, 2}, &s));
    for (int32_t v = 0; v < s->stage[1].n_values; v++) { // only what enters the layer lives from F on
        const ppl_stage_value *value = &s->stage[1].values[v];
        if (value->born == PPL_PHASE_F && value->last != PPL_PHASE_F) assert_true(value->edge >= 0);
    }
    ppl_stages_free(s);
    ppl_graph_close(g);
}

// The second dropout of a node draws the mask of the first: same name, same key.
static void test_same_mask(void **state) {
    (void)state;
    ppl_graph *g = three_layers(1);
    int64_t key = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == PPL_OP_DROPOUT && g->nodes[i].layer == 1) {
            if (!key) key = g->nodes[i].attrs.i[7];
            assert_int_equal(g->nodes[i].attrs.i[7], key);
        }
    assert_true(key != 0);
    ppl_graph_close(g);
}

static void test_refused(void **state) {
    (void)state;
    ppl_graph *g = three_layers(-1);
    assert_int_equal(ppl_graph_recompute(g, 0, 1), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "graph: recompute layer 0 after differentiation, want it before");
    assert_int_equal(ppl_graph_recompute(g, 3, 1), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "graph: recompute layer 3, want 0 to 2");
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_layer),
        cmocka_unit_test(test_same_mask),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
