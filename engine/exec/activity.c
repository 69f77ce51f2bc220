// activity.c - how busy the GPUs of this process's ranks are, over ranges of training steps: a reading where a range begins
// and one where it ends, on the caller's thread, while no rank has a step. Before: exec.c. After: device/activity.h.
#include "exec/rank.h"
#include <stdio.h>

static ppl_status counted_open(ppl_exec *e, int32_t rank) {
    ppl_counted *c = &e->counted[rank];
    const ppl_world *w = e->options.world;
    const ppl_device_options o = {
        .rank = rank, .process = w ? w->place : 0, .processes = w ? w->neighbours : 1, .seat = rank - e->first};
    PPL_TRY(e->options.device->unit_of(&o, &c->gpu));
    for (c->of = e->first; c->of < rank; c->of++)
        if (e->counted[c->of].gpu == c->gpu) return PPL_OK;
    ppl_status st = ppl_activity_open(c->gpu, &c->own);
    if (st == PPL_ERR_MEMORY) return st;
    if (st != PPL_OK) snprintf(c->reason, sizeof c->reason, "%s", ppl_error());
    return PPL_OK;
}

ppl_status ppl_exec_activity_open(ppl_exec *e) {
    if (e->options.device != &ppl_device_cuda) return PPL_OK;
    e->counted = ppl_arena_get(&e->arena, (size_t)e->plan->ranks * sizeof *e->counted);
    if (!e->counted) return PPL_ERR_MEMORY;
    for (int32_t i = e->first; i < e->end; i++) PPL_TRY(counted_open(e, i));
    return PPL_OK;
}

void ppl_exec_activity_close(ppl_exec *e) {
    for (int32_t i = e->first; e->counted && i < e->end; i++) ppl_activity_close(e->counted[i].own);
}

void ppl_exec_activity_begin(ppl_exec *e) {
    for (int32_t i = e->first; e->counted && i < e->end; i++) ppl_activity_begin(e->counted[i].own);
}

void ppl_exec_activity_end(ppl_exec *e) {
    for (int32_t i = e->first; e->counted && i < e->end; i++) ppl_activity_end(e->counted[i].own);
}

void ppl_exec_gpu_activity(const ppl_exec *e, int32_t rank, ppl_gpu_activity *out) {
    *out = (ppl_gpu_activity){.gpu = -1};
    if (!e->counted) return;
    const ppl_counted *c = &e->counted[e->counted[rank].of];
    if (c->own) {
        ppl_activity_read(c->own, out);
        return;
    }
    out->gpu = c->gpu;
    snprintf(out->reason, sizeof out->reason, "%s", c->reason);
}
