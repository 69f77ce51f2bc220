// tasks.c - each rank's task list, in its schedule's order: what a program waits for before it, what it serves behind it,
// and which activation slot it uses. Before: ends.c. After: buffers.c numbers the edges' buffers.
#include "plan/build.h"
#include "plan/slots.h"

typedef struct writer {
    ppl_build *b;
    ppl_rank_plan *rank;
    int32_t of;     // the rank
    int32_t action; // position of the action being turned into tasks
    int8_t stream;  // on which its tasks run
} writer;

// In which order a stage's microbatches pass a phase, by the schedule; W's is ascending, by the check.
static ppl_status find_orders(ppl_build *b) {
    const ppl_schedule *s = b->schedule;
    for (int32_t phase = 0; phase < PPL_PHASES; phase++) {
        b->order[phase] = ppl_arena_get(&b->arena, (size_t)s->stages * sizeof **b->order);
        if (!b->order[phase]) return PPL_ERR_MEMORY;
        for (int32_t k = 0; k < s->stages; k++) {
            b->order[phase][k] = ppl_arena_get(&b->plan->arena, (size_t)s->microbatches * sizeof ***b->order);
            if (!b->order[phase][k]) return PPL_ERR_MEMORY;
        }
    }
    int32_t *next = ppl_arena_get(&b->arena, PPL_PHASES * (size_t)s->stages * sizeof *next);
    if (!next) return PPL_ERR_MEMORY;
    for (int32_t r = 0; r < s->ranks; r++)
        for (size_t at = 0; at < s->rank[r].count; at++) {
            const ppl_action *a = &s->rank[r].actions[at];
            for (int32_t phase = 0; phase < PPL_PHASES; phase++) {
                bool runs = phase == PPL_PHASE_F   ? a->kind == PPL_F
                            : phase == PPL_PHASE_I ? a->kind == PPL_I || a->kind == PPL_B
                                                   : a->kind == PPL_W || a->kind == PPL_B;
                if (runs) b->order[phase][a->stage][a->microbatch] = next[phase * s->stages + a->stage]++;
            }
        }
    return PPL_OK;
}

static ppl_status set_edge_orders(ppl_build *b) {
    int32_t *once = ppl_arena_get(&b->plan->arena, sizeof *once);
    if (!once) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < b->stages->n_edges; i++) {
        const ppl_edge *e = &b->stages->edges[i];
        b->plan->edge[i].order = e->kind == PPL_U ? once : b->order[b->made[i]][e->src];
    }
    return PPL_OK;
}

static ppl_task *put(writer *w, int32_t kind, int32_t stage, int32_t microbatch) {
    ppl_task *t = &w->rank->tasks[w->rank->count++];
    *t = (ppl_task){.kind = (int8_t)kind,
                    .stream = w->stream,
                    .slot = -1,
                    .pending = -1,
                    .buffer = -1,
                    .stage = stage,
                    .microbatch = microbatch,
                    .edge = -1,
                    .sequence = -1,
                    .action = w->action,
                    .version = -1};
    return t;
}

static void put_ends(writer *w, int32_t kind, const ppl_ends *ends, int32_t stage, int32_t microbatch) {
    for (int32_t i = 0; i < ends->count; i++) {
        ppl_task *t = put(w, kind, stage, microbatch);
        t->edge = ends->item[i].edge;
        t->slot = (int16_t)ends->item[i].reader;
        t->sequence = w->b->plan->edge[t->edge].order[microbatch];
    }
}

static int32_t version_of(const writer *w, const ppl_action *a) {
    if (w->b->plan->weights == PPL_WEIGHTS_STASH) return w->b->version[a->stage][a->microbatch];
    return w->b->plan->weights == PPL_WEIGHTS_2BW ? -1 : 0; // a step reads what the step before it read and stepped
}

