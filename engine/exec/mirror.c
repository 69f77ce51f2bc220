// mirror.c - the parameters and the optimizer's state of a rank whose device has memory of its own: the store's entries once
// more, over there. Programs and updates see these; the store is what it was when it was last fetched. Before: rank.c, on
// setup. After: version.c sends weights over, the caller fetches them back between steps.
#include "exec/rank.h"

static bool is_mirrored(const ppl_rank *r) {
    return r->exec->store && !(r->exec->options.device->flags & PPL_DEVICE_HOST);
}

static ppl_status part_get(ppl_rank *r, const void *like, size_t bytes, void **out) {
    return like ? r->exec->options.device->memory_get(r->device, bytes, out) : PPL_OK;
}

static ppl_status entry_get(ppl_rank *r, int32_t param) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    const ppl_type *type = &g->params[param].type;
    const ppl_store_entry *from = ppl_store_at(r->exec->store, r->rank, param);
    ppl_store_entry *to = &r->mirror[param];
    size_t bytes = ppl_type_bytes(type), copy_bytes = (size_t)ppl_type_elements(type) * ppl_dtype_size(g->dtype);
    PPL_TRY(part_get(r, from->master, bytes, &to->master));
    PPL_TRY(part_get(r, from->copy, copy_bytes, &to->copy));
    PPL_TRY(part_get(r, from->moment1, bytes, &to->moment1));
    PPL_TRY(part_get(r, from->moment2, bytes, &to->moment2));
    for (int32_t k = 0; k < 3; k++) PPL_TRY(part_get(r, from->spare[k], bytes, &to->spare[k]));
    to->versions = 1;
    if (from->versions <= 1) return PPL_OK;
    to->version = ppl_arena_get(&r->arena, (size_t)from->versions * sizeof *to->version);
    if (!to->version) return PPL_ERR_MEMORY;
    to->version[0] = to->copy ? to->copy : to->master;
    for (; to->versions < from->versions; to->versions++)
        PPL_TRY(part_get(r, from->version[0], copy_bytes, &to->version[to->versions]));
    return PPL_OK;
}

ppl_status ppl_mirror_get(ppl_rank *r) {
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    if (!is_mirrored(r)) return PPL_OK;
    r->mirror = ppl_arena_get(&r->arena, r->exec->plan->stages->graph->n_params * sizeof *r->mirror);
    if (!r->mirror) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < own->n_params; i++) PPL_TRY(entry_get(r, own->params[i]));
    return PPL_OK;
}

static void part_free(ppl_rank *r, void *p) {
    if (p) r->exec->options.device->memory_free(r->device, p);
}

void ppl_mirror_free(ppl_rank *r) {
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    for (int32_t i = 0; r->mirror && i < own->n_params; i++) {
        ppl_store_entry *e = &r->mirror[own->params[i]];
        bool is_version = false; // where there are versions, the newest is the copy or the master
        for (int32_t k = 0; e->version && k < e->versions; k++) {
            is_version |= e->version[k] == (e->copy ? e->copy : e->master);
            part_free(r, e->version[k]);
        }
        if (!is_version || e->copy) part_free(r, e->master);
        if (!is_version) part_free(r, e->copy);
        part_free(r, e->moment1);
        part_free(r, e->moment2);
        for (int32_t k = 0; k < 3; k++) part_free(r, e->spare[k]);
    }
    r->mirror = NULL;
}

static ppl_status part_push(ppl_rank *r, void *to, const void *from, size_t bytes) {
    return to ? r->exec->options.device->copy_in(r->device, to, from, bytes, 0) : PPL_OK;
}

ppl_status ppl_mirror_push(ppl_rank *r) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    if (!r->mirror) return PPL_OK;
    for (int32_t i = 0; i < own->n_params; i++) {
        const ppl_type *type = &g->params[own->params[i]].type;
        const ppl_store_entry *from = ppl_store_at(r->exec->store, r->rank, own->params[i]);
        const ppl_store_entry *to = &r->mirror[own->params[i]];
        PPL_TRY(part_push(r, to->master, from->master, ppl_type_bytes(type)));
        PPL_TRY(part_push(r, to->copy, from->copy, (size_t)ppl_type_elements(type) * ppl_dtype_size(g->dtype)));
        PPL_TRY(part_push(r, to->moment1, from->moment1, ppl_type_bytes(type)));
        PPL_TRY(part_push(r, to->moment2, from->moment2, ppl_type_bytes(type)));
    }
    return r->exec->options.device->synchronize(r->device); // the store may change from here on
}

static ppl_status part_fetch(ppl_rank *r, void *to, const void *from, size_t bytes) {
    return from ? r->exec->options.device->copy_out(r->device, to, from, bytes, 0) : PPL_OK;
}

ppl_status ppl_mirror_fetch(ppl_rank *r) {
    const ppl_graph *g = r->exec->plan->stages->graph;
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    for (int32_t i = 0; r->mirror && i < own->n_params; i++) {
        const ppl_type *type = &g->params[own->params[i]].type;
        const ppl_store_entry *from = &r->mirror[own->params[i]];
        const ppl_store_entry *to = ppl_store_at(r->exec->store, r->rank, own->params[i]);
        PPL_TRY(part_fetch(r, to->master, from->master, ppl_type_bytes(type)));
        PPL_TRY(part_fetch(r, to->copy, from->copy, (size_t)ppl_type_elements(type) * ppl_dtype_size(g->dtype)));
        PPL_TRY(part_fetch(r, to->moment1, from->moment1, ppl_type_bytes(type)));
        PPL_TRY(part_fetch(r, to->moment2, from->moment2, ppl_type_bytes(type)));
    }
    return PPL_OK;
}
