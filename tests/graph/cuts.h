// cuts.h - stages and edges in words, for tests.
#ifndef PPL_TESTS_GRAPH_CUTS_H
#define PPL_TESTS_GRAPH_CUTS_H
#include "base/json.h"
#include "graph/tiny.h"

static const char kinds[] = "FBIWU", phases[] = "FIW";

// One line an edge: "F %3 0 -> 1(W) 2(F) own W, 96".
static inline void assert_edges(const ppl_stages *s, const char *want) {
    ppl_text t = {0};
    ppl_text_add(&t, "%s", "");
    for (int32_t i = 0; i < s->n_edges; i++) {
        const ppl_edge *e = &s->edges[i];
        ppl_text_add(&t, "%c %%%d %d ->", kinds[e->kind], e->value, e->src);
        for (int32_t k = 0; k < e->n_readers; k++)
            ppl_text_add(&t, " %d(%c)", e->readers[k].stage, phases[e->readers[k].last]);
        ppl_text_add(&t, " own %c, %zu\n", e->src_last == -1 ? '-' : phases[e->src_last], e->bytes);
    }
    assert_string_equal(t.data, want);
    ppl_text_clear(&t);
}

// A line of programs by node names and operators, one of values ("%3 FW e0" lives from F to W and is edge 0), one of the rest.
static inline void assert_stage(const ppl_stages *s, int32_t at, const char *want) {
    const ppl_stage *stage = &s->stage[at];
    ppl_text t = {0};
    for (int32_t p = 0; p < PPL_PHASES; p++) {
        ppl_text_add(&t, "%c:", phases[p]);
        for (int32_t i = 0; i < stage->program[p].count; i++) {
            const ppl_node *n = &s->graph->nodes[stage->program[p].nodes[i]];
            ppl_text_add(&t, " %s.%s", n->name, ppl_op_name(n->op));
        }
        ppl_text_add(&t, "\n");
    }
    for (int32_t i = 0; i < stage->n_values; i++) {
        const ppl_stage_value *v = &stage->values[i];
        ppl_text_add(&t, "%s%%%d %c%c", i ? ", " : "", v->value, phases[v->born], phases[v->last]);
        if (v->edge != -1) ppl_text_add(&t, " e%d", v->edge);
        assert_int_equal(v->bytes, ppl_type_bytes(&s->graph->values[v->value].type));
    }
    ppl_text_add(&t, "\ninputs");
    for (int32_t i = 0; i < stage->n_inputs; i++) ppl_text_add(&t, " %s", s->graph->values[stage->inputs[i]].name);
    ppl_text_add(&t, "; params");
    for (int32_t i = 0; i < stage->n_params; i++) ppl_text_add(&t, " %s", s->graph->params[stage->params[i]].name);
    ppl_text_add(&t, "; accumulators");
    for (int32_t i = 0; i < stage->n_accumulators; i++) ppl_text_add(&t, " %%%d", stage->accumulators[i]);
    ppl_text_add(&t, "\n");
    assert_string_equal(t.data, want);
    ppl_text_clear(&t);
}

static inline ppl_stages *cut_at(const ppl_graph *g, size_t count, const int32_t *first) {
    ppl_stages *s;
    OK(ppl_stages_build(g, (int32_t)count, first, &s));
    return s;
}
#define CUT(...)                                                                                                       \
    (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]) {                                                \
        __VA_ARGS__                                                                                                    \
    }

#endif