// A program with what stands around it. Receives come before credits: with links that copy, a receive sets its producer
// free, whatever this rank may still have to wait for.
static void put_program(writer *w, int32_t kind, const ppl_action *a, int32_t slot, int32_t pending) {
    const ppl_stage_ends *ends = &w->b->ends[a->stage];
    int32_t from = kind == PPL_TASK_F ? PPL_PHASE_F : kind == PPL_TASK_W ? PPL_PHASE_W : PPL_PHASE_I;
    int32_t to = kind == PPL_TASK_B ? PPL_PHASE_W : from;
    for (int32_t f = from; f <= to; f++) put_ends(w, PPL_TASK_RECEIVE, &ends->receive[f], a->stage, a->microbatch);
    for (int32_t f = from; f <= to; f++) put_ends(w, PPL_TASK_CREDIT, &ends->send[f], a->stage, a->microbatch);
    // The first W of a step writes the accumulators that the step before has handed out.
    if (to == PPL_PHASE_W && a->microbatch == 0) put_ends(w, PPL_TASK_CREDIT, &ends->tied_send, a->stage, 0);
    ppl_task *t = put(w, kind, a->stage, a->microbatch);
    t->slot = (int16_t)slot;
    t->pending = (int16_t)pending;
    t->version = version_of(w, a);
    for (int32_t f = from; f <= to; f++) put_ends(w, PPL_TASK_SEND, &ends->send[f], a->stage, a->microbatch);
    for (int32_t f = from; f <= to; f++) put_ends(w, PPL_TASK_RELEASE, &ends->release[f], a->stage, a->microbatch);
}

static ppl_status too_live(const writer *w, const ppl_slots *slots, int32_t stage) {
    const ppl_schedule *s = w->b->schedule;
    if (s->max_live && slots->live > s->max_live)
        return ppl_schedule_fail(s, PPL_ERR_PLAN, w->of, w->action, "%d live activations on the rank, want at most %d",
                                 slots->live, s->max_live);
    return ppl_schedule_fail(s, PPL_ERR_PLAN, w->of, w->action, "stage %d takes more than %d slots", stage,
                             PPL_MAX_SLOTS);
}

// Slots go round in the order of forwards, pendings in that of backwards. With stash each microbatch steps the weights.
static ppl_status put_flowing(writer *w, const ppl_action *a) {
    static const int8_t task[PPL_KINDS] = {
        [PPL_F] = PPL_TASK_F, [PPL_B] = PPL_TASK_B, [PPL_I] = PPL_TASK_I, [PPL_W] = PPL_TASK_W};
    const ppl_stage_layout *l = &w->b->plan->layout[a->stage];
    int32_t slot = w->b->order[PPL_PHASE_F][a->stage][a->microbatch] % l->slots;
    int32_t pending = w->b->order[PPL_PHASE_I][a->stage][a->microbatch] % l->pendings;
    put_program(w, task[a->kind], a, slot, a->kind == PPL_F ? -1 : pending);
    w->stream = 0;
    if (w->b->plan->weights == PPL_WEIGHTS_STASH && (a->kind == PPL_B || a->kind == PPL_W))
        put(w, PPL_TASK_UPDATE, a->stage, a->microbatch)->version = a->microbatch;
    return PPL_OK;
}

