// print.c - the graph as text, one value source or node a line: for people and for golden tests.
#include "base/json.h"
#include "ops/op.h"

static void print_type(ppl_text *t, const ppl_type *type) {
    char text[128];
    ppl_text_add(t, " %s", ppl_type_print(type, text));
}

// "F layer %3 f32 (2, 4), %4 f32 (2) = layernorm(%0, %1, %2) f0=1e-05  name"; an accumulator is "+%7 of parameter".
static void print_node(ppl_text *t, const ppl_graph *g, const ppl_node *n) {
    ppl_text_add(t, "%c %d", "FIW"[n->phase], n -> layer);
    for (int32_t k = 0; k < n->outputs; k++) {
        const ppl_value_info *v = &g->values[n->out[k]];
        ppl_text_add(t, "%s%%%d", k ? ", " : n->accumulates ? " +" : " ", n->out[k]);
        print_type(t, &v->type);
    }
    ppl_text_add(t, " = %s(", ppl_op_name(n->op));
    for (int32_t k = 0; k < n->inputs; k++) ppl_text_add(t, "%s%%%d", k ? ", " : "", n->in[k]);
    ppl_text_add(t, ")");
    for (int32_t i = 0; i < 7; i++) // i7 is the key of the name
        if (n->attrs.i[i]) ppl_text_add(t, " i%d=%lld", i, (long long)n->attrs.i[i]);
    for (int32_t i = 0; i < 4; i++)
        if (n->attrs.f[i] != 0) ppl_text_add(t, " f%d=%g", i, n->attrs.f[i]);
    ppl_text_add(t, "  %s", n->name);
    for (int32_t k = 0; n->accumulates && k < n->outputs; k++)
        ppl_text_add(t, "%s%s", k ? ", " : " -> ", g->params[g->values[n->out[k]].param].name);
    ppl_text_add(t, "\n");
}

ppl_status ppl_graph_print(const ppl_graph *g, char *text, size_t size, size_t *needed) {
    ppl_text t = {0};
    for (size_t v = 0; v < g->n_values; v++) {
        static const char *const words[] = {[PPL_VALUE_INPUT] = "input",
                                            [PPL_VALUE_PARAM] = "param",
                                            [PPL_VALUE_NODE] = NULL,
                                            [PPL_VALUE_SEED] = "seed",
                                            [PPL_VALUE_ACCUMULATOR] = NULL};
        const ppl_value_info *info = &g->values[v];
        if (!words[info->kind]) continue;
        ppl_text_add(&t, "%s %%%zu", words[info->kind], v);
        print_type(&t, &info->type);
        ppl_text_add(&t, "  %s%s\n", info->name,
                     info->param != -1 && g->params[info->param].spec.frozen ? " (frozen)" : "");
    }
    for (size_t l = 0; l < g->n_layers; l++)
        ppl_text_add(&t, "layer %zu weight %g  %s\n", l, g->layers[l].weight, g->layers[l].name);
    for (size_t i = 0; i < g->n_nodes; i++) print_node(&t, g, &g->nodes[i]);
    if (g->loss != -1) ppl_text_add(&t, "loss %%%d\n", g->loss);
    if (t.failed) {
        ppl_text_clear(&t);
        return ppl_fail(PPL_ERR_MEMORY, "graph: the machine has no memory for its listing, want some");
    }
    *needed = t.length + 1;
    if (size) {
        size_t n = t.length < size ? t.length : size - 1;
        if (n) memcpy(text, t.data, n);
        text[n] = 0;
    }
    ppl_text_clear(&t);
    return PPL_OK;
}
