// buffers.c - how many buffers each edge has. Before: pace.c knows how far producers run ahead. After: prove.c.
//
// The producer's buffers are written in the producer's order, use n into n % buffers. What its own rank reads must not be
// overwritten: its order says how many that takes. What other ranks read is guarded by credits; there the number is chosen
// so that no credit is waited for while stages take equally long (pace.c), which also means that credits never close a
// circle; with at least one to spare beside those that are being read. With least_buffers they begin with one, and prove.c
// adds one wherever the lack of it would close a circle.
#include "plan/build.h"

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

// What a rank reads of its own stages needs no task, so its own order must have it made before: the walk does not see it.
static ppl_status check_own_order(const ppl_build *b, int32_t edge) {
    const ppl_edge *e = &b->stages->edges[edge];
    const ppl_schedule *s = b->schedule;
    int32_t rank = s->stage_rank[e->src];
    for (int32_t i = 0; e->kind != PPL_U && i < e->n_readers; i++) {
        int32_t stage = e->readers[i].stage, phase = b->first[edge][i];
        if (s->stage_rank[stage] != rank || (b->plan->options.forward_only && phase != PPL_PHASE_F)) continue;
        for (int32_t mb = 0; mb < s->microbatches; mb++) {
            int32_t made = ppl_phase_position(b, e->src, mb, b->made[edge]);
            int32_t read = ppl_phase_position(b, stage, mb, phase);
            if (read > made) continue;
            char text[24];
            ppl_action_print(&s->rank[rank].actions[made], text);
            return ppl_schedule_fail(s, PPL_ERR_PLAN, rank, read,
                                     "stands before %s at position %d, which makes what it reads, want it behind", text,
                                     made);
        }
    }
    return PPL_OK;
}

// The largest number of uses written before the use's last reading, over the reading: `phase` of `stage`.
static int32_t own_reader(const ppl_build *b, int32_t edge, const int32_t *write, int32_t stage, int32_t phase) {
    const int32_t *order = b->plan->edge[edge].order;
    int32_t uses = b->plan->microbatches, buffers = 1;
    int32_t period =
        b->flow ? b->flow[b->plan->stage_rank[stage]].period : 0; // of steps that overlap, the next one counts
    for (int32_t mb = 0; mb < uses; mb++) {
        int32_t read = ppl_phase_time(b, stage, mb, phase), low = order[mb], high = b->flow ? 2 * uses : uses;
        while (high - low > 1) { // write[low] <= read, as a value is read behind its making
            int32_t middle = low + (high - low) / 2;
            if ((middle < uses ? write[middle] : write[middle - uses] + period) <= read) low = middle;
            else high = middle;
        }
        buffers = most(buffers, low + 1 - order[mb]);
    }
    return buffers;
}

static int32_t own_buffers(const ppl_build *b, int32_t edge, int32_t *write) {
    const ppl_edge *e = &b->stages->edges[edge];
    const ppl_edge_plan *plan = &b->plan->edge[edge];
    bool forward_only = b->plan->options.forward_only;
    if (e->kind == PPL_U) return 1;
    for (int32_t mb = 0; mb < b->plan->microbatches; mb++)
        write[plan->order[mb]] = ppl_phase_time(b, e->src, mb, b->made[edge]);
    int32_t buffers = 1;
    if (e->src_last > b->made[edge] && !forward_only) buffers = own_reader(b, edge, write, e->src, e->src_last);
    for (int32_t i = 0; i < e->n_readers; i++) {
        if (b->plan->stage_rank[e->readers[i].stage] != b->plan->stage_rank[e->src]) continue;
        if (forward_only && b->first[edge][i] != PPL_PHASE_F) continue;
        int32_t last = forward_only ? PPL_PHASE_F : e->readers[i].last;
        buffers = most(buffers, own_reader(b, edge, write, e->readers[i].stage, last));
    }
    return buffers;
}

// Buffers so that readers on other ranks hold nobody up who need not wait.
static int32_t crossing_buffers(const ppl_build *b, int32_t edge) {
    const ppl_edge *e = &b->stages->edges[edge];
    const ppl_edge_plan *plan = &b->plan->edge[edge];
    const ppl_stage_layout *layout = b->plan->layout;
    bool forward_only = b->plan->options.forward_only;
    int32_t buffers = 0;
    for (int32_t i = 0; i < e->n_readers; i++) {
        if (plan->reader_rank[i] == b->plan->stage_rank[e->src]) continue;
        int32_t last = forward_only ? PPL_PHASE_F : e->readers[i].last, held = 1, ahead = 0;
        if (e->kind == PPL_F && last != PPL_PHASE_F) held = layout[e->readers[i].stage].slots;
        if (e->kind == PPL_B && last == PPL_PHASE_W) held = layout[e->readers[i].stage].pendings;
        if (e->kind == PPL_F && !forward_only) ahead = layout[e->src].slots;
        if (plan->reader_buffers[i]) held = 1, ahead = 0; // it is held in the reader's own buffers
        if (e->kind == PPL_F)
            ahead = most(ahead, ppl_flow_ahead(b, e->src)); // no credit within the step before: prove.c
        buffers = most(buffers, most(held + 1, ahead));
    }
    if (buffers) buffers = most(buffers, b->ahead[edge]);
    return least(buffers, ppl_plan_uses(b->plan, edge));
}

