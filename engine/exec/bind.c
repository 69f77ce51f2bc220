// bind.c - the addresses of a rank's programs. Before: rank.c has all memory. After: loop.c aims a program's pointers at a
// task's slot, pending and buffers, and runs it.
//
// A plan gives each value a place inside a stage. Pointers whose place does not move (accumulators, the seed, the workspace
// where there is one) are written here, once; the others are listed by what moves them, so that a task costs one addition a pointer.
#include "exec/rank.h"

typedef struct pointer { // of a program's call, fill or loss
    void *at;
    ppl_place place;
} pointer;

typedef struct binding {
    ppl_rank *rank;
    ppl_side *side;
    ppl_chunk_memory *memory;
    int32_t stage, phase;
    pointer *list;
    int32_t count;
} binding;

static void point(void *at, const void *to) {
    memcpy(at, &to, sizeof to);
}

static ppl_status pointer_add(binding *b, void *at, ppl_value value, const char *user) {
    const ppl_graph *g = b->side->plan->stages->graph;
    ppl_value root = ppl_graph_root(g, value);
    ppl_place place = b->side->plan->layout[b->stage].place[root];
    if (g->values[root].kind == PPL_VALUE_PARAM) // wherever else it lies, operators read this rank's copy
        place = (ppl_place){.region = PPL_REGION_PARAM, .index = g->values[root].param};
    if (place.region == PPL_REGION_NONE) {
        return ppl_fail(PPL_ERR_PLAN, "rank %d, stage %d, %s: its value %s has no place in the plan, want one",
                        b->rank->rank, b->stage, user, g->values[root].name ? g->values[root].name : "?");
    }
    b->list[b->count++] = (pointer){.at = at, .place = place};
    return PPL_OK;
}

// Buffers of an edge as a stage sees them: the producer's, or the stage's own copies.
static char *edge_memory(const ppl_side *side, int32_t edge, int32_t stage, int32_t *buffers) {
    const ppl_edge_plan *p = &side->plan->edge[edge];
    const ppl_edge *e = &side->plan->stages->edges[edge];
    *buffers = p->buffers;
    for (int32_t k = 0; k < e->n_readers; k++) {
        if (e->readers[k].stage != stage || !p->reader_buffers[k]) continue;
        *buffers = p->reader_buffers[k];
        return side->reader_memory[edge][k];
    }
    return side->memory[edge];
}

static int32_t count_region(const binding *b, int32_t region) {
    int32_t n = 0;
    for (int32_t i = 0; i < b->count; i++) n += b->list[i].place.region == region;
    return n;
}

// Gathers the pointers of a region (index -1: whatever their index) into one aim.
static ppl_status aim_build(binding *b, ppl_aim *aim, int32_t region, int32_t index, char *base, size_t stride,
                            int32_t places) {
    *aim = (ppl_aim){.stride = stride, .index = -1, .places = places};
    int32_t most = count_region(b, region);
    if (!most) return PPL_OK;
    aim->patch = ppl_arena_get(&b->rank->arena, (size_t)most * sizeof *aim->patch);
    if (!aim->patch) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < b->count; i++) {
        const ppl_place *p = &b->list[i].place;
        if (p->region != region || (index >= 0 && p->index != index)) continue;
        aim->patch[aim->count++] = (ppl_patch){.at = b->list[i].at, .base = base + p->offset};
    }
    return PPL_OK;
}

static ppl_status edges_build(binding *b, ppl_bound *out) {
    int32_t most = count_region(b, PPL_REGION_EDGE);
    out->edges = ppl_arena_get(&b->rank->arena, (size_t)most * sizeof *out->edges);
    if (!out->edges) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < b->side->plan->stages->n_edges; i++) {
        bool used = false;
        for (int32_t k = 0; k < b->count; k++)
            used |= b->list[k].place.region == PPL_REGION_EDGE && b->list[k].place.index == i;
        if (!used) continue;
        const ppl_edge *e = &b->side->plan->stages->edges[i];
        ppl_edge_aim *aim = &out->edges[out->n_edges++];
        int32_t buffers;
        char *base = edge_memory(b->side, i, b->stage, &buffers);
        aim->order = e->kind == PPL_U ? NULL : b->side->plan->edge[i].order;
        PPL_TRY(aim_build(b, &aim->aim, PPL_REGION_EDGE, i, base, ppl_link_stride(e), buffers));
    }
    return PPL_OK;
}

