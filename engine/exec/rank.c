// rank.c - what a rank owns: its device, its stages' programs, its memory. All of it is had on the rank's own thread
// before the first step. Before: exec.c. After: bind.c gives the programs their addresses.
#include "exec/rank.h"

int32_t ppl_rank_chunk(const ppl_rank *r, int32_t stage) {
    const ppl_rank_plan *p = &r->exec->plan->rank[r->rank];
    for (int32_t c = 0; c < p->n_stages; c++)
        if (p->stages[c] == stage) return c;
    return -1;
}

// Memory of the device, counted under `kind`; no bytes, no memory.
static ppl_status memory_get(ppl_rank *r, ppl_memory kind, size_t bytes, void *out) {
    void *p = NULL;
    if (bytes) PPL_TRY(r->exec->options.device->memory_get(r->device, bytes, &p));
    r->bytes[kind] += (int64_t)bytes;
    memcpy(out, &p, sizeof p);
    return PPL_OK;
}

// ---- programs ----

enum { SCRATCH_ALIGNMENT = 256 }; // bytes: each stream's begins so

// Which input is a parameter that packing is for: the second where it is one (the weight of LINEAR and its kin), else the
// first that is; -1 none.
static int32_t param_input(const ppl_graph *g, const ppl_node *n) {
    int32_t first = -1;
    for (int32_t i = 0; i < n->inputs; i++) {
        if (g->values[ppl_graph_root(g, n->in[i])].kind != PPL_VALUE_PARAM) continue;
        if (i == 1) return 1;
        if (first < 0) first = i;
    }
    return first;
}

static void node_fill(const ppl_rank *r, int32_t id, ppl_device_node *out) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    const ppl_node *n = &g->nodes[id];
    *out = (ppl_device_node){.node = id, .param = -1, .name = n->name};
    ppl_kernel_spec *s = &out->spec;
    s->op = n->op;
    s->inputs = n->inputs;
    s->outputs = n->outputs;
    s->attrs = n->attrs;
    s->accumulates = n->accumulates;
    s->threads = r->exec->options.device_options.threads;
    s->param_input = param_input(g, n);
    for (int32_t i = 0; i < n->inputs; i++) s->in[i] = *ppl_graph_type_of(g, n->in[i]);
    for (int32_t i = 0; i < n->outputs; i++) s->out[i] = *ppl_graph_type_of(g, n->out[i]);
    if (s->param_input >= 0) out->param = g->values[ppl_graph_root(g, n->in[s->param_input])].param;
}

static ppl_status program_build(ppl_rank *r, int32_t stage, int32_t phase, ppl_device_program **out) {
    const ppl_stages *stages = r->exec->plan->stages;
    const ppl_program *p = &stages->stage[stage].program[phase];
    int32_t nodes = stages->graph ? p->count : 0;
    ppl_device_node *list = ppl_alloc((size_t)nodes * sizeof *list);
    if (!list) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < nodes; i++) node_fill(r, p->nodes[i], &list[i]);
    ppl_program_needs needs = {0};
    ppl_status st = r->exec->options.device->program_build(r->device, stage, phase, list, nodes, &needs, out);
    ppl_free(list);
    if (st != PPL_OK) return ppl_prefix(st, "rank %d, stage %d: ", r->rank, stage);
    if (needs.scratch > r->scratch_bytes) r->scratch_bytes = ppl_align(needs.scratch, SCRATCH_ALIGNMENT);
    r->packed_bytes += needs.pack;
    return PPL_OK;
}

static ppl_status programs_build(ppl_rank *r) {
    const ppl_rank_plan *p = &r->exec->plan->rank[r->rank];
    r->program = ppl_arena_get(&r->arena, (size_t)p->n_stages * sizeof *r->program);
    if (!r->program) return PPL_ERR_MEMORY;
    for (int32_t c = 0; c < p->n_stages; c++)
        for (int32_t phase = 0; phase < PPL_PHASES; phase++)
            PPL_TRY(program_build(r, p->stages[c], phase, &r->program[c][phase]));
    return PPL_OK;
}

// ---- memory ----

// The producer's buffers of this rank's edges, and the rank's own where it reads copies.
static ppl_status edges_get(ppl_rank *r, ppl_side *side) {
    const ppl_plan *p = side->plan;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        const ppl_edge_plan *e = &p->edge[i];
        size_t stride = ppl_link_stride(&p->stages->edges[i]);
        if (ppl_plan_edge_rank(p, i) == r->rank)
            PPL_TRY(memory_get(r, PPL_MEM_EDGES, (size_t)e->buffers * stride, &side->memory[i]));
        for (int32_t k = 0; k < e->n_readers; k++)
            if (e->reader_rank[k] == r->rank && e->reader_buffers[k])
                PPL_TRY(
                    memory_get(r, PPL_MEM_LINKS, (size_t)e->reader_buffers[k] * stride, &side->reader_memory[i][k]));
    }
    return PPL_OK;
}

