// edges.c - the edges between stages: whatever one stage makes and another reads, whether a neighbour or not. Before:
// stages.c has made the stages. After: plan/ gives edges buffers.
#include "graph/cutter.h"
#include <stdlib.h>

static ppl_status add_crossing(ppl_cutter *c, int32_t kind, int32_t src, ppl_value value, int32_t reader,
                               int32_t last) {
    PPL_TRY(ppl_grow((void **)&c->crossings, &c->room_crossings, c->n_crossings + 1, sizeof *c->crossings));
    c->crossings[c->n_crossings++] = (ppl_crossing){kind, src, value, {reader, last}};
    return PPL_OK;
}

static ppl_status find_crossings(ppl_cutter *c) {
    const ppl_graph *g = c->g;
    for (int32_t s = 0; s < c->s->count; s++)
        for (int32_t i = 0; i < c->s->stage[s].n_values; i++) {
            const ppl_stage_value *v = &c->s->stage[s].values[i];
            int32_t node = g->values[v->value].node;
            if (node == -1 || c->stage[node] == s) continue;
            int32_t kind = (size_t)node < g->n_forward ? PPL_F : PPL_B;
            PPL_TRY(add_crossing(c, kind, c->stage[node], v->value, s, v->last));
        }
    return PPL_OK;
}

static bool stage_uses(const ppl_stage *stage, int32_t param) {
    for (int32_t i = 0; i < stage->n_params; i++)
        if (stage->params[i] == param) return true;
    return false;
}

// Each accumulator of a parameter goes to all other stages that use the parameter.
static ppl_status find_ties(ppl_cutter *c) {
    const ppl_graph *g = c->g;
    for (int32_t s = 0; s < c->s->count; s++)
        for (int32_t i = 0; i < c->s->stage[s].n_accumulators; i++) {
            ppl_value acc = c->s->stage[s].accumulators[i];
            for (int32_t t = 0; t < c->s->count; t++)
                if (t != s && stage_uses(&c->s->stage[t], g->values[acc].param))
                    PPL_TRY(add_crossing(c, PPL_U, s, acc, t, 0));
        }
    return PPL_OK;
}

// F before B before U, then by producer, value and reader.
static int compare_crossings(const void *a, const void *b) {
    const ppl_crossing *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->reader.stage < y->reader.stage ? -1 : x->reader.stage > y->reader.stage;
}
_Static_assert(PPL_F < PPL_B && PPL_B < PPL_U, "the order of edges");

// Tells a stage which edge a value of its is; NULL where the stage does not touch it (accumulators).
static ppl_stage_value *mark_value(ppl_stage *stage, ppl_value value, int32_t edge) {
    int32_t lo = 0, hi = stage->n_values;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (stage->values[mid].value < value) lo = mid + 1;
        else hi = mid;
    }
    if (lo == stage->n_values || stage->values[lo].value != value) return NULL;
    stage->values[lo].edge = edge;
    return &stage->values[lo];
}

ppl_status ppl_cutter_join(ppl_cutter *c) {
    ppl_stages *s = c->s;
    PPL_TRY(find_crossings(c));
    PPL_TRY(find_ties(c));
    if (c->n_crossings) qsort(c->crossings, c->n_crossings, sizeof *c->crossings, compare_crossings);
    s->edges = ppl_arena_get(&s->arena, c->n_crossings * sizeof *s->edges);
    ppl_edge_reader *readers = ppl_arena_get(&s->arena, c->n_crossings * sizeof *readers);
    if (!s->edges || !readers) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < c->n_crossings; i++) {
        const ppl_crossing *x = &c->crossings[i];
        if (!i || x->value != x[-1].value) {
            ppl_edge *e = &s->edges[s->n_edges++];
            *e = (ppl_edge){.value = x->value, .kind = x->kind, .src = x->src, .src_last = -1, .readers = &readers[i]};
            e->bytes = ppl_type_bytes(&c->g->values[x->value].type);
            const ppl_stage_value *own = mark_value(&s->stage[x->src], x->value, s->n_edges - 1);
            if (own && own->last > own->born) e->src_last = own->last;
        }
        readers[i] = x->reader;
        s->edges[s->n_edges - 1].n_readers++;
        mark_value(&s->stage[x->reader.stage], x->value, s->n_edges - 1);
    }
    return PPL_OK;
}
