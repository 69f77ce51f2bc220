// work.c - packs a program's short-lived values, best fit in program order.
#include "plan/work.h"
#include <string.h>

enum { ALIGNMENT = 64 }; // bytes

ppl_status ppl_work_init(ppl_work *w, ppl_arena *scratch, const ppl_graph *graph, const ppl_value *root) {
    *w = (ppl_work){.graph = graph, .root = root};
    w->last = ppl_arena_get(scratch, graph->n_values * sizeof *w->last);
    w->live = ppl_arena_get(scratch, graph->n_values * sizeof *w->live);
    return w->last && w->live ? PPL_OK : PPL_ERR_MEMORY;
}

// Takes the smallest gap that fits, else the end.
static void enter(ppl_work *w, ppl_value value) {
    size_t bytes = ppl_align(ppl_type_bytes(&w->graph->values[value].type), ALIGNMENT), begin = 0, best = SIZE_MAX;
    int32_t at = w->count;
    for (int32_t i = 0; i < w->count; i++) {
        size_t gap = w->live[i].offset - begin;
        if (gap >= bytes && gap < best) best = gap, at = i;
        begin = w->live[i].offset + w->live[i].bytes;
    }
    size_t offset = at ? w->live[at - 1].offset + w->live[at - 1].bytes : 0;
    memmove(&w->live[at + 1], &w->live[at], (size_t)(w->count - at) * sizeof *w->live);
    w->live[at] = (ppl_work_block){.offset = offset, .bytes = bytes, .value = value};
    w->count++;
    w->place[value].offset = offset;
    if (offset + bytes > w->bytes) w->bytes = offset + bytes;
}

void ppl_work_enter(ppl_work *w, ppl_value value) {
    if (w->place[value].region != PPL_REGION_WORK) return;
    w->last[value] = -1;
    enter(w, value);
}

static void leave(ppl_work *w, int32_t position) {
    int32_t kept = 0;
    for (int32_t i = 0; i < w->count; i++)
        if (w->last[w->live[i].value] > position) w->live[kept++] = w->live[i];
    w->count = kept;
}

void ppl_work_pack(ppl_work *w, const ppl_program *program, ppl_value kept) {
    for (int32_t at = 0; at < program->count; at++) {
        const ppl_node *n = &w->graph->nodes[program->nodes[at]];
        for (int32_t i = 0; i < n->inputs; i++) w->last[w->root[n->in[i]]] = at;
        for (int32_t i = 0; i < n->outputs; i++) w->last[n->out[i]] = at;
    }
    if (kept >= 0) w->last[w->root[kept]] = program->count;
    for (int32_t at = 0; at < program->count; at++) {
        const ppl_node *n = &w->graph->nodes[program->nodes[at]];
        for (int32_t i = 0; i < n->outputs; i++)
            if (w->place[n->out[i]].region == PPL_REGION_WORK) enter(w, n->out[i]);
        leave(w, at);
    }
    w->count = 0;
}
