// test_random.c - what holds for every graph and every cut: gradients are derivatives, programs hold each node once and
// find what they read, lifetimes and edges are exactly what is read where.
#include "graph/random.h"
#include "support/interpret.h"
#include <math.h>

enum { ELEMENTS = 24 };

static double loss_of(ppl_interpret *t) {
    double loss;
    OK(ppl_interpret_forward(t));
    ppl_interpret_read(t, t->graph->loss, &loss);
    return loss;
}

static void fill(ppl_interpret *t, draw *d, ppl_value v) {
    double x[ELEMENTS];
    for (int32_t i = 0; i < ELEMENTS; i++) x[i] = pick(d, 2001) / 1000.0 - 1;
    ppl_interpret_write(t, v, x);
}

// A few elements of each parameter against central differences.
static void check_gradients(const ppl_graph *g, draw *d) {
    const double h = 1e-5;
    ppl_interpret t;
    OK(ppl_interpret_open(&t, g, "reference", 1));
    t.env = (ppl_call_env){.seed = 5, .training = true};
    for (size_t v = 0; v < g->n_values; v++)
        if (g->values[v].kind == PPL_VALUE_INPUT || g->values[v].kind == PPL_VALUE_PARAM) fill(&t, d, (ppl_value)v);
    for (size_t p = 0; p < g->n_params; p++) {
        double x[ELEMENTS], grad[ELEMENTS];
        if (!g->params[p].n_uses) continue;
        loss_of(&t);
        OK(ppl_interpret_backward(&t, 1, false));
        ppl_interpret_gradient(&t, (int32_t)p, grad);
        ppl_interpret_read(&t, g->params[p].value, x);
        for (int32_t k = 0; k < 3; k++) {
            uint32_t i = pick(d, (uint32_t)ppl_type_elements(&g->params[p].type));
            double was = x[i];
            x[i] = was + h;
            ppl_interpret_write(&t, g->params[p].value, x);
            double up = loss_of(&t);
            x[i] = was - h;
            ppl_interpret_write(&t, g->params[p].value, x);
            double down = loss_of(&t);
            x[i] = was;
            ppl_interpret_write(&t, g->params[p].value, x);
            double want = (up - down) / (2 * h), scale = fmax(1, fabs(want)) + fabs(up) * 1e-4;
            if (!(fabs(grad[i] - want) <= 1e-5 * scale))
                fail_msg("graph %d: parameter %s, element %u: %.12g, want %.12g", (int)d->key, g->params[p].name, i,
                         grad[i], want);
        }
    }
    ppl_interpret_close(&t);
}

static void test_gradients(void **state) {
    (void)state;
    int32_t uses = 0;
    for (uint64_t k = 0; k < 60; k++) {
        draw d = {.key = k};
        ppl_graph *g = random_graph(&d, 4 + (int32_t)pick(&d, 10));
        for (size_t p = 0; p < g->n_params; p++) uses += g->params[p].n_uses;
        check_gradients(g, &d);
        ppl_graph_close(g);
    }
    assert_true(uses > 100);
}

static int32_t stage_of(const ppl_stages *s, const ppl_graph *g, int32_t node) {
    return ppl_stages_of_layer(s, g->nodes[node].layer);
}

static bool is_alias(const ppl_node *n) {
    return ppl_op_get(n->op)->flags & PPL_OP_ALIAS;
}

// Each node that runs stands once, in its stage, in order; forward nodes in F, backward ones in I or W.
static void check_programs(const ppl_stages *s, const ppl_graph *g) {
    int32_t runs = 0, listed = 0;
    for (size_t i = 0; i < g->n_nodes; i++) runs += !is_alias(&g->nodes[i]);
    for (int32_t st = 0; st < s->count; st++)
        for (int32_t p = 0; p < PPL_PHASES; p++)
            for (int32_t i = 0; i < s->stage[st].program[p].count; i++) {
                const int32_t *nodes = s->stage[st].program[p].nodes;
                assert_true(i == 0 || nodes[i] > nodes[i - 1]);
                assert_int_equal(stage_of(s, g, nodes[i]), st);
                assert_false(is_alias(&g->nodes[nodes[i]]));
                assert_int_equal((size_t)nodes[i] < g->n_forward, p == PPL_PHASE_F);
                if (g->nodes[nodes[i]].phase == PPL_PHASE_I) assert_int_equal(p, PPL_PHASE_I);
                listed++;
            }
    assert_int_equal(listed, runs);
}