static void fixed_set(const binding *b) {
    for (int32_t i = 0; i < b->count; i++) {
        const pointer *p = &b->list[i];
        switch ((ppl_region)p->place.region) {
        case PPL_REGION_GRAD: point(p->at, b->rank->grads + p->place.offset); break;
        case PPL_REGION_WORK:
            if (b->rank->streams < 2) point(p->at, b->rank->work + p->place.offset);
            break;
        case PPL_REGION_SEED: point(p->at, b->rank->seed); break;
        case PPL_REGION_NONE:
        case PPL_REGION_PARAM:
        case PPL_REGION_SLOT:
        case PPL_REGION_PENDING:
        case PPL_REGION_EDGE: break;
        }
    }
}

static ppl_status params_build(binding *b, ppl_bound *out) {
    out->params = ppl_arena_get(&b->rank->arena, (size_t)count_region(b, PPL_REGION_PARAM) * sizeof *out->params);
    if (!out->params) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < b->count; i++) {
        if (b->list[i].place.region != PPL_REGION_PARAM) continue;
        out->params[out->n_params++] = (ppl_param_aim){.at = b->list[i].at, .param = b->list[i].place.index};
    }
    return PPL_OK;
}

// Lists the pointers of the program's calls, in the order in which rank.c gave the nodes to the device.
static ppl_status calls_list(binding *b, ppl_bound *out) {
    const ppl_graph *g = b->side->plan->stages->graph;
    const ppl_program *p = &b->side->plan->stages->stage[b->stage].program[b->phase];
    out->calls = ppl_arena_get(&b->rank->arena, (size_t)p->count * sizeof *out->calls);
    out->sums = ppl_arena_get(&b->rank->arena, (size_t)p->count * sizeof *out->sums);
    if (!out->calls || !out->sums) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < p->count; i++) {
        const ppl_node *n = &g->nodes[p->nodes[i]];
        ppl_call *call = &out->calls[out->n_calls++];
        if (n->accumulates) out->sums[out->n_sums++] = call;
        for (int32_t k = 0; k < n->inputs; k++) PPL_TRY(pointer_add(b, &call->in[k], n->in[k], n->name));
        for (int32_t k = 0; k < n->outputs; k++) PPL_TRY(pointer_add(b, &call->out[k], n->out[k], n->name));
        if (g->loss >= 0 && b->phase == PPL_PHASE_F && g->values[ppl_graph_root(g, g->loss)].node == p->nodes[i])
            out->has_loss = true;
    }
    return PPL_OK;
}

static ppl_status fills_list(binding *b, ppl_bound *out) {
    const ppl_graph *g = b->side->plan->stages->graph;
    const ppl_stage *s = &b->side->plan->stages->stage[b->stage];
    out->fills = ppl_arena_get(&b->rank->arena, (size_t)s->n_values * sizeof *out->fills);
    if (!out->fills) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < s->n_values; i++) {
        const ppl_stage_value *v = &s->values[i];
        if (g->values[v->value].kind != PPL_VALUE_INPUT || v->born != b->phase) continue;
        if (b->side->plan->options.forward_only && v->born != PPL_PHASE_F) continue;
        ppl_input_fill *fill = &out->fills[out->n_fills++];
        fill->value = v->value;
        PPL_TRY(pointer_add(b, &fill->to, v->value, "its input"));
    }
    return PPL_OK;
}

static ppl_status program_bind(binding *b, ppl_bound *out) {
    const ppl_stages *stages = b->side->plan->stages;
    const ppl_stage *s = &stages->stage[b->stage];
    const ppl_stage_layout *l = &b->side->plan->layout[b->stage];
    int32_t most = s->program[b->phase].count * (PPL_MAX_INPUTS + PPL_MAX_OUTPUTS) + s->n_values + 1;
    b->list = ppl_alloc((size_t)most * sizeof *b->list);
    if (!b->list) return PPL_ERR_MEMORY;
    ppl_status st;
    PPL_GOTO(calls_list(b, out));
    PPL_GOTO(fills_list(b, out));
    if (out->has_loss) PPL_GOTO(pointer_add(b, &out->loss, stages->graph->loss, "its loss"));
    fixed_set(b);
    PPL_GOTO(aim_build(b, &out->slot, PPL_REGION_SLOT, -1, b->memory->slots, l->slot_bytes, l->slots));
    PPL_GOTO(aim_build(b, &out->pending, PPL_REGION_PENDING, -1, b->memory->pendings, l->pending_bytes, l->pendings));
    if (b->rank->streams > 1)
        PPL_GOTO(aim_build(b, &out->work, PPL_REGION_WORK, -1, b->rank->work, b->rank->work_bytes, b->rank->streams));
    PPL_GOTO(edges_build(b, out));
    PPL_GOTO(params_build(b, out));
fail:
    ppl_free(b->list);
    return st;
}

