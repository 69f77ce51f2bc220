// layout.c - where every value lies. Before: tasks.c and buffers.c know how many slots and buffers there are. After: exec
// allocates the regions and points the programs at them.
//
// A value's region follows from how long it lives: over stages, in its edge's buffers; from F to a later program, in the
// microbatch's slot; from I to W, in its pending slot; inside one program, in the rank's workspace (work.c); over the
// step, among the rank's gradients.
#include "link/link.h"
#include "plan/build.h"
#include "plan/work.h"

enum { ALIGNMENT = 64 }; // bytes

typedef struct layout {
    ppl_plan *p;
    ppl_arena *scratch;
    ppl_value *root; // [graph values]
    ppl_work work;
} layout;

static bool is_input(const layout *l, const ppl_stage_value *v) {
    const ppl_graph *g = l->p->stages->graph;
    return g && g->values[v->value].kind == PPL_VALUE_INPUT;
}

static ppl_region region_of(const layout *l, const ppl_stage_value *v) {
    if (l->p->options.forward_only) {
        if (v->born != PPL_PHASE_F) return PPL_REGION_NONE;
        return v->edge >= 0 && l->p->edge[v->edge].buffers ? PPL_REGION_EDGE : PPL_REGION_WORK;
    }
    if (v->edge >= 0) return PPL_REGION_EDGE;
    if (v->born == v->last) return PPL_REGION_WORK;
    return v->born == PPL_PHASE_F ? PPL_REGION_SLOT : PPL_REGION_PENDING;
}

// Places what lives longer than a program and sums up the slot sizes.
static void lay_out_stage(const layout *l, int32_t stage) {
    ppl_stage_layout *out = &l->p->layout[stage];
    const ppl_stage *s = &l->p->stages->stage[stage];
    size_t align = out->place ? ALIGNMENT : 1; // abstract stages count in units
    for (int32_t i = 0; i < s->n_values; i++) {
        const ppl_stage_value *v = &s->values[i];
        ppl_place place = {.region = (int32_t)region_of(l, v), .index = v->edge};
        if (place.region == PPL_REGION_SLOT) {
            place.offset = out->slot_bytes;
            out->slot_bytes += ppl_align(v->bytes, align);
        } else if (place.region == PPL_REGION_PENDING) {
            place.offset = out->pending_bytes;
            out->pending_bytes += ppl_align(v->bytes, align);
        }
        if (out->place) out->place[v->value] = place;
    }
}

static void lay_out_work(layout *l, int32_t stage) {
    ppl_plan *p = l->p;
    ppl_rank_plan *r = &p->rank[p->stage_rank[stage]];
    const ppl_stage *s = &p->stages->stage[stage];
    l->work.place = p->layout[stage].place;
    l->work.bytes = 0;
    for (int32_t phase = 0; phase < (p->options.forward_only ? 1 : PPL_PHASES); phase++) {
        for (int32_t i = 0; phase == PPL_PHASE_F && i < s->n_values; i++)
            if (is_input(l, &s->values[i])) ppl_work_enter(&l->work, s->values[i].value);
        ppl_work_pack(&l->work, &s->program[phase], phase == PPL_PHASE_F ? p->stages->graph->loss : -1);
    }
    if (l->work.bytes > r->work_bytes) r->work_bytes = l->work.bytes;
}