static const ppl_edge *find_edge(const ppl_stages *s, ppl_value v) {
    for (int32_t i = 0; i < s->n_edges; i++)
        if (s->edges[i].value == v) return &s->edges[i];
    return NULL;
}

// Runs a program in thought: whatever it reads must be there, over an edge that says so if it comes from elsewhere.
static void run_program(const ppl_stages *s, const ppl_graph *g, int32_t st, int32_t phase, bool *there) {
    for (int32_t i = 0; i < s->stage[st].program[phase].count; i++) {
        const ppl_node *n = &g->nodes[s->stage[st].program[phase].nodes[i]];
        for (int32_t k = 0; k < n->inputs; k++) {
            ppl_value root = ppl_graph_root(g, n->in[k]);
            if (g->values[root].kind != PPL_VALUE_NODE) continue;
            assert_true(there[root]);
            if (stage_of(s, g, g->values[root].node) == st) continue;
            const ppl_edge *e = find_edge(s, root);
            assert_non_null(e);
            bool reader = false;
            for (int32_t r = 0; r < e->n_readers; r++)
                reader = reader || (e->readers[r].stage == st && e->readers[r].last >= phase);
            assert_true(reader);
        }
        for (int32_t k = 0; k < n->outputs; k++) there[n->out[k]] = true;
    }
}

// Both orders of backward work: I then W stage by stage, and all I before any W.
static void check_order(const ppl_stages *s, const ppl_graph *g) {
    for (int32_t split = 0; split < 2; split++) {
        bool *there = calloc(g->n_values, sizeof *there);
        assert_non_null(there);
        for (int32_t st = 0; st < s->count; st++) run_program(s, g, st, PPL_PHASE_F, there);
        for (int32_t st = s->count - 1; st >= 0; st--) {
            run_program(s, g, st, PPL_PHASE_I, there);
            if (!split) run_program(s, g, st, PPL_PHASE_W, there);
        }
        for (int32_t st = 0; split && st < s->count; st++) run_program(s, g, st, PPL_PHASE_W, there);
        for (size_t i = 0; i < g->n_nodes; i++)
            if (!is_alias(&g->nodes[i])) assert_true(there[g->nodes[i].out[0]]);
        free(there);
    }
}

// First and last phase in which a stage has to do with a value, its making included; made: the phase that makes it; -1 none.
typedef struct life {
    int32_t first, last, made;
} life;

static life life_of(const ppl_stages *s, const ppl_graph *g, int32_t st, ppl_value v) {
    life l = {-1, -1, -1};
    for (int32_t p = 0; p < PPL_PHASES; p++)
        for (int32_t i = 0; i < s->stage[st].program[p].count; i++) {
            const ppl_node *n = &g->nodes[s->stage[st].program[p].nodes[i]];
            bool reads = false, makes = false;
            for (int32_t k = 0; k < n->inputs; k++) reads = reads || ppl_graph_root(g, n->in[k]) == v;
            for (int32_t k = 0; k < n->outputs; k++) makes = makes || n->out[k] == v;
            if (!reads && !makes) continue;
            if (l.first == -1) l.first = p;
            l.last = p;
            if (makes) l.made = p;
        }
    return l;
}

static void check_edge(const ppl_stages *s, const ppl_graph *g, const ppl_edge *e) {
    int32_t node = g->values[e->value].node;
    bool forward = (size_t)node < g->n_forward;
    assert_int_equal(e->src, stage_of(s, g, node));
    assert_int_equal(e->bytes, ppl_type_bytes(&g->values[e->value].type));
    life own = life_of(s, g, e->src, e->value);
    assert_int_equal(e->kind, forward ? PPL_F : PPL_B);
    assert_int_equal(own.made, forward ? PPL_PHASE_F : PPL_PHASE_I);
    assert_int_equal(e->src_last, own.last > own.made ? own.last : -1);
    int32_t at = 0;
    for (int32_t st = 0; st < s->count; st++) {
        life l = life_of(s, g, st, e->value);
        if (st == e->src || l.first == -1) continue;
        assert_true(forward ? st > e->src : st < e->src);
        assert_int_equal(e->readers[at].stage, st);
        assert_int_equal(e->readers[at++].last, l.last);
    }
    assert_int_equal(at, e->n_readers);
}

