// forward.h - what ppl_rank_plan.forward_tasks must be, found slowly.
#ifndef PPL_TESTS_PLAN_FORWARD_H
#define PPL_TESTS_PLAN_FORWARD_H
#include "graph/tiny.h"
#include "plan/plan.h"

// May the task at `at` of `rank` be done when the other ranks have done done[] tasks of this step, and no more?
static inline bool may_run(const ppl_plan *p, int32_t rank, int64_t at, const int64_t *done) {
    const ppl_task *t = &p->rank[rank].tasks[at];
    if (t->kind != PPL_TASK_CREDIT && t->kind != PPL_TASK_RECEIVE) return true;
    const ppl_edge_plan *e = &p->edge[t->edge];
    bool credit = t->kind == PPL_TASK_CREDIT;
    int32_t sequence = credit ? t->sequence - e->buffers : t->sequence;
    if (sequence < 0) return true; // of the step before
    for (int32_t k = 0; k < (credit ? e->n_readers : 1); k++) {
        int32_t other = credit ? e->reader_rank[k] : ppl_plan_edge_rank(p, t->edge);
        if (other == rank) continue;
        bool found = false;
        for (int64_t i = 0; i < done[other]; i++) {
            const ppl_task *o = &p->rank[other].tasks[i];
            if (o->edge != t->edge || o->sequence != sequence) continue;
            if (!credit) found |= o->kind == PPL_TASK_SEND;
            else found |= o->slot == k && o->kind == (e->reader_buffers[k] ? PPL_TASK_RECEIVE : PPL_TASK_RELEASE);
        }
        if (!found) return false;
    }
    return true;
}

// The longest prefixes of F tasks that need nothing else, by trying again until nothing moves.
static inline void check_forward(const ppl_plan *p, const ppl_schedule *s) {
    int64_t done[8] = {0};
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < p->ranks; r++) {
            const ppl_rank_plan *list = &p->rank[r];
            while (done[r] < list->count && list->tasks[done[r]].action >= 0 &&
                   s->rank[r].actions[list->tasks[done[r]].action].kind == PPL_F && may_run(p, r, done[r], done))
                done[r]++, moved = true;
        }
    }
    for (int32_t r = 0; r < p->ranks; r++) assert_int_equal(p->rank[r].forward_tasks, done[r]);
}

#endif
