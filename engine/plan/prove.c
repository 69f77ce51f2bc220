// prove.c - do the ranks never wait for each other in a circle, and does each task find its version of the weights? Before:
// the lists of all ranks. After: the plan may run.
//
// The lists are walked at once (walk.h). Where no rank can go on, each waits for a task behind the task at which another
// one waits: following that leads into a circle, which is printed. buffers.c gives edges so many buffers that one run is
// known in which no credit waits, so a circle is the compute order's own fault; the walk does not rely on that.
//
// Steps that overlap are walked twice over, and that holds for any number of them. Call a round what a rank runs from one
// beginning of a step to the next: a step's own tasks and those of the next step that run ahead. What a rank waits for
// never lies in a later round than the task that waits: flow.c lets no forward run ahead of what it reads, and buffers.c
// gives each edge so many buffers that what runs ahead asks for buffers of earlier steps alone. So all tasks of a circle lie
// in the same round, all rounds between the first and the last are alike, and the two steps have one such round whole. Versions
// of the weights need no other rank: each rank's rounds are gone through alone.
#include "plan/build.h"
#include "plan/walk.h"
#include <stdio.h>

enum { LINKS_SHOWN = 8, CHAIN_BYTES = 1600, FLOW_STEPS = 2 };

static void walk_rank(ppl_walk *w, int32_t rank, int64_t end) {
    int32_t step;
    for (const ppl_task *t; w->at[rank] < end && (t = ppl_walk_task(w, rank, &step)); w->at[rank]++) {
        switch ((ppl_task_kind)t->kind) {
        case PPL_TASK_CREDIT:
            if (ppl_walk_credit(w, t, step)) break;
            w->waits[rank] = t->edge;
            return;
        case PPL_TASK_RECEIVE:
            if (!ppl_walk_receive(w, t, step)) {
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
static int32_t waits_for(ppl_walk *w, int32_t rank, int32_t *sequence) {
    int32_t step;
    const ppl_task *t = ppl_walk_task(w, rank, &step);
    const ppl_edge_plan *e = &w->plan->edge[t->edge];
    int32_t from = ppl_plan_edge_rank(w->plan, t->edge), back;
    *sequence = t->sequence;
    if (t->kind == PPL_TASK_RECEIVE) return from;
    *sequence = ppl_walk_former(w->plan, t, &back);
    for (int32_t i = 0; i < e->n_readers; i++)
        if (e->reader_rank[i] != from && w->freed[ppl_walk_entry(w, t->edge, i, *sequence)] < step + 1 - back)
            return e->reader_rank[i];
    return -1;
}

// A rank that is in a circle, found from any waiting rank.
static int32_t find_circle(ppl_walk *w, int32_t rank) {
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

// The task on `rank` that would let the waiting task go on; head: the one it is at.
static const ppl_task *find_awaited(const ppl_walk *w, int32_t rank, const ppl_task *waiting, int32_t sequence,
                                    const ppl_task *head) {
    const ppl_rank_plan *r = &w->plan->rank[rank];
    for (int64_t at = 0; at < r->count; at++) {
        const ppl_task *t = &r->tasks[at];
        if (t->edge != waiting->edge || t->sequence != sequence) continue;
        int32_t kind = PPL_TASK_SEND;
        if (waiting->kind == PPL_TASK_CREDIT && t->slot >= 0)
            kind = w->plan->edge[t->edge].reader_buffers[t->slot] ? PPL_TASK_RECEIVE : PPL_TASK_RELEASE;
        if (t->kind == kind) return t;
    }
    return head;
}

// "rank 0, position 3, 1F2: waits for 0F2 (rank 1, position 5), which stands behind 0B1 (position 4), which waits for ..."
static ppl_status fail_circle(ppl_walk *w, int32_t start, bool *circle) {
    const ppl_plan *p = w->plan;
    char chain[CHAIN_BYTES], text[24], other[24];
    int used = 0, links = 0;
    int32_t rank = start, step;
    do {
        const ppl_task *t = ppl_walk_task(w, rank, &step);
        int32_t sequence, next = waits_for(w, rank, &sequence);
        const ppl_task *head = ppl_walk_task(w, next, &step), *awaited = find_awaited(w, next, t, sequence, head);
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
        if (circle) circle[rank] = true;
        rank = next;
    } while (rank != start);
    if (links > LINKS_SHOWN)
        snprintf(chain + used, sizeof chain - (size_t)used, ", and so on over %d more", links - LINKS_SHOWN);
    return ppl_schedule_fail(p->actions, PPL_ERR_PLAN, start, ppl_walk_task(w, start, &step)->action,
                             "%s: a circle of %d ranks, want an order in which one of them can go on", chain, links);
}

// Weights of a rank's stages: every task reads a version that is made and that no later one has taken the place of.
static ppl_status prove_versions(const ppl_plan *p, int32_t rank, int64_t *made) {
    const ppl_rank_plan *r = &p->rank[rank];
    int64_t a_step = p->weights == PPL_WEIGHTS_STASH ? p->microbatches : 1, step;
    for (int64_t round = r->ahead ? -1 : 0; round < FLOW_STEPS; round++) {
        for (int64_t k = 0; k < r->count; k++) {
            const ppl_task *t = ppl_rank_turn(r, k, round, 0, FLOW_STEPS, &step);
            bool steps = t && t->kind == PPL_TASK_UPDATE;
            if (!t || (!steps && (t->kind < PPL_TASK_F || t->kind > PPL_TASK_W))) continue;
            int64_t version = step * a_step + t->version, *newest = &made[t->stage];
            int32_t kept = p->layout[t->stage].versions;
            if (step == 0 && version < 0) version = 0; // before the first step there is one
            if (steps ? version != *newest : version > *newest || version + kept <= *newest)
                return ppl_schedule_fail(p->actions, PPL_ERR_PLAN, rank, t->action,
                                         "%s version %lld of stage %d's weights where version %lld is the newest of %d "
                                         "that are kept, want one of them",
                                         steps ? "steps" : "reads", (long long)version, t->stage, (long long)*newest,
                                         kept);
            *newest += steps;
        }
    }
    return PPL_OK;
}

static ppl_status prove_weights(const ppl_plan *p) {
    int64_t *made = ppl_alloc((size_t)p->stages->count * sizeof *made);
    if (!made) return PPL_ERR_MEMORY;
    ppl_status st = PPL_OK;
    for (int32_t rank = 0; st == PPL_OK && rank < p->ranks; rank++) st = prove_versions(p, rank, made);
    ppl_free(made);
    return st;
}

// An edge whose buffers are all taken, for which a rank of the circle waits; -1: none.
static int32_t find_full(ppl_walk *w, int32_t start) {
    int32_t rank = start, sequence, step;
    do {
        const ppl_task *t = ppl_walk_task(w, rank, &step);
        if (t->kind == PPL_TASK_CREDIT && w->plan->edge[t->edge].buffers < ppl_plan_uses(w->plan, t->edge))
            return t->edge;
        rank = waits_for(w, rank, &sequence);
    } while (rank != start);
    return -1;
}

// One walk to its end. full: where given, the edge that lacks the buffer which would open the circle; else a circle fails.
static ppl_status walk_all(const ppl_plan *p, bool *circle, int32_t *full) {
    ppl_walk w;
    if (ppl_plan_flows(p)) PPL_TRY(prove_weights(p));
    PPL_TRY(ppl_walk_init(&w, p, ppl_plan_flows(p) ? FLOW_STEPS : 1));
    while (w.n_ready) {
        int32_t rank = w.ready[--w.n_ready];
        walk_rank(&w, rank, INT64_MAX);
    }
    int32_t stuck = 0, start = -1;
    while (stuck < p->ranks && w.waits[stuck] < 0) stuck++;
    if (stuck < p->ranks) start = find_circle(&w, stuck);
    if (full) *full = start < 0 ? -1 : find_full(&w, start);
    ppl_status st = start < 0 || (full && *full >= 0) ? PPL_OK : fail_circle(&w, start, circle);
    ppl_walk_clear(&w);
    return st;
}

ppl_status ppl_plan_prove(const ppl_plan *p, bool *circle) {
    return walk_all(p, circle, NULL);
}

ppl_status ppl_plan_prove_least(ppl_plan *p, bool *circle) {
    for (int32_t full = 0;;) {
        PPL_TRY(walk_all(p, circle, &full));
        if (full < 0) return PPL_OK;
        p->edge[full].buffers++;
    }
}

// The F part at the front of each rank's list, walked as far as it goes without anything else.
ppl_status ppl_plan_find_forward(ppl_plan *p) {
    ppl_walk w;
    if (ppl_plan_flows(p)) return PPL_OK; // no step of these is rolled back
    PPL_TRY(ppl_walk_init(&w, p, 1));
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
