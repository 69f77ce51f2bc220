// walk.c - the state of a walk over the lists of all ranks.
#include "plan/walk.h"

ppl_status ppl_walk_init(ppl_walk *w, const ppl_plan *plan, int32_t steps) {
    size_t ranks = (size_t)plan->ranks, edges = (size_t)plan->stages->n_edges;
    *w = (ppl_walk){.plan = plan, .steps = steps};
    for (size_t e = 0; e < edges; e++)
        w->entries += (size_t)plan->edge[e].n_readers * (size_t)ppl_plan_uses(plan, (int32_t)e);
    w->at = ppl_alloc(ranks * sizeof *w->at);
    w->round = ppl_alloc(ranks * sizeof *w->round);
    w->sent = ppl_alloc(edges * sizeof *w->sent);
    w->base = ppl_alloc(edges * sizeof *w->base);
    w->freed = ppl_alloc(w->entries * sizeof *w->freed);
    w->waits = ppl_alloc(ranks * sizeof *w->waits);
    w->ready = ppl_alloc(ranks * sizeof *w->ready);
    if (!w->at || !w->round || !w->sent || !w->base || !w->freed || !w->waits || !w->ready) {
        ppl_walk_clear(w);
        return PPL_ERR_MEMORY;
    }
    size_t base = 0;
    for (size_t e = 0; e < edges; e++) {
        w->base[e] = base;
        base += (size_t)plan->edge[e].n_readers * (size_t)ppl_plan_uses(plan, (int32_t)e);
    }
    for (size_t r = 0; r < ranks; r++) {
        w->waits[r] = -1;
        w->round[r] = plan->rank[r].ahead ? -1 : 0;
        w->ready[w->n_ready++] = (int32_t)(ranks - 1 - r); // rank 0 is on top
    }
    return PPL_OK;
}

void ppl_walk_clear(ppl_walk *w) {
    ppl_free(w->at);
    ppl_free(w->round);
    ppl_free(w->sent);
    ppl_free(w->base);
    ppl_free(w->freed);
    ppl_free(w->waits);
    ppl_free(w->ready);
    *w = (ppl_walk){0};
}