static bool has(const int32_t *list, int32_t n, int32_t x) {
    for (int32_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

// Values with their lifetimes, inputs and parameters of each stage, by asking about every value.
static void check_values(const ppl_stages *s, const ppl_graph *g) {
    for (int32_t st = 0; st < s->count; st++) {
        const ppl_stage *stage = &s->stage[st];
        int32_t at = 0;
        for (size_t v = 0; v < g->n_values; v++) {
            int32_t kind = g->values[v].kind, param = g->values[v].param;
            life l = life_of(s, g, st, (ppl_value)v);
            if (kind == PPL_VALUE_INPUT)
                assert_int_equal(has(stage->inputs, stage->n_inputs, (int32_t)v), l.first != -1);
            if (kind == PPL_VALUE_ACCUMULATOR)
                assert_int_equal(has(stage->accumulators, stage->n_accumulators, (int32_t)v), l.first != -1);
            if ((kind == PPL_VALUE_PARAM || kind == PPL_VALUE_ACCUMULATOR) && l.first != -1)
                assert_true(has(stage->params, stage->n_params, param));
            if ((kind != PPL_VALUE_INPUT && kind != PPL_VALUE_NODE) || l.first == -1) continue;
            const ppl_stage_value *sv = &stage->values[at++];
            assert_int_equal(sv->value, v);
            assert_int_equal(sv->born, kind == PPL_VALUE_INPUT ? (int32_t)PPL_PHASE_F : l.first);
            assert_int_equal(sv->last, l.last);
            assert_ptr_equal(sv->edge == -1 ? NULL : &s->edges[sv->edge], find_edge(s, (ppl_value)v));
        }
        assert_int_equal(at, stage->n_values);
    }
}

// Each accumulator goes to all other stages that have the parameter; together they are the parameters' uses.
static void check_ties(const ppl_stages *s, const ppl_graph *g) {
    int32_t accumulators = 0, uses = 0;
    for (size_t p = 0; p < g->n_params; p++) {
        uses += g->params[p].n_uses;
        for (int32_t u = 0; u < g->params[p].n_uses; u++) {
            ppl_value acc = g->params[p].uses[u];
            const ppl_edge *e = find_edge(s, acc);
            int32_t src = stage_of(s, g, g->values[acc].node), readers = 0;
            for (int32_t st = 0; st < s->count; st++)
                if (st != src && has(s->stage[st].params, s->stage[st].n_params, (int32_t)p)) {
                    assert_non_null(e);
                    assert_int_equal(e->readers[readers++].stage, st);
                }
            assert_int_equal(readers, e ? e->n_readers : 0);
            if (e) assert_int_equal(e->src, src);
        }
    }
    for (int32_t st = 0; st < s->count; st++) accumulators += s->stage[st].n_accumulators;
    assert_int_equal(accumulators, uses);
}

static void test_cuts(void **state) {
    (void)state;
    int32_t edges[PPL_KINDS] = {0}, promoted = 0;
    for (uint64_t k = 0; k < 150; k++) {
        draw d = {.key = 1000 + k};
        ppl_graph *g = random_graph(&d, 6 + (int32_t)pick(&d, 20));
        int32_t first[64] = {0}, count = 1;
        for (int32_t l = 1; l < ppl_graph_layers(g); l++)
            if (pick(&d, 3)) first[count++] = l;
        ppl_stages *s;
        OK(ppl_stages_build(g, count, first, &s));
        check_programs(s, g);
        check_order(s, g);
        check_values(s, g);
        check_ties(s, g);
        for (int32_t i = 0; i < s->n_edges; i++) {
            const ppl_edge *e = &s->edges[i];
            edges[e->kind]++;
            if (i) assert_true(e->kind > e[-1].kind || (e->kind == e[-1].kind && e->src >= e[-1].src));
            if (e->kind != PPL_U) check_edge(s, g, e);
            promoted += e->kind == PPL_B && g->nodes[g->values[e->value].node].phase == PPL_PHASE_W;
        }
        ppl_stages_free(s);
        ppl_graph_close(g);
    }
    assert_true(edges[PPL_F] > 100 && edges[PPL_B] > 100 && edges[PPL_U] > 100 && promoted > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