// Parameters, accumulators, the seed; then every alias lies where its root lies.
static void lay_out_fixed(const layout *l, int32_t stage) {
    ppl_plan *p = l->p;
    const ppl_graph *g = p->stages->graph;
    const ppl_stage *s = &p->stages->stage[stage];
    ppl_place *place = p->layout[stage].place;
    ppl_rank_plan *r = &p->rank[p->stage_rank[stage]];
    for (int32_t i = 0; i < s->n_params; i++)
        place[g->params[s->params[i]].value] = (ppl_place){.region = PPL_REGION_PARAM, .index = s->params[i]};
    for (int32_t i = 0; !p->options.forward_only && i < s->n_accumulators; i++) {
        if (place[s->accumulators[i]].region == PPL_REGION_EDGE) continue; // tied
        place[s->accumulators[i]] = (ppl_place){.region = PPL_REGION_GRAD, .index = -1, .offset = r->grad_bytes};
        r->grad_bytes += ppl_align(ppl_type_bytes(&g->values[s->accumulators[i]].type), ALIGNMENT);
    }
    if (g->seed >= 0) place[g->seed] = (ppl_place){.region = PPL_REGION_SEED, .index = -1};
    for (size_t v = 0; v < g->n_values; v++)
        if (l->root[v] != (ppl_value)v && place[v].region == PPL_REGION_NONE) place[v] = place[l->root[v]];
}

// Accumulators that other stages read too are written in their edge's buffer; the others keep theirs to the rank.
static void lay_out_tied(const layout *l) {
    ppl_plan *p = l->p;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        const ppl_edge *e = &p->stages->edges[i];
        if (e->kind != PPL_U) continue;
        ppl_place place = {.region = PPL_REGION_EDGE, .index = i};
        p->layout[e->src].place[e->value] = place;
        for (int32_t k = 0; k < e->n_readers; k++) p->layout[e->readers[k].stage].place[e->value] = place;
    }
}

static ppl_status find_params(ppl_plan *p, ppl_arena *scratch) {
    size_t n = p->stages->graph->n_params;
    int32_t *seen = ppl_arena_get(scratch, n * sizeof *seen); // 1 + the last rank that uses it
    if (!seen) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < p->ranks; i++) {
        ppl_rank_plan *r = &p->rank[i];
        for (int32_t c = 0; c < r->n_stages; c++) {
            const ppl_stage *s = &p->stages->stage[r->stages[c]];
            for (int32_t k = 0; k < s->n_params; k++) {
                r->n_params += seen[s->params[k]] != i + 1;
                seen[s->params[k]] = i + 1;
            }
        }
        r->params = ppl_arena_get(&p->arena, (size_t)r->n_params * sizeof *r->params);
        if (!r->params) return PPL_ERR_MEMORY;
        r->n_params = 0;
        for (size_t k = 0; k < n; k++)
            if (seen[k] == i + 1) r->params[r->n_params++] = (int32_t)k;
    }
    return PPL_OK;
}

static ppl_status lay_out_graph(layout *l) {
    ppl_plan *p = l->p;
    const ppl_graph *g = p->stages->graph;
    l->root = ppl_arena_get(l->scratch, g->n_values * sizeof *l->root);
    if (!l->root) return PPL_ERR_MEMORY;
    for (size_t v = 0; v < g->n_values; v++) l->root[v] = ppl_graph_root(g, (ppl_value)v);
    for (int32_t k = 0; k < p->stages->count; k++) {
        p->layout[k].place = ppl_arena_get(&p->arena, g->n_values * sizeof *p->layout[k].place);
        if (!p->layout[k].place) return PPL_ERR_MEMORY;
    }
    PPL_TRY(ppl_work_init(&l->work, l->scratch, g, l->root));
    if (!p->options.forward_only) lay_out_tied(l);
    for (int32_t k = 0; k < p->stages->count; k++) {
        lay_out_stage(l, k);
        lay_out_work(l, k);
        lay_out_fixed(l, k);
    }
    return find_params(p, l->scratch);
}

// Masters, of which all versions of a trained parameter are one where operators read them as they are, and copies.
static size_t parameter_bytes(const ppl_plan *p, int32_t rank) {
    const ppl_graph *g = p->stages->graph;
    const ppl_rank_plan *r = &p->rank[rank];
    size_t sum = 0;
    for (int32_t i = 0; g && i < r->n_params; i++) {
        const ppl_param *param = &g->params[r->params[i]];
        size_t versions = (size_t)ppl_plan_param_versions(p, r->params[i]), n = (size_t)ppl_type_elements(&param->type);
        bool copied = g->dtype != param->type.dtype;
        sum += ppl_type_bytes(&param->type) * (copied ? 1 : versions);
        if (copied) sum += n * ppl_dtype_size(g->dtype) * versions;
    }
    return sum;
}