ppl_status ppl_rank_bind(ppl_rank *r, int32_t side) {
    const ppl_plan *p = r->exec->side[side].plan;
    if (!p) return PPL_OK;
    for (int32_t c = 0; c < p->rank[r->rank].n_stages; c++) {
        ppl_chunk_memory *memory = &r->chunk[side][c];
        for (int32_t phase = 0; phase < PPL_PHASES; phase++) {
            ppl_bound *bound = &memory->bound[phase];
            bound->program = r->program[c][phase];
            bound->slot.index = bound->pending.index = -1;
            bound->uses = ppl_plan_flows(p) ? p->microbatches : 0;
            if (!p->stages->graph) { // nothing to point at
                bound->has_loss = phase == PPL_PHASE_F && p->rank[r->rank].stages[c] == p->stages->count - 1;
                continue;
            }
            if (p->options.forward_only && phase != PPL_PHASE_F) continue;
            binding b = {.rank = r, .side = &r->exec->side[side], .memory = memory, .phase = phase};
            b.stage = p->rank[r->rank].stages[c];
            PPL_TRY(program_bind(&b, bound));
        }
    }
    return PPL_OK;
}

void ppl_rank_bind_params(ppl_rank *r) {
    for (int32_t side = 0; side < PPL_SIDES; side++) {
        for (int32_t c = 0; r->chunk[side] && c < r->exec->plan->rank[r->rank].n_stages; c++) {
            for (int32_t phase = 0; phase < PPL_PHASES; phase++) {
                ppl_bound *b = &r->chunk[side][c].bound[phase];
                b->version = ppl_rank_newest(r, c);
                for (int32_t i = 0; i < b->n_params; i++)
                    point(b->params[i].at, ppl_rank_weight(r, b->params[i].param, b->version));
            }
        }
    }
}

const void *ppl_rank_weight(const ppl_rank *r, int32_t param, int32_t place) {
    const ppl_store_entry *e = ppl_rank_entry(r, param);
    if (e->versions > 1) return e->version[place];
    return e->copy ? e->copy : e->master;
}

void *ppl_rank_fixed(const ppl_rank *r, int32_t side, int32_t stage, ppl_value value) {
    const ppl_side *s = &r->exec->side[side];
    const ppl_place *p = &s->plan->layout[stage].place[value];
    int32_t buffers;
    if (p->region == PPL_REGION_GRAD) return r->grads + p->offset;
    if (p->region == PPL_REGION_EDGE && s->plan->stages->edges[p->index].kind == PPL_U)
        return edge_memory(s, p->index, stage, &buffers) + p->offset;
    return NULL;
}

static inline void aim_at(ppl_aim *a, int32_t index) {
    if (a->index == index) return;
    a->index = index;
    size_t offset = (size_t)index * a->stride;
    for (int32_t i = 0; i < a->count; i++) point(a->patch[i].at, a->patch[i].base + offset);
}

static ppl_status version_aim(ppl_rank *r, ppl_bound *b, int32_t place) {
    if (b->version != place)
        for (int32_t i = 0; i < b->n_params; i++) point(b->params[i].at, ppl_rank_weight(r, b->params[i].param, place));
    b->version = place;
    return ppl_rank_pack_bind(r, place);
}

ppl_status ppl_bound_aim(ppl_rank *r, ppl_bound *b, const ppl_task *task, int64_t tick, int32_t place) {
    int64_t turn = tick * b->uses;
    if (r->versions > 1) PPL_TRY(version_aim(r, b, place));
    if (b->slot.count) aim_at(&b->slot, (int32_t)((task->slot + turn) % b->slot.places));
    if (b->pending.count) aim_at(&b->pending, (int32_t)((task->pending + turn) % b->pending.places));
    if (b->work.count) aim_at(&b->work, task->stream);
    for (int32_t i = 0; i < b->n_edges; i++) {
        ppl_edge_aim *e = &b->edges[i];
        aim_at(&e->aim, e->order ? (int32_t)((e->order[task->microbatch] + turn) % e->aim.places) : 0);
    }
    bool add = task->microbatch != 0 && r->exec->plan->weights != PPL_WEIGHTS_STASH;
    if (add != b->sums_add)
        for (int32_t i = 0; i < b->n_sums; i++) b->sums[i]->add = add;
    b->sums_add = add;
    return PPL_OK;
}
