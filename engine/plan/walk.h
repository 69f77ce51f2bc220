// walk.h - runs the task lists of all ranks against each other without executing anything: each rank goes on until its next
// task waits, and is looked at again when what it waits for has come. Every task is visited once and in an order that
// respects all waits, so a walk takes linear time. prove.c asks whether it reaches the end, the simulator when.
#ifndef PPL_PLAN_WALK_H
#define PPL_PLAN_WALK_H
#include "plan/plan.h"

typedef struct ppl_walk {
    const ppl_plan *plan;
    int32_t steps;  // walked, one after the other
    int64_t *at;    // [ranks]: how many tasks it has behind it in its round
    int32_t *round; // [ranks]: -1 what runs ahead of the first step; see ppl_rank_turn
    int64_t *sent;  // [edges]: how many uses were sent since the first step
    size_t *base;   // [edges]: where its entries in `freed` begin, [readers][uses]
    int32_t *freed; // in how many steps the reader has given this use back
    size_t entries; // of freed
    int32_t *waits; // [ranks]: the edge whose send or release the rank waits for; -1 none
    int32_t *ready; // stack of ranks that may go on
    int32_t n_ready;
} ppl_walk;

ppl_status ppl_walk_init(ppl_walk *w, const ppl_plan *plan, int32_t steps); // at the first step, every rank ready
void ppl_walk_clear(ppl_walk *w);

static inline size_t ppl_walk_entry(const ppl_walk *w, int32_t edge, int32_t reader, int32_t sequence) {
    return w->base[edge] + (size_t)reader * (size_t)ppl_plan_uses(w->plan, edge) + (size_t)sequence;
}

// The task that a rank is at and the step it is of; NULL when it has done its steps. The caller counts `at` up behind it.
static inline const ppl_task *ppl_walk_task(ppl_walk *w, int32_t rank, int32_t *step) {
    const ppl_rank_plan *r = &w->plan->rank[rank];
    for (; w->round[rank] < w->steps; w->round[rank]++, w->at[rank] = 0) {
        for (; w->at[rank] < r->count; w->at[rank]++) {
            int64_t of;
            const ppl_task *t = ppl_rank_turn(r, w->at[rank], w->round[rank], 0, w->steps, &of);
            *step = (int32_t)of;
            if (t) return t;
        }
    }
    return NULL;
}

// The use that had the buffer before: in this step, or the last one of the step before (*steps_back 1).
static inline int32_t ppl_walk_former(const ppl_plan *p, const ppl_task *t, int32_t *steps_back) {
    int32_t buffers = p->edge[t->edge].buffers, last = ppl_plan_uses(p, t->edge) - 1;
    *steps_back = t->sequence < buffers;
    if (ppl_plan_flows(p)) return t->sequence - buffers + (*steps_back ? last + 1 : 0);
    return *steps_back ? t->sequence + (last - t->sequence) / buffers * buffers : t->sequence - buffers;
}

static inline bool ppl_walk_credit(const ppl_walk *w, const ppl_task *t, int32_t step) {
    const ppl_edge_plan *e = &w->plan->edge[t->edge];
    int32_t back, former = ppl_walk_former(w->plan, t, &back), from = ppl_plan_edge_rank(w->plan, t->edge);
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != from && w->freed[ppl_walk_entry(w, t->edge, i, former)] < step + 1 - back)
            return false;
    return true;
}

static inline bool ppl_walk_receive(const ppl_walk *w, const ppl_task *t, int32_t step) {
    return w->sent[t->edge] > (int64_t)step * ppl_plan_uses(w->plan, t->edge) + t->sequence;
}

static inline void ppl_walk_wake(ppl_walk *w, int32_t rank, int32_t edge) {
    if (w->waits[rank] != edge) return;
    w->waits[rank] = -1;
    w->ready[w->n_ready++] = rank;
}

static inline void ppl_walk_send(ppl_walk *w, const ppl_task *t) {
    const ppl_edge_plan *e = &w->plan->edge[t->edge];
    w->sent[t->edge]++;
    for (int32_t i = 0; i < e->n_readers; i++) ppl_walk_wake(w, e->reader_rank[i], t->edge);
}

// A RELEASE, or the end of a RECEIVE that copied.
static inline void ppl_walk_release(ppl_walk *w, const ppl_task *t) {
    w->freed[ppl_walk_entry(w, t->edge, t->slot, t->sequence)]++;
    ppl_walk_wake(w, ppl_plan_edge_rank(w->plan, t->edge), t->edge);
}

#endif
