// order.c - reads the order of an edge's receives off the reader's task list. Before: a link is opened. After: mpi.c, nccl.c.
#include "link/order.h"
#include "base/memory.h"

static bool is_receive(const ppl_task *t, int32_t edge, int32_t reader) {
    return t->kind == PPL_TASK_RECEIVE && t->edge == edge && t->slot == reader;
}

// Where steps overlap, an edge's values of one step must all be received before those of the next.
static ppl_status check_steps(const ppl_plan *plan, int32_t edge, int32_t reader, const char *link,
                              const ppl_link_order *o) {
    int32_t rank = plan->edge[edge].reader_rank[reader];
    const ppl_rank_plan *r = &plan->rank[rank];
    int64_t last = -1;
    for (int64_t k = 0; r->turns && k < r->count; k++) {
        const ppl_task *t = &r->tasks[r->turns[k]];
        if (!is_receive(t, edge, reader)) continue;
        int64_t number = o->position[t->sequence] + (r->turns[k] < r->ahead ? o->uses : 0);
        if (number < last)
            return ppl_fail(PPL_ERR_PLAN,
                            "%s: rank %d receives edge %d of the next step before the last of this one, want them in "
                            "order",
                            link, rank, edge);
        last = number;
    }
    return PPL_OK;
}

ppl_status ppl_link_order_find(ppl_arena *arena, const ppl_plan *plan, int32_t edge, int32_t reader, const char *link,
                               ppl_link_order *out) {
    int32_t rank = plan->edge[edge].reader_rank[reader], n = 0;
    const ppl_rank_plan *r = &plan->rank[rank], *producer = &plan->rank[ppl_plan_edge_rank(plan, edge)];
    size_t uses = (size_t)ppl_plan_uses(plan, edge);
    *out = (ppl_link_order){.uses = (int32_t)uses};
    out->sequence = ppl_arena_get(arena, uses * sizeof *out->sequence);
    out->position = ppl_arena_get(arena, uses * sizeof *out->position);
    out->before = ppl_arena_get(arena, uses * sizeof *out->before);
    if (!out->sequence || !out->position || !out->before) return PPL_ERR_MEMORY;
    for (int64_t k = 0; k < r->count; k++) {
        const ppl_task *t = &r->tasks[k];
        if (!is_receive(t, edge, reader)) continue;
        if (n < out->uses) out->sequence[n] = t->sequence;
        if (n < out->uses) out->position[t->sequence] = n;
        n++;
    }
    if (n != out->uses)
        return ppl_fail(PPL_ERR_PLAN, "%s: rank %d receives edge %d %d times a step, want %d", link, rank, edge, n,
                        out->uses);
    for (int64_t k = 0; k < producer->count && producer->tasks[k].kind != PPL_TASK_VALIDATE; k++) {
        const ppl_task *t = &producer->tasks[k];
        if (t->kind == PPL_TASK_SEND && t->edge == edge) out->before[t->sequence] = true;
    }
    return check_steps(plan, edge, reader, link, out);
}