int32_t ppl_plan_param_versions(const ppl_plan *p, int32_t param) {
    if (!ppl_plan_flows(p) || p->stages->graph->params[param].spec.frozen) return 1;
    for (int32_t k = 0; k < p->stages->count; k++) // one stage alone uses it
        for (int32_t i = 0; i < p->stages->stage[k].n_params; i++)
            if (p->stages->stage[k].params[i] == param) return p->layout[k].versions;
    return 1;
}

int64_t ppl_plan_memory(const ppl_plan *p, int32_t rank, int32_t kind) {
    if (rank < 0 || rank >= p->ranks) return 0;
    const ppl_rank_plan *r = &p->rank[rank];
    size_t sum = 0;
    if (kind == PPL_MEM_PARAMETERS) return (int64_t)parameter_bytes(p, rank);
    if (kind == PPL_MEM_GRADIENTS) return (int64_t)r->grad_bytes;
    if (kind == PPL_MEM_WORKSPACE) return r->streams * (int64_t)r->work_bytes;
    for (int32_t c = 0; c < r->n_stages; c++) {
        const ppl_stage_layout *l = &p->layout[r->stages[c]];
        if (kind == PPL_MEM_ACTIVATIONS) sum += (size_t)l->slots * l->slot_bytes;
        if (kind == PPL_MEM_PENDING) sum += (size_t)l->pendings * l->pending_bytes;
    }
    for (int32_t i = 0; kind == PPL_MEM_EDGES && i < p->stages->n_edges; i++) {
        const ppl_edge_plan *e = &p->edge[i];
        size_t bytes = p->stages->graph ? ppl_link_stride(&p->stages->edges[i]) : p->stages->edges[i].bytes;
        if (ppl_plan_edge_rank(p, i) == rank) sum += (size_t)e->buffers * bytes;
        for (int32_t k = 0; k < e->n_readers; k++)
            if (e->reader_rank[k] == rank) sum += (size_t)e->reader_buffers[k] * bytes;
    }
    return (int64_t)sum;
}

static ppl_status check_limit(const ppl_plan *p) {
    for (int32_t r = 0; p->options.memory_limit && r < p->ranks; r++) {
        static const int32_t kinds[] = {PPL_MEM_ACTIVATIONS, PPL_MEM_PENDING,   PPL_MEM_EDGES,
                                        PPL_MEM_WORKSPACE,   PPL_MEM_GRADIENTS, PPL_MEM_PARAMETERS};
        int64_t bytes[6], sum = 0;
        for (int32_t i = 0; i < 6; i++) sum += bytes[i] = ppl_plan_memory(p, r, kinds[i]);
        if ((uint64_t)sum <= p->options.memory_limit) continue;
        return ppl_schedule_fail(p->actions, PPL_ERR_MEMORY, r, -1,
                                 "the plan takes %lld bytes (activations %lld, pending %lld, edges %lld, workspace "
                                 "%lld, gradients %lld, parameters %lld), want at most %zu",
                                 (long long)sum, (long long)bytes[0], (long long)bytes[1], (long long)bytes[2],
                                 (long long)bytes[3], (long long)bytes[4], (long long)bytes[5],
                                 p->options.memory_limit);
    }
    return PPL_OK;
}

ppl_status ppl_plan_lay_out(ppl_plan *p, ppl_arena *scratch) {
    layout l = {.p = p, .scratch = scratch};
    if (p->stages->graph) PPL_TRY(lay_out_graph(&l));
    else
        for (int32_t k = 0; k < p->stages->count; k++) lay_out_stage(&l, k);
    return check_limit(p);
}
