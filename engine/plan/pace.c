// pace.c - how far producers run ahead of other ranks' readers when no buffer ever lacks. Before: tasks.c has written the
// lists. After: buffers.c gives each edge so many that a credit costs no time in a pipeline of equal stages.
//
// The lists are walked with F, I and W of one unit each and with credits that always pass; two steps of them where steps
// overlap.
#include "plan/build.h"
#include "plan/walk.h"

typedef struct pace {
    ppl_walk walk;
    int64_t *now;              // [ranks]: units
    int64_t **written, **sent; // [edges][steps * uses]: when the program that writes it began, and ended
    int64_t **freed;           // [edges][steps * uses]: when the last reader on another rank gave it back
} pace;

static void free_use(pace *p, const ppl_task *t, int64_t use, int64_t when) {
    int64_t *at = &p->freed[t->edge][use];
    if (when > *at) *at = when;
}

static void walk_rank(pace *p, int32_t rank) {
    ppl_walk *w = &p->walk;
    int64_t now = p->now[rank];
    int32_t step;
    for (const ppl_task *t; (t = ppl_walk_task(w, rank, &step)); w->at[rank]++) {
        int64_t use = t->edge < 0 ? -1 : (int64_t)step * ppl_plan_uses(w->plan, t->edge) + t->sequence;
        switch ((ppl_task_kind)t->kind) {
        case PPL_TASK_CREDIT: p->written[t->edge][use] = now; break;
        case PPL_TASK_RECEIVE:
            if (!ppl_walk_receive(w, t, step)) {
                w->waits[rank] = t->edge;
                p->now[rank] = now;
                return;
            }
            if (p->sent[t->edge][use] > now) now = p->sent[t->edge][use];
            if (w->plan->edge[t->edge].reader_buffers[t->slot]) free_use(p, t, use, now);
            break;
        case PPL_TASK_F:
        case PPL_TASK_I:
        case PPL_TASK_W: now++; break;
        case PPL_TASK_B: now += 2; break;
        case PPL_TASK_SEND:
            p->sent[t->edge][use] = now;
            ppl_walk_send(w, t);
            break;
        case PPL_TASK_RELEASE: free_use(p, t, use, now); break;
        case PPL_TASK_NORM:
        case PPL_TASK_UPDATE:
        case PPL_TASK_VALIDATE:
        case PPL_TASK_KINDS: break;
        }
    }
}

// Use n + buffers must not begin before use n is given back.
static int32_t needed(const int64_t *written, const int64_t *freed, int32_t uses) {
    int32_t buffers = 1, next = 0; // the first use that is written when n and all before it are free
    for (int32_t n = 0; n < uses; n++) {
        while (next < uses && (next <= n || written[next] < freed[n])) next++;
        if (next - n > buffers) buffers = next - n;
    }
    return buffers;
}

ppl_status ppl_build_pace(ppl_build *b) {
    int32_t steps = b->flow ? 2 : 1;
    size_t edges = (size_t)b->stages->n_edges, uses = (size_t)steps * (size_t)b->plan->microbatches;
    pace p = {0};
    b->ahead = ppl_arena_get(&b->arena, edges * sizeof *b->ahead);
    p.now = ppl_arena_get(&b->arena, (size_t)b->plan->ranks * sizeof *p.now);
    int64_t **times = ppl_arena_get(&b->arena, 3 * edges * sizeof *times);
    int64_t *all = ppl_arena_get(&b->arena, 3 * edges * uses * sizeof *all);
    if (!b->ahead || !p.now || !times || !all) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < 3 * edges; i++) times[i] = all + i * uses;
    p.written = times, p.sent = times + edges, p.freed = times + 2 * edges;
    PPL_TRY(ppl_walk_init(&p.walk, b->plan, steps));
    while (p.walk.n_ready) walk_rank(&p, p.walk.ready[--p.walk.n_ready]);
    for (int32_t e = 0; e < b->stages->n_edges; e++)
        b->ahead[e] = needed(p.written[e], p.freed[e], steps * ppl_plan_uses(b->plan, e));
    ppl_walk_clear(&p.walk);
    return PPL_OK;
}
