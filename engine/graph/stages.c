// stages.c - cuts a differentiated graph into stages: programs, what lives in each stage and how long. Before:
// differentiate.c. After: edges.c joins the stages, plan/ lays out their memory.
//
// Aliases (RESHAPE) run nothing and own no bytes: programs leave them out, and what a node reads is the root of its input.
#include "graph/stages.h"
#include "graph/cutter.h"
#include <stdlib.h>

ppl_value ppl_graph_root(const ppl_graph *g, ppl_value v) {
    while (g->values[v].node != -1) {
        const ppl_node *n = &g->nodes[g->values[v].node];
        if (!(ppl_op_get(n->op)->flags & PPL_OP_ALIAS)) break;
        v = n->in[0];
    }
    return v;
}

int32_t ppl_stages_of_layer(const ppl_stages *s, int32_t layer) {
    int32_t at = 0;
    while (at + 1 < s->count && s->stage[at + 1].first_layer <= layer) at++;
    return at;
}

void ppl_stages_free(ppl_stages *s) {
    if (!s) return;
    ppl_arena_clear(&s->arena);
    ppl_free(s);
}

static ppl_status open_stages(int32_t count, ppl_stages **out) {
    ppl_stages *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    s->count = count;
    s->stage = ppl_arena_get(&s->arena, (size_t)count * sizeof *s->stage);
    if (!s->stage) {
        ppl_stages_free(s);
        return PPL_ERR_MEMORY;
    }
    *out = s;
    return PPL_OK;
}

// The graph node behind a root, -1 for inputs, parameters and the seed.
static int32_t producer(const ppl_graph *g, ppl_value root) {
    return g->values[root].node;
}

static bool runs(const ppl_node *n) {
    return !(ppl_op_get(n->op)->flags & PPL_OP_ALIAS);
}

static ppl_status check_cut(const ppl_graph *g, int32_t count, const int32_t *first_layer) {
    int32_t layers = (int32_t)g->n_layers;
    if (!g->differentiated) return ppl_fail(PPL_ERR_ARG, "cut: the graph is not differentiated, want it to be");
    if (count < 1 || count > layers)
        return ppl_fail(PPL_ERR_ARG, "cut: %d stages of %d layers, want 1..%d", count, layers, layers);
    for (int32_t s = 0; s < count; s++) {
        int32_t at = first_layer[s], least = s ? first_layer[s - 1] + 1 : 0, most = s ? layers - 1 : 0;
        if (at < least || at > most)
            return ppl_fail(PPL_ERR_ARG, "cut: stage %d begins at layer %d (%s), want %d..%d", s, at,
                            ppl_graph_layer_name(g, at), least, most);
    }
    int32_t loss = g->nodes[producer(g, ppl_graph_root(g, g->loss))].layer;
    if (loss < first_layer[count - 1])
        return ppl_fail(PPL_ERR_ARG,
                        "cut: the loss is in layer %d (%s), want it in the last stage, which begins at layer %d", loss,
                        ppl_graph_layer_name(g, loss), first_layer[count - 1]);
    return PPL_OK;
}

// Stage and phase of each node. A gradient that leaves its stage is made in I, with all it needs, wherever differentiation
// put it: so every B edge is ready when I ends.
static void place_nodes(ppl_cutter *c) {
    const ppl_graph *g = c->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        c->stage[i] = ppl_stages_of_layer(c->s, g->nodes[i].layer);
        c->phase[i] = (int8_t)g->nodes[i].phase;
    }
    for (size_t i = g->n_nodes; i-- > g->n_forward;) {
        if (!runs(&g->nodes[i])) continue;
        for (int32_t k = 0; k < g->nodes[i].inputs; k++) {
            int32_t from = producer(g, ppl_graph_root(g, g->nodes[i].in[k]));
            if (from == -1 || (size_t)from < g->n_forward) continue;
            if (c->phase[i] == PPL_PHASE_I || c->stage[from] != c->stage[i]) c->phase[from] = PPL_PHASE_I;
        }
    }
}

static ppl_status make_programs(ppl_cutter *c) {
    const ppl_graph *g = c->g;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (runs(&g->nodes[i])) c->s->stage[c->stage[i]].program[c->phase[i]].count++;
    for (int32_t s = 0; s < c->s->count; s++)
        for (int32_t p = 0; p < PPL_PHASES; p++) {
            ppl_program *program = &c->s->stage[s].program[p];
            program->nodes = ppl_arena_get(&c->s->arena, (size_t)program->count * sizeof(int32_t));
            if (!program->nodes) return PPL_ERR_MEMORY;
            program->count = 0;
        }
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (!runs(&g->nodes[i])) continue;
        ppl_program *program = &c->s->stage[c->stage[i]].program[c->phase[i]];
        ((int32_t *)program->nodes)[program->count++] = (int32_t)i;
    }
    return PPL_OK;
}

