// prove.c - do the ranks never wait for each other in a circle? Before: the lists of all ranks. After: the plan may run.
//
// The lists are walked at once (walk.h). Where no rank can go on, each waits for a task behind the task at which another
// one waits: following that leads into a circle, which is printed. buffers.c gives edges so many buffers that one run is
// known in which no credit waits, so a circle is the compute order's own fault; the walk does not rely on that.
#include "plan/build.h"
#include "plan/walk.h"
#include <stdio.h>

enum { LINKS_SHOWN = 8, CHAIN_BYTES = 1600 };

static void walk_rank(ppl_walk *w, int32_t rank, int64_t end) {
    const ppl_rank_plan *r = &w->plan->rank[rank];
    for (; w->at[rank] < end; w->at[rank]++) {
        const ppl_task *t = &r->tasks[w->at[rank]];
        switch ((ppl_task_kind)t->kind) {
        case PPL_TASK_CREDIT:
            if (ppl_walk_credit(w, t, 0)) break;
            w->waits[rank] = t->edge;
            return;
        case PPL_TASK_RECEIVE:
            if (!ppl_walk_receive(w, t, 0)) {
                w->waits[rank] = t->edge;
                return;
            }
            if (w->plan->edge[t->edge].reader_buffers[t->slot]) ppl_walk_release(w, t);
            break;
        case PPL_TASK_SEND: ppl_walk_send(w, t); break;
        case PPL_TASK_RELEASE: ppl_walk_release(w, t); break;
        case PPL_TASK_F:
        case PPL_TASK_B:
        case PPL_TASK_I:
        case PPL_TASK_W:
        case PPL_TASK_UPDATE:
        case PPL_TASK_NORM:     // waits for what stands before the other ranks' norms, never the other way round
        case PPL_TASK_VALIDATE: // waits for the step before
        case PPL_TASK_KINDS: break;
        }
    }
}

// The rank that the waiting task of `rank` waits for, and the use it waits for there.
static int32_t waits_for(const ppl_walk *w, int32_t rank, int32_t *sequence) {
    const ppl_task *t = &w->plan->rank[rank].tasks[w->at[rank]];
    const ppl_edge_plan *e = &w->plan->edge[t->edge];
    int32_t from = ppl_plan_edge_rank(w->plan, t->edge), back;
    *sequence = t->sequence;
    if (t->kind == PPL_TASK_RECEIVE) return from;
    *sequence = ppl_walk_former(w->plan, t, &back);
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != from && !w->freed[ppl_walk_entry(w, t->edge, i, *sequence)]) return e->reader_rank[i];
    return -1;
}

// A rank that is in a circle, found from any waiting rank.
static int32_t find_circle(const ppl_walk *w, int32_t rank) {
    int32_t sequence;
    for (int32_t i = 0; i < w->plan->ranks; i++) rank = waits_for(w, rank, &sequence);
    return rank;
}

// The action that a task serves, as the schedule's text has it.
static int64_t action_of(const ppl_plan *p, int32_t rank, const ppl_task *t, char text[24]) {
    if (t->action < 0) snprintf(text, 24, "its update");
    else ppl_action_print(&p->actions->rank[rank].actions[t->action], text);
    return t->action;
}

// The task on `rank`, at or behind its present one, that would let the waiting task go on.
static const ppl_task *find_awaited(const ppl_walk *w, int32_t rank, const ppl_task *waiting, int32_t sequence) {
    const ppl_rank_plan *r = &w->plan->rank[rank];
    for (int64_t at = w->at[rank]; at < r->count; at++) {
        const ppl_task *t = &r->tasks[at];
        if (t->edge != waiting->edge || t->sequence != sequence) continue;
        int32_t kind = PPL_TASK_SEND;
        if (waiting->kind == PPL_TASK_CREDIT && t->slot >= 0)
            kind = w->plan->edge[t->edge].reader_buffers[t->slot] ? PPL_TASK_RECEIVE : PPL_TASK_RELEASE;
        if (t->kind == kind) return t;
    }
    return &r->tasks[w->at[rank]];
}

// "rank 0, position 3, 1F2: waits for 0F2 (rank 1, position 5), which stands behind 0B1 (position 4), which waits for ..."
static ppl_status fail_circle(const ppl_walk *w, int32_t start) {
    const ppl_plan *p = w->plan;
    char chain[CHAIN_BYTES], text[24], other[24];
    int used = 0, links = 0;
    int32_t rank = start;
    do {
        const ppl_task *t = &p->rank[rank].tasks[w->at[rank]];
        int32_t sequence, next = waits_for(w, rank, &sequence);
        const ppl_task *awaited = find_awaited(w, next, t, sequence), *head = &p->rank[next].tasks[w->at[next]];
        if (links < LINKS_SHOWN) {
            long long at = (long long)action_of(p, next, awaited, text);
            used += snprintf(chain + used, sizeof chain - (size_t)used, "%swaits for %s (rank %d, position %lld)",
                             links ? ", which " : "", text, next, at);
            at = (long long)action_of(p, next, head, other);
            if (head->action != awaited->action)
                used += snprintf(chain + used, sizeof chain - (size_t)used, ", which stands behind %s (position %lld)",
                                 other, at);
        }
        links++;
        rank = next;
    } while (rank != start);
    if (links > LINKS_SHOWN)
        snprintf(chain + used, sizeof chain - (size_t)used, ", and so on over %d more", links - LINKS_SHOWN);
    return ppl_schedule_fail(p->actions, PPL_ERR_PLAN, start, p->rank[start].tasks[w->at[start]].action,
                             "%s: a circle of %d ranks, want an order in which one of them can go on", chain, links);
}

ppl_status ppl_plan_prove(const ppl_plan *p) {
    ppl_walk w;
    PPL_TRY(ppl_walk_init(&w, p));
    while (w.n_ready) {
        int32_t rank = w.ready[--w.n_ready];
        walk_rank(&w, rank, p->rank[rank].count);
    }
    int32_t stuck = 0;
    while (stuck < p->ranks && w.waits[stuck] < 0) stuck++;
    ppl_status st = stuck < p->ranks ? fail_circle(&w, find_circle(&w, stuck)) : PPL_OK;
    ppl_walk_clear(&w);
    return st;
}

// The F part at the front of each rank's list, walked as far as it goes without anything else.
ppl_status ppl_plan_find_forward(ppl_plan *p) {
    ppl_walk w;
    PPL_TRY(ppl_walk_init(&w, p));
    for (int32_t i = 0; i < p->ranks; i++) {
        ppl_rank_plan *r = &p->rank[i];
        const ppl_action *actions = p->actions->rank[i].actions;
        int64_t end = 0;
        while (end < r->count && r->tasks[end].action >= 0 && actions[r->tasks[end].action].kind == PPL_F) end++;
        r->forward_tasks = end;
    }
    while (w.n_ready) {
        int32_t rank = w.ready[--w.n_ready];
        walk_rank(&w, rank, p->rank[rank].forward_tasks);
    }
    for (int32_t i = 0; i < p->ranks; i++) p->rank[i].forward_tasks = w.at[i];
    ppl_walk_clear(&w);
    return PPL_OK;
}