static ppl_status side_get(ppl_rank *r, int32_t kind) {
    ppl_side *side = &r->exec->side[kind];
    if (!side->plan) return PPL_OK;
    const ppl_rank_plan *p = &side->plan->rank[r->rank];
    r->chunk[kind] = ppl_arena_get(&r->arena, (size_t)p->n_stages * sizeof **r->chunk);
    if (!r->chunk[kind]) return PPL_ERR_MEMORY;
    for (int32_t c = 0; c < p->n_stages; c++) {
        const ppl_stage_layout *l = &side->plan->layout[p->stages[c]];
        ppl_chunk_memory *m = &r->chunk[kind][c];
        PPL_TRY(memory_get(r, PPL_MEM_ACTIVATIONS, (size_t)l->slots * l->slot_bytes, &m->slots));
        PPL_TRY(memory_get(r, PPL_MEM_PENDING, (size_t)l->pendings * l->pending_bytes, &m->pendings));
    }
    return edges_get(r, side);
}

static ppl_status memory_build(ppl_rank *r) {
    ppl_exec *e = r->exec;
    size_t streams = (size_t)r->streams;
    for (int32_t kind = 0; kind < PPL_SIDES; kind++) { // sides take turns: they share the workspace
        const ppl_plan *p = e->side[kind].plan;
        if (p && p->rank[r->rank].work_bytes > r->work_bytes) r->work_bytes = p->rank[r->rank].work_bytes;
        PPL_TRY(side_get(r, kind));
    }
    PPL_TRY(memory_get(r, PPL_MEM_WORKSPACE, streams * r->work_bytes, &r->work));
    PPL_TRY(memory_get(r, PPL_MEM_WORKSPACE, streams * r->scratch_bytes, &r->scratch));
    PPL_TRY(memory_get(r, PPL_MEM_OTHER, 64, &r->seed));
    PPL_TRY(memory_get(r, PPL_MEM_GRADIENTS, e->plan->rank[r->rank].grad_bytes, &r->grads));
    PPL_TRY(memory_get(r, PPL_MEM_PACKED, (size_t)r->versions * r->packed_bytes, &r->packed));
    return e->options.device->pack_bind(r->device, r->packed, r->packed_bytes);
}

ppl_status ppl_rank_setup(ppl_rank *r) {
    ppl_exec *e = r->exec;
    ppl_device_options o = e->options.device_options;
    o.rank = r->rank;
    o.process = e->options.world ? e->options.world->place : 0;
    o.processes = e->options.world ? e->options.world->neighbours : 1;
    o.seat = r->rank - e->first;
    o.stop = &e->stop;
    o.fail_task = r->rank == e->options.fail_rank ? e->options.fail_task : -1;
    o.stall_task = r->rank == e->options.fail_rank ? e->options.stall_task : -1;
    PPL_TRY(e->options.device->open(&o, &r->device));
    const ppl_rank_plan *own = &e->plan->rank[r->rank];
    r->streams = own->streams;
    r->scale = ppl_arena_get(&r->arena, (size_t)own->n_stages * sizeof *r->scale);
    r->updates = ppl_arena_get(&r->arena, (size_t)own->n_stages * sizeof *r->updates);
    if (!r->scale || !r->updates) return PPL_ERR_MEMORY;
    for (int32_t c = 0; c < own->n_stages; c++)
        if (e->plan->layout[own->stages[c]].versions > r->versions)
            r->versions = e->plan->layout[own->stages[c]].versions;
    return programs_build(r);
}

ppl_status ppl_rank_memory(ppl_rank *r) {
    PPL_TRY(memory_build(r));
    return ppl_mirror_get(r);
}

static void memory_free(ppl_rank *r, void *p) {
    if (p) r->exec->options.device->memory_free(r->device, p);
}

static void side_free(ppl_rank *r, int32_t kind) {
    const ppl_side *side = &r->exec->side[kind];
    if (!side->plan) return;
    for (int32_t c = 0; r->chunk[kind] && c < side->plan->rank[r->rank].n_stages; c++) {
        memory_free(r, r->chunk[kind][c].slots);
        memory_free(r, r->chunk[kind][c].pendings);
    }
    for (int32_t i = 0; i < side->plan->stages->n_edges; i++) {
        const ppl_edge_plan *e = &side->plan->edge[i];
        if (ppl_plan_edge_rank(side->plan, i) == r->rank) memory_free(r, side->memory[i]);
        for (int32_t k = 0; k < e->n_readers; k++)
            if (e->reader_rank[k] == r->rank) memory_free(r, side->reader_memory[i][k]);
    }
}

void ppl_rank_clear(ppl_rank *r) {
    const ppl_device_ops *device = r->exec->options.device;
    if (r->device) {
        ppl_ahead_close(r);
        ppl_mirror_free(r);
        for (int32_t kind = 0; kind < PPL_SIDES; kind++) side_free(r, kind);
        memory_free(r, r->work);
        memory_free(r, r->scratch);
        memory_free(r, r->seed);
        memory_free(r, r->grads);
        for (int32_t c = 0; r->program && c < r->exec->plan->rank[r->rank].n_stages; c++)
            for (int32_t phase = 0; phase < PPL_PHASES; phase++)
                if (r->program[c][phase]) device->program_free(r->device, r->program[c][phase]);
        memory_free(r, r->packed);
        device->close(r->device);
        r->device = NULL;
    }
    ppl_arena_clear(&r->arena);
}