// The entry of a root in the list of the stage at work.
static ppl_status touch(ppl_cutter *c, ppl_value root, ppl_stage_value **out) {
    if (!c->mark[root]) {
        PPL_TRY(ppl_grow((void **)&c->list, &c->room_list, c->n_list + 1, sizeof *c->list));
        c->list[c->n_list++] = (ppl_stage_value){
            .value = root, .born = -1, .last = -1, .edge = -1, .bytes = ppl_type_bytes(&c->g->values[root].type)};
        c->mark[root] = (int32_t)c->n_list;
    }
    *out = &c->list[c->mark[root] - 1];
    return PPL_OK;
}

static ppl_status touch_node(ppl_cutter *c, const ppl_node *n, int32_t stage, int32_t phase) {
    const ppl_graph *g = c->g;
    ppl_stage_value *v;
    for (int32_t k = 0; k < n->inputs; k++) {
        ppl_value root = ppl_graph_root(g, n->in[k]);
        int32_t kind = g->values[root].kind;
        if (kind == PPL_VALUE_PARAM) c->reads_param[g->values[root].param] = stage + 1;
        if (kind != PPL_VALUE_INPUT && kind != PPL_VALUE_NODE) continue;
        PPL_TRY(touch(c, root, &v));
        if (v->born == -1) v->born = kind == PPL_VALUE_INPUT ? (int32_t)PPL_PHASE_F : phase;
        v->last = phase;
    }
    for (int32_t k = 0; k < n->outputs; k++) {
        const ppl_value_info *info = &g->values[n->out[k]];
        if (info->kind == PPL_VALUE_ACCUMULATOR) {
            c->reads_param[info->param] = stage + 1; // whoever has a share of the gradient updates too
            continue;
        }
        PPL_TRY(touch(c, n->out[k], &v));
        v->born = v->last = phase;
    }
    return PPL_OK;
}

static int compare_values(const void *a, const void *b) {
    const ppl_stage_value *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

static void add_cost(const ppl_graph *g, const ppl_node *n, double *flops, double *bytes) {
    ppl_op_types t = {
        .inputs = n->inputs, .attrs = &n->attrs, .acc_dtype = ppl_dtype_acc(g->dtype), .accumulates = n->accumulates};
    ppl_type out[PPL_MAX_OUTPUTS];
    ppl_cost cost;
    for (int32_t k = 0; k < n->inputs; k++) t.in[k] = &g->values[n->in[k]].type;
    for (int32_t k = 0; k < n->outputs; k++) out[k] = g->values[n->out[k]].type;
    ppl_op_get(n->op)->cost(&t, out, &cost);
    *flops += cost.flops;
    *bytes += cost.bytes;
}

// Copies what was found for a stage into it: values in order of id, inputs among them, parameters and accumulators.
static ppl_status settle_stage(ppl_cutter *c, int32_t s) {
    const ppl_graph *g = c->g;
    ppl_stage *stage = &c->s->stage[s];
    ppl_arena *arena = &c->s->arena;
    if (c->n_list) qsort(c->list, c->n_list, sizeof *c->list, compare_values);
    stage->n_values = (int32_t)c->n_list;
    stage->values = ppl_arena_get(arena, c->n_list * sizeof *stage->values);
    stage->inputs = ppl_arena_get(arena, c->n_list * sizeof *stage->inputs);
    stage->params = ppl_arena_get(arena, g->n_params * sizeof *stage->params);
    if (!stage->values || !stage->inputs || !stage->params) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < c->n_list; i++) {
        stage->values[i] = c->list[i];
        if (g->values[c->list[i].value].kind == PPL_VALUE_INPUT) stage->inputs[stage->n_inputs++] = c->list[i].value;
        c->mark[c->list[i].value] = 0;
    }
    c->n_list = 0;
    for (size_t p = 0; p < g->n_params; p++)
        if (c->reads_param[p] == s + 1) stage->params[stage->n_params++] = (int32_t)p;
    return PPL_OK;
}