typedef struct reading { // of one microbatch, in positions of the reader's rank
    int32_t begin, end, sequence;
} reading;

// Uses that lie in the same of `buffers` buffers at once? readings in order of begin; until[buffers]: scratch.
static bool collide(const reading *r, int32_t count, int32_t buffers, int32_t *until) {
    for (int32_t i = 0; i < buffers; i++) until[i] = -1;
    for (int32_t i = 0; i < count; i++) {
        int32_t *end = &until[r[i].sequence % buffers];
        if (*end >= r[i].begin) return true;
        *end = r[i].end;
    }
    return false;
}

// When a receive may begin whose value is first read at `time`: then, or where the program before begins.
static int32_t receive_time(const ppl_build *b, int32_t rank, int32_t time) {
    const ppl_rank_actions *list = &b->schedule->rank[rank];
    if (!b->plan->options.receive_early) return time;
    if (b->flow) return time - 1;
    while (--time >= 0) {
        int32_t kind = list->actions[time].kind;
        if (kind == PPL_F || (kind != PPL_U && !b->plan->options.forward_only)) break;
    }
    return time;
}

// The reader's own buffers, where values are copied: as few as its order allows, use n in n % buffers. Tries as many as
// are alive at once, then a few more, then one for each microbatch, so that the time stays linear.
static int32_t reader_buffers(const ppl_build *b, int32_t edge, int32_t reader, reading *r, int32_t *until) {
    const ppl_edge *e = &b->stages->edges[edge];
    int32_t uses = ppl_plan_uses(b->plan, edge), stage = e->readers[reader].stage;
    if (e->kind == PPL_U) return 1;
    int32_t first = b->first[edge][reader], last = b->plan->options.forward_only ? first : e->readers[reader].last;
    const int32_t *begins = b->order[first][stage], *ends = b->order[last][stage];
    int32_t steps = b->flow ? 2 : 1, period = b->flow ? b->flow[b->plan->stage_rank[stage]].period : 0;
    for (int32_t i = 0; i < steps * uses; i++) { // steps that overlap: of two
        int32_t step = i / uses, mb = i % uses;
        reading *one = &r[step * uses + begins[mb]];
        int32_t read = ppl_phase_time(b, stage, mb, first);
        one->begin = receive_time(b, b->schedule->stage_rank[stage], read) + step * period;
        one->end = ppl_phase_time(b, stage, mb, last) + step * period;
        one->sequence = b->plan->edge[edge].order[mb] + step * uses;
        until[step * uses + ends[mb]] = one->end; // in ascending order
    }
    int32_t alive = 1;
    for (int32_t i = 0, done = 0; i < steps * uses; i++) {
        while (until[done] < r[i].begin) done++;
        alive = most(alive, i + 1 - done);
    }
    for (int32_t tries = 0; tries < 16 && alive + tries < uses; tries++)
        if (!collide(r, steps * uses, alive + tries, until)) return alive + tries;
    // An early receive of the next step may come before the last reading of this one's.
    bool meets = b->flow && b->plan->options.receive_early && collide(r, steps * uses, uses, until);
    return meets ? 2 * uses : uses;
}

static bool is_used(const ppl_build *b, int32_t edge) {
    const ppl_edge *e = &b->stages->edges[edge];
    if (!b->plan->options.forward_only) return true;
    for (int32_t i = 0; e->kind == PPL_F && i < e->n_readers; i++)
        if (b->first[edge][i] == PPL_PHASE_F) return true;
    return false;
}

ppl_status ppl_build_buffers(ppl_build *b) {
    size_t uses = (size_t)b->plan->microbatches;
    int32_t *scratch = ppl_arena_get(&b->arena, 2 * uses * sizeof *scratch); // of two steps
    reading *r = ppl_arena_get(&b->arena, 2 * uses * sizeof *r);
    if (!scratch || !r) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < b->stages->n_edges; i++) {
        ppl_edge_plan *plan = &b->plan->edge[i];
        if (!is_used(b, i)) continue; // no buffers
        PPL_TRY(check_own_order(b, i));
        plan->buffers = own_buffers(b, i, scratch);
        if (!b->plan->options.least_buffers) plan->buffers = most(plan->buffers, crossing_buffers(b, i));
        for (int32_t k = 0; k < plan->n_readers; k++)
            if (plan->reader_buffers[k]) plan->reader_buffers[k] = reader_buffers(b, i, k, r, scratch);
        if (plan->buffers > PPL_MAX_SLOTS)
            return ppl_fail(PPL_ERR_PLAN, "edge %d, from stage %d: takes %d buffers, want at most %d", i,
                            b->stages->edges[i].src, plan->buffers, PPL_MAX_SLOTS);
    }
    return PPL_OK;
}
