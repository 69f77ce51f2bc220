// room.c - is there room for the plan? What each rank will ask of its device's memory is added up by the piece of hardware
// that ranks share, and held against what is free there, before anything is taken. Before: all programs are built. After:
// rank.c takes the memory. Devices in the host's memory are not asked.
#include "exec/rank.h"

enum { GRAIN = 256 }; // of a request

static size_t edges_ask(const ppl_rank *r, const ppl_plan *p) {
    size_t bytes = 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        const ppl_edge_plan *e = &p->edge[i];
        size_t stride = ppl_link_stride(&p->stages->edges[i]);
        if (ppl_plan_edge_rank(p, i) == r->rank) bytes += ppl_align((size_t)e->buffers * stride, GRAIN);
        for (int32_t k = 0; k < e->n_readers; k++)
            if (e->reader_rank[k] == r->rank) bytes += ppl_align((size_t)e->reader_buffers[k] * stride, GRAIN);
    }
    return bytes;
}

static size_t rank_asks(const ppl_rank *r) {
    const ppl_exec *e = r->exec;
    size_t work = 0, streams = (size_t)r->streams;
    size_t bytes = streams * r->scratch_bytes + (size_t)r->versions * r->packed_bytes;
    for (int32_t kind = 0; kind < PPL_SIDES; kind++) {
        const ppl_plan *p = e->side[kind].plan;
        if (!p) continue;
        if (p->rank[r->rank].work_bytes > work) work = p->rank[r->rank].work_bytes;
        bytes += edges_ask(r, p);
        for (int32_t c = 0; c < p->rank[r->rank].n_stages; c++) {
            const ppl_stage_layout *l = &p->layout[p->rank[r->rank].stages[c]];
            bytes += (size_t)l->slots * l->slot_bytes + (size_t)l->pendings * l->pending_bytes;
        }
    }
    bytes += streams * work + e->plan->rank[r->rank].grad_bytes;
    if (!e->store) return bytes;
    return bytes + (size_t)ppl_store_bytes(e->store, r->rank, PPL_MEM_PARAMETERS) +
           (size_t)ppl_store_bytes(e->store, r->rank, PPL_MEM_OPTIMIZER);
}

// All ranks of the unit that `rank` is on; from the first of them on, so that each unit is looked at once.
static ppl_status unit_check(const ppl_exec *e, int32_t rank, const ppl_device_room *room) {
    size_t sum = 0, most = 0;
    int32_t ranks = 0, largest = rank;
    for (int32_t i = e->first; i < e->end; i++) {
        if (room[i].unit != room[rank].unit) continue;
        if (i < rank) return PPL_OK;
        size_t asks = rank_asks(&e->rank[i]);
        if (asks > most) most = asks, largest = i;
        sum += asks;
        ranks++;
    }
    if (sum <= room[rank].free) return PPL_OK;
    const double mib = 1.0 / (1 << 20);
    return ppl_fail(
        PPL_ERR_MEMORY,
        "exec: rank %d asks %.1f MiB of device %s %d, the %d ranks on it %.1f MiB together, and %.1f of %.1f "
        "MiB are free, want smaller microbatches, more stages on more devices or recomputation",
        largest, (double)most * mib, e->options.device->name, room[rank].unit, ranks, (double)sum * mib,
        (double)room[rank].free * mib, (double)room[rank].all * mib);
}

ppl_status ppl_exec_room(ppl_exec *e) {
    if (e->options.device->flags & PPL_DEVICE_HOST) return PPL_OK;
    ppl_device_room *room = ppl_arena_get(&e->arena, (size_t)e->plan->ranks * sizeof *room);
    if (!room) return PPL_ERR_MEMORY;
    for (int32_t i = e->first; i < e->end; i++) PPL_TRY(e->options.device->room(e->rank[i].device, &room[i]));
    for (int32_t i = e->first; i < e->end; i++) PPL_TRY(unit_check(e, i, room));
    return PPL_OK;
}
