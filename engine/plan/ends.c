// ends.c - which programs of a stage receive, send and release which edges. Before: stages.h knows the edges. After:
// tasks.c puts those tasks around each program.
#include "plan/build.h"

// Has a reader on rank `to` a copy of its own?
static bool own_copy(const ppl_build *b, const ppl_edge *e, int32_t to) {
    int32_t from = b->plan->stage_rank[e->src];
    if (from == to) return false;
    if (ppl_plan_process(b->plan, from) != ppl_plan_process(b->plan, to)) return true;
    // A rollback needs the tied gradients of the step before, while their producer may have begun to write the next ones.
    return b->plan->options.copy_links || (e->kind == PPL_U && b->plan->options.validate);
}

static int32_t made_in(const ppl_edge *e) {
    return e->kind == PPL_F ? PPL_PHASE_F : e->kind == PPL_B ? PPL_PHASE_I : PPL_PHASE_W;
}

// The phases in which readers first read each edge, from the stages' value lists.
static ppl_status find_first(ppl_build *b) {
    const ppl_stages *s = b->stages;
    for (int32_t e = 0; e < s->n_edges; e++) {
        b->made[e] = made_in(&s->edges[e]);
        b->first[e] = ppl_arena_get(&b->arena, (size_t)s->edges[e].n_readers * sizeof **b->first);
        if (!b->first[e]) return PPL_ERR_MEMORY;
        for (int32_t i = 0; i < s->edges[e].n_readers; i++)
            b->first[e][i] = s->edges[e].kind == PPL_F ? PPL_PHASE_F : PPL_PHASE_I;
    }
    for (int32_t k = 0; k < s->count; k++)
        for (int32_t v = 0; v < s->stage[k].n_values; v++) {
            const ppl_stage_value *value = &s->stage[k].values[v];
            if (value->edge < 0) continue;
            const ppl_edge *e = &s->edges[value->edge];
            for (int32_t i = 0; i < e->n_readers; i++)
                if (e->readers[i].stage == k) b->first[value->edge][i] = value->born;
        }
    return PPL_OK;
}

// The edge plans' fixed part: who reads, and whether from a copy of its own.
static ppl_status plan_readers(ppl_build *b) {
    const ppl_stages *s = b->stages;
    ppl_plan *p = b->plan;
    for (int32_t i = 0; i < s->n_edges; i++) {
        const ppl_edge *e = &s->edges[i];
        ppl_edge_plan *plan = &p->edge[i];
        int32_t from = p->stage_rank[e->src];
        plan->n_readers = e->n_readers;
        plan->reader_rank = ppl_arena_get(&p->arena, (size_t)e->n_readers * sizeof *plan->reader_rank);
        plan->reader_buffers = ppl_arena_get(&p->arena, (size_t)e->n_readers * sizeof *plan->reader_buffers);
        if (!plan->reader_rank || !plan->reader_buffers) return PPL_ERR_MEMORY;
        for (int32_t r = 0; r < e->n_readers; r++) {
            bool unread = p->options.forward_only && (e->kind != PPL_F || b->first[i][r] != PPL_PHASE_F);
            plan->reader_rank[r] = unread ? from : p->stage_rank[e->readers[r].stage]; // an unread edge needs no tasks
            plan->reader_buffers[r] = own_copy(b, e, plan->reader_rank[r]);
        }
    }
    return PPL_OK;
}

static bool crosses(const ppl_build *b, int32_t edge) {
    const ppl_edge_plan *plan = &b->plan->edge[edge];
    for (int32_t r = 0; r < plan->n_readers; r++)
        if (plan->reader_rank[r] != b->plan->stage_rank[b->stages->edges[edge].src]) return true;
    return false;
}

// Adds an end to a list; while counting (item NULL) only its length grows.
static void put(ppl_ends *list, int32_t edge, int32_t reader) {
    if (list->item) list->item[list->count] = (ppl_end){.edge = edge, .reader = reader};
    list->count++;
}

static void collect(ppl_build *b) {
    const ppl_stages *s = b->stages;
    for (int32_t i = 0; i < s->n_edges; i++) {
        const ppl_edge *e = &s->edges[i];
        const ppl_edge_plan *plan = &b->plan->edge[i];
        if (!crosses(b, i)) continue;
        ppl_stage_ends *src = &b->ends[e->src];
        put(e->kind == PPL_U ? &src->tied_send : &src->send[b->made[i]], i, -1);
        for (int32_t r = 0; r < plan->n_readers; r++) {
            if (plan->reader_rank[r] == b->plan->stage_rank[e->src]) continue;
            ppl_stage_ends *dst = &b->ends[e->readers[r].stage];
            int32_t last = b->plan->options.forward_only ? PPL_PHASE_F : e->readers[r].last;
            put(e->kind == PPL_U ? &dst->tied_receive : &dst->receive[b->first[i][r]], i, r);
            if (!plan->reader_buffers[r]) put(e->kind == PPL_U ? &dst->tied_release : &dst->release[last], i, r);
        }
    }
}

enum { LISTS = 3 * PPL_PHASES + 3 };
_Static_assert(sizeof(ppl_stage_ends) == LISTS * sizeof(ppl_ends), "a stage's ends are lists and nothing else");

ppl_status ppl_build_ends(ppl_build *b) {
    size_t edges = (size_t)b->stages->n_edges, lists = (size_t)b->stages->count * LISTS, total = 0;
    b->made = ppl_arena_get(&b->arena, edges * sizeof *b->made);
    b->first = ppl_arena_get(&b->arena, edges * sizeof *b->first);
    b->ends = ppl_arena_get(&b->arena, (size_t)b->stages->count * sizeof *b->ends);
    if (!b->made || !b->first || !b->ends) return PPL_ERR_MEMORY;
    PPL_TRY(find_first(b));
    PPL_TRY(plan_readers(b));
    collect(b); // counts
    ppl_ends *list = (ppl_ends *)b->ends;
    for (size_t i = 0; i < lists; i++) total += (size_t)list[i].count;
    ppl_end *items = ppl_arena_get(&b->arena, total * sizeof *items);
    if (!items) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < lists; i++) {
        list[i].item = items;
        items += list[i].count;
        list[i].count = 0;
    }
    collect(b);
    return PPL_OK;
}