static ppl_status put_action(writer *w, ppl_slots *slots, const ppl_action *a) {
    int32_t slot, pending = -1;
    bool forward_only = w->b->plan->options.forward_only;
    if (a->kind == PPL_U || (forward_only && a->kind != PPL_F)) return PPL_OK;
    if (w->b->flow) return put_flowing(w, a);
    switch ((ppl_kind)a->kind) {
    case PPL_F:
        slot = ppl_slots_take(slots, a->stage, a->microbatch);
        if (slot < 0 || (!forward_only && w->b->schedule->max_live && slots->live > w->b->schedule->max_live))
            return too_live(w, slots, a->stage);
        put_program(w, PPL_TASK_F, a, slot, -1);
        if (forward_only) ppl_slots_give(slots, a->stage, a->microbatch);
        return PPL_OK;
    case PPL_B:
    case PPL_I:
        pending = ppl_slots_take_pending(slots, a->stage, a->microbatch);
        if (pending < 0) return too_live(w, slots, a->stage);
        break;
    case PPL_W: pending = ppl_slots_pending(slots, a->stage, a->microbatch); break;
    case PPL_U:
    case PPL_KINDS: break;
    }
    slot = ppl_slots_slot(slots, a->stage, a->microbatch);
    put_program(w, a->kind == PPL_B ? PPL_TASK_B : a->kind == PPL_I ? PPL_TASK_I : PPL_TASK_W, a, slot, pending);
    if (a->kind != PPL_I) ppl_slots_give(slots, a->stage, a->microbatch);
    return PPL_OK;
}

// Behind the last action: gradients of tied parameters go round, then every stage steps.
static void put_update(writer *w) {
    const ppl_rank_plan *r = w->rank;
    const ppl_rank_actions *list = &w->b->schedule->rank[w->of];
    w->action = -1;
    w->stream = 0;
    for (int32_t i = 0; i < r->n_stages; i++)
        put_ends(w, PPL_TASK_SEND, &w->b->ends[r->stages[i]].tied_send, r->stages[i], 0);
    for (int32_t i = 0; i < r->n_stages; i++)
        put_ends(w, PPL_TASK_RECEIVE, &w->b->ends[r->stages[i]].tied_receive, r->stages[i], 0);
    put(w, PPL_TASK_NORM, -1, -1);
    if (w->b->plan->weights == PPL_WEIGHTS_STASH) return;
    for (int32_t i = 0; i < r->n_stages; i++) {
        ppl_task *t = put(w, PPL_TASK_UPDATE, r->stages[i], -1);
        if (w->b->flow) t->version = 0;
    }
    ppl_task *updates = &r->tasks[r->count - r->n_stages];
    for (size_t at = 0; at < list->count; at++)
        for (int32_t i = 0; list->actions[at].kind == PPL_U && i < r->n_stages; i++)
            if (list->actions[at].stage == updates[i].stage) updates[i].action = (int32_t)at;
    for (int32_t i = 0; i < r->n_stages; i++)
        put_ends(w, PPL_TASK_RELEASE, &w->b->ends[r->stages[i]].tied_release, r->stages[i], 0);
}

// Exactly how many tasks the rank's list will have.
static int64_t count_tasks(const ppl_build *b, int32_t rank) {
    const ppl_schedule *s = b->schedule;
    bool forward_only = b->plan->options.forward_only, stash = b->plan->weights == PPL_WEIGHTS_STASH;
    int64_t n = forward_only ? 0 : 1;
    for (int32_t i = 0; i < b->plan->rank[rank].n_stages; i++) {
        const ppl_stage_ends *e = &b->ends[b->plan->rank[rank].stages[i]];
        int64_t around = 0;
        for (int32_t f = 0; f < (forward_only ? 1 : PPL_PHASES); f++)
            around += e->receive[f].count + 2 * e->send[f].count + e->release[f].count;
        n += around * s->microbatches;
        if (!forward_only) n += 2 * e->tied_send.count + e->tied_receive.count + e->tied_release.count + 1;
    }
    for (size_t at = 0; at < s->rank[rank].count; at++) {
        int32_t kind = s->rank[rank].actions[at].kind;
        n += kind == PPL_F || (kind != PPL_U && !forward_only);
        n += stash && (kind == PPL_B || kind == PPL_W);
    }
    return n;
}

