// recompute.c - emits forward nodes a second time for layers that do not keep their values.
#include "graph/recompute.h"

ppl_status ppl_graph_recompute(ppl_graph *g, int32_t layer, int32_t on) {
    if (layer < 0 || (size_t)layer >= g->n_layers)
        return ppl_fail(PPL_ERR_ARG, "graph: recompute layer %d, want 0 to %d", layer, (int)g->n_layers - 1);
    if (g->differentiated)
        return ppl_fail(PPL_ERR_ARG, "graph: recompute layer %d after differentiation, want it before", layer);
    g->layers[layer].recompute = on != 0;
    return PPL_OK;
}

ppl_status ppl_recompute_init(ppl_recompute *r, ppl_graph *g) {
    *r = (ppl_recompute){.g = g, .n_values = g->n_values};
    r->again = ppl_alloc(g->n_values * sizeof *r->again);
    r->wanted = ppl_alloc(g->n_forward * sizeof *r->wanted);
    if (!r->again || !r->wanted) return PPL_ERR_MEMORY;
    for (size_t v = 0; v < g->n_values; v++) r->again[v] = -1;
    return PPL_OK;
}

void ppl_recompute_clear(ppl_recompute *r) {
    ppl_free(r->again);
    ppl_free(r->wanted);
    *r = (ppl_recompute){0};
}

// The forward node of this layer that made v, if v has not been computed again yet; else -1.
static int32_t still_to_emit(const ppl_recompute *r, ppl_value v, int32_t layer) {
    if (v < 0 || (size_t)v >= r->n_values || r->again[v] != -1) return -1;
    int32_t at = r->g->values[v].node;
    return at >= 0 && (size_t)at < r->g->n_forward && r->g->nodes[at].layer == layer ? at : -1;
}

static ppl_status emit(ppl_recompute *r, int32_t at) {
    const ppl_node n = r->g->nodes[at]; // a copy: nodes move when one is added
    ppl_value in[PPL_MAX_INPUTS], out[PPL_MAX_OUTPUTS];
    for (int32_t k = 0; k < n.inputs; k++) {
        ppl_value v = n.in[k];
        in[k] = (size_t)v < r->n_values && r->again[v] != -1 ? r->again[v] : v;
    }
    PPL_TRY(ppl_graph_add_node(r->g, n.op, n.name, n.layer, PPL_PHASE_W, false, in, n.inputs, &n.attrs, out));
    for (int32_t o = 0; o < n.outputs; o++) r->again[n.out[o]] = out[o];
    return PPL_OK;
}

ppl_status ppl_recompute_value(ppl_recompute *r, ppl_value v, int32_t layer, ppl_value *out) {
    ppl_graph *g = r->g;
    *out = v;
    if (!g->layers[layer].recompute || v < 0 || (size_t)v >= r->n_values) return PPL_OK;
    const int32_t last = still_to_emit(r, v, layer);
    if (last != -1) {
        int32_t first = last; // nodes are in order: going down, whatever a wanted node needs lies below it
        r->wanted[last] = true;
        for (int32_t at = last; at >= first; at--) {
            if (!r->wanted[at]) continue;
            for (int32_t k = 0; k < g->nodes[at].inputs; k++) {
                int32_t from = still_to_emit(r, g->nodes[at].in[k], layer);
                if (from == -1) continue;
                r->wanted[from] = true;
                if (from < first) first = from;
            }
        }
        for (int32_t at = first; at <= last; at++) {
            if (!r->wanted[at]) continue;
            r->wanted[at] = false;
            PPL_TRY(emit(r, at));
        }
    }
    if (r->again[v] != -1) *out = r->again[v];
    return PPL_OK;
}