static ppl_status make_stage(ppl_cutter *c, int32_t s) {
    const ppl_graph *g = c->g;
    ppl_stage *stage = &c->s->stage[s];
    size_t outputs = 0;
    for (int32_t p = 0; p < PPL_PHASES; p++)
        for (int32_t i = 0; i < stage->program[p].count; i++) {
            const ppl_node *n = &g->nodes[stage->program[p].nodes[i]];
            PPL_TRY(touch_node(c, n, s, p));
            add_cost(g, n, &stage->flops[p], &stage->bytes[p]);
            if (n->accumulates) outputs += (size_t)n->outputs;
        }
    stage->accumulators = ppl_arena_get(&c->s->arena, outputs * sizeof *stage->accumulators);
    if (!stage->accumulators) return PPL_ERR_MEMORY;
    for (size_t i = g->n_forward; i < g->n_nodes; i++)
        for (int32_t k = 0; k < g->nodes[i].outputs && g->nodes[i].accumulates && c->stage[i] == s; k++)
            stage->accumulators[stage->n_accumulators++] = g->nodes[i].out[k];
    return settle_stage(c, s);
}

static ppl_status cut(ppl_cutter *c) {
    const ppl_graph *g = c->g;
    c->stage = ppl_alloc(g->n_nodes * sizeof *c->stage);
    c->phase = ppl_alloc(g->n_nodes * sizeof *c->phase);
    c->mark = ppl_alloc(g->n_values * sizeof *c->mark);
    c->reads_param = ppl_alloc(g->n_params * sizeof *c->reads_param);
    if (!c->stage || !c->phase || !c->mark || !c->reads_param) return PPL_ERR_MEMORY;
    place_nodes(c);
    PPL_TRY(make_programs(c));
    for (int32_t s = 0; s < c->s->count; s++) PPL_TRY(make_stage(c, s));
    return ppl_cutter_join(c);
}

ppl_status ppl_stages_build(const ppl_graph *g, int32_t count, const int32_t *first_layer, ppl_stages **out) {
    ppl_stages *s;
    PPL_TRY(check_cut(g, count, first_layer));
    PPL_TRY(open_stages(count, &s));
    s->graph = g;
    for (int32_t i = 0; i < count; i++) {
        s->stage[i].first_layer = first_layer[i];
        s->stage[i].layers = (i + 1 < count ? first_layer[i + 1] : (int32_t)g->n_layers) - first_layer[i];
    }
    ppl_cutter c = {.g = g, .s = s};
    ppl_status st = cut(&c);
    ppl_free(c.stage);
    ppl_free(c.phase);
    ppl_free(c.mark);
    ppl_free(c.reads_param);
    free(c.list);
    free(c.crossings);
    if (st != PPL_OK) ppl_stages_free(s);
    else *out = s;
    return st;
}

ppl_status ppl_stages_chain(int32_t count, ppl_stages **out) {
    enum { VALUES = 5 };
    ppl_stages *s;
    if (count < 1) return ppl_fail(PPL_ERR_ARG, "stages: there are %d, want at least 1", count);
    PPL_TRY(open_stages(count, &s));
    int32_t links = count - 1;
    s->n_edges = 2 * links;
    s->edges = ppl_arena_get(&s->arena, (size_t)s->n_edges * sizeof *s->edges);
    ppl_edge_reader *readers = ppl_arena_get(&s->arena, (size_t)s->n_edges * sizeof *readers);
    ppl_stage_value *values = ppl_arena_get(&s->arena, (size_t)count * VALUES * sizeof *values);
    if (!s->edges || !readers || !values) {
        ppl_stages_free(s);
        return PPL_ERR_MEMORY;
    }
    for (int32_t e = 0; e < s->n_edges; e++) { // up from 0, 1, ..; then down from 1, 2, ..
        bool up = e < links;
        int32_t src = up ? e : e - links + 1;
        readers[e] = (ppl_edge_reader){up ? src + 1 : src - 1, PPL_PHASE_W};
        s->edges[e] = (ppl_edge){-1, up ? PPL_F : PPL_B, src, -1, &readers[e], 1, 1};
    }
    for (int32_t i = 0; i < count; i++) {
        ppl_stage_value *v = values + (size_t)i * VALUES, *end = v;
        *end++ = (ppl_stage_value){-1, PPL_PHASE_F, PPL_PHASE_W, -1, 1};
        if (i > 0) *end++ = (ppl_stage_value){-1, PPL_PHASE_F, PPL_PHASE_W, i - 1, 1};
        if (i < links) *end++ = (ppl_stage_value){-1, PPL_PHASE_F, PPL_PHASE_F, i, 1};
        if (i < links) *end++ = (ppl_stage_value){-1, PPL_PHASE_I, PPL_PHASE_W, links + i, 1};
        if (i > 0) *end++ = (ppl_stage_value){-1, PPL_PHASE_I, PPL_PHASE_I, links + i - 1, 1};
        s->stage[i] = (ppl_stage){.first_layer = i, .layers = 1, .values = v, .n_values = (int32_t)(end - v)};
    }
    *out = s;
    return PPL_OK;
}