static ppl_status find_stages(ppl_build *b) {
    const ppl_schedule *s = b->schedule;
    for (int32_t k = 0; k < s->stages; k++) b->plan->rank[s->stage_rank[k]].n_stages++;
    for (int32_t r = 0; r < s->ranks; r++) {
        ppl_rank_plan *rank = &b->plan->rank[r];
        rank->stages = ppl_arena_get(&b->plan->arena, (size_t)rank->n_stages * sizeof *rank->stages);
        if (!rank->stages) return PPL_ERR_MEMORY;
        rank->n_stages = 0;
    }
    for (int32_t k = 0; k < s->stages; k++) {
        ppl_rank_plan *rank = &b->plan->rank[s->stage_rank[k]];
        rank->stages[rank->n_stages++] = k;
    }
    return PPL_OK;
}

// Whether the second of two actions that may overlap needs nothing of what the first gives or frees. Behind a forward, a
// backward of another microbatch never does: what it reads is there, and the forward has been given other places. Behind a
// backward, a forward of the same stage may have its slot, and one whose value the backward's stage reads its buffer.
static bool runs_beside(const writer *w, const ppl_action *first, const ppl_action *second) {
    const ppl_stages *stages = w->b->stages;
    if (first->microbatch == second->microbatch) return false;
    if (first->kind == PPL_F) return true;
    if (first->stage == second->stage || w->b->flow) return false;
    for (int32_t i = 0; i < stages->n_edges; i++) {
        const ppl_edge *e = &stages->edges[i];
        for (int32_t k = 0; e->kind == PPL_F && e->src == second->stage && k < e->n_readers; k++)
            if (e->readers[k].stage == first->stage) return false;
    }
    return true;
}

static int8_t stream_of(const writer *w, const ppl_rank_actions *list, size_t at) {
    const ppl_action *a = &list->actions[at];
    const ppl_plan_options *o = &w->b->plan->options;
    bool second = at > 0 && a->overlap && a[-1].overlap == a->overlap;
    return second && o->streams > 1 && !o->forward_only && runs_beside(w, a - 1, a);
}

static ppl_status write_rank(ppl_build *b, int32_t rank, ppl_slots *slots) {
    writer w = {.b = b, .rank = &b->plan->rank[rank], .of = rank};
    const ppl_rank_actions *list = &b->schedule->rank[rank];
    size_t room = (size_t)count_tasks(b, rank) + (b->plan->options.validate ? 1 : 0);
    w.rank->streams = 1;
    w.rank->tasks = ppl_arena_get(&b->plan->arena, room * sizeof *w.rank->tasks);
    if (!w.rank->tasks) return PPL_ERR_MEMORY;
    for (size_t at = 0; at < list->count; at++) {
        const ppl_action *a = &list->actions[at];
        w.action = (int32_t)at;
        if (b->flow) b->flow[rank].begins[at] = w.rank->count;
        w.stream = stream_of(&w, list, at);
        if (w.stream) w.rank->streams = 2;
        PPL_TRY(put_action(&w, slots, a));
    }
    if (b->flow) b->flow[rank].begins[list->count] = w.rank->count;
    if (!b->plan->options.forward_only) put_update(&w);
    if (b->flow) return PPL_OK; // its peak is known
    w.rank->peak_live = slots->peak;
    slots->live = slots->peak = 0;
    return PPL_OK;
}

ppl_status ppl_build_tasks(ppl_build *b) {
    PPL_TRY(find_orders(b));
    PPL_TRY(set_edge_orders(b));
    PPL_TRY(find_stages(b));
    PPL_TRY(ppl_build_flow(b));
    ppl_slots slots;
    PPL_TRY(ppl_slots_init(&slots, &b->arena, b->schedule->stages, b->schedule->microbatches));
    for (int32_t r = 0; r < b->plan->ranks; r++) PPL_TRY(write_rank(b, r, &slots));
    if (b->flow) return ppl_build_turns(b);
    for (int32_t k = 0; k < b->schedule->stages; k++) {
        b->plan->layout[k].versions = 1;
        b->plan->layout[k].slots = slots.activation[k].used;
        b->plan->layout[k].pendings = slots.pending[k].used;
    }
    return PPL_OK;
}
