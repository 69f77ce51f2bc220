// version.c - which version of a stage's weights a task reads, and where it lies. Before: the plan says how many versions
// there are and which one a task reads. After: bind.c points programs at it, norm.c steps the newest.
//
// Versions are counted in updates since the executor was opened; version n lies in place n % versions. The newest is the
// one that the optimizer steps: the master itself where operators read masters, else the copy of it.
#include "exec/rank.h"

static int32_t versions_of(const ppl_rank *r, int32_t chunk) {
    const ppl_plan *p = r->exec->plan;
    return p->layout[p->rank[r->rank].stages[chunk]].versions;
}

int64_t ppl_exec_updates(const ppl_exec *e) {
    return e->plan->weights == PPL_WEIGHTS_STASH ? e->plan->microbatches : 1;
}

int32_t ppl_rank_newest(const ppl_rank *r, int32_t chunk) {
    return (int32_t)(r->updates[chunk] % versions_of(r, chunk));
}

int32_t ppl_rank_place(const ppl_rank *r, int32_t side, const ppl_task *task, int64_t tick) {
    const ppl_exec *e = r->exec;
    if (r->versions <= 1) return 0;
    int32_t chunk = ppl_rank_chunk(r, task->stage), versions = versions_of(r, chunk);
    if (side != PPL_SIDE_TRAIN) return ppl_rank_newest(r, chunk);
    int64_t back = task->version;
    // Nothing ran while the first forwards of a range did: they have read the newest.
    if (e->plan->weights == PPL_WEIGHTS_STASH && back < 0 && tick == e->side[side].ticks) back = 0;
    int64_t n = tick * ppl_exec_updates(e) + back;
    return (int32_t)((n % versions + versions) % versions);
}

ppl_status ppl_rank_pack_bind(ppl_rank *r, int32_t place) {
    return r->exec->options.device->pack_bind(r->device, r->packed + (size_t)place * r->packed_bytes, r->packed_bytes);
}

void ppl_rank_next(ppl_rank *r, int32_t chunk, ppl_store_entry *e, ppl_update *u) {
    if (e->versions <= 1) return;
    void *next = e->version[(r->updates[chunk] + 1) % e->versions];
    if (e->copy) u->copy = e->copy = next;
    else u->weight_out = e->master = next;
}

// All versions are the newest: what was before is of another course of the training.
static ppl_status versions_set(ppl_rank *r, int32_t param, ppl_store_entry *e) {
    const ppl_device_ops *device = r->exec->options.device;
    const ppl_plan *p = r->exec->plan;
    const ppl_graph *g = p->stages->graph;
    const ppl_type *type = &g->params[param].type;
    size_t bytes = (size_t)ppl_type_elements(type) * ppl_dtype_size(g->dtype);
    int32_t chunk = 0;
    for (int32_t c = 0; c < p->rank[r->rank].n_stages; c++) {
        const ppl_stage *s = &p->stages->stage[p->rank[r->rank].stages[c]];
        for (int32_t i = 0; i < s->n_params; i++)
            if (s->params[i] == param) chunk = c;
    }
    void *newest = e->version[ppl_rank_newest(r, chunk)], **at = e->copy ? &e->copy : &e->master;
    if (*at != newest) PPL_TRY(device->copy(r->device, newest, *at, bytes, 0));
    *at = newest;
    for (int32_t i = 0; i < e->versions; i++)
        if (e->version[i] != newest) PPL_TRY(device->copy(r->device, e->version[i], newest, bytes, 0));
    return PPL_OK;
}

ppl_status ppl_rank_weights(ppl_rank *r) {
    const ppl_plan *p = r->exec->plan;
    const ppl_rank_plan *own = &p->rank[r->rank];
    const ppl_graph *g = p->stages->graph;
    if (!g) return PPL_OK;
    for (int32_t i = 0; i < own->n_params; i++) {
        const ppl_type *type = &g->params[own->params[i]].type;
        ppl_store_entry *e = ppl_store_at(r->exec->store, r->rank, own->params[i]);
        if (e->copy) ppl_convert(e->copy, g->dtype, e->master, type->dtype, ppl_type_elements(type));
    }
    PPL_TRY(ppl_mirror_push(r));
    for (int32_t i = 0; i < own->n_params; i++) {
        ppl_store_entry *e = ppl_rank_entry(r, own->params[i]);
        if (e->versions > 1) PPL_TRY(versions_set(r, own->params[i], e));
    }
    ppl_rank_bind_params(r);
    for (int32_t place = 0; place < r->versions; place++) {
        if (r->versions > 1) PPL_TRY(ppl_rank_pack_bind(r, place));
        for (int32_t i = 0; i < own->n_params; i++) {
            const ppl_store_entry *e = ppl_rank_entry(r, own->params[i]);
            const void *weight = ppl_rank_weight(r, own->params[i], place < e->versions ? place : 0);
            PPL_TRY(r->exec->options.device->pack(r->device, own->params[i], weight));
        }
    }
    return PPL_OK;
}
