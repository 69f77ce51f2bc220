// flow.c - how the steps of an asynchronous schedule (PipeDream's stash, 2BW) flow into each other. Before: ends.c knows
// what each stage's F waits for. After: tasks.c writes the lists, which ppl_build_turns then puts in their running order.
//
// A schedule gives one step: forwards that fill the pipeline, a body, backwards that drain it. In steady state the forwards
// that fill the next step stand between the backwards that drain this one, one before each of the last, so that a rank never
// runs dry. How many run ahead: all at the front but the last, which has its backward behind it already; no more than there
// are backwards at the end; none before its own microbatch of the step before is done with, whose place it takes; and none
// whose producer on another rank does not run ahead too, as it would hold up backwards that its producer needs. Orders that
// no one would write may still close a circle: there build.c lets less run ahead, down to nothing.
#include "plan/build.h"

enum { MOST_ACTIONS = INT32_MAX / 4 }; // times of two steps fit an int32

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// How many of an ascending list are below x.
static int32_t below(const int32_t *list, int32_t count, int32_t x) {
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (list[middle] < x) low = middle + 1;
        else high = middle;
    }
    return low;
}

// ---- what runs ahead ----

// Positions of the B and I behind the last F, ascending; returns how many. A pair that may overlap stays together.
static int32_t find_tail(const ppl_rank_actions *list, int32_t *tail) {
    size_t begin = list->count;
    while (begin > 0 && list->actions[begin - 1].kind != PPL_F && !list->actions[begin - 1].overlap) begin--;
    int32_t n = 0;
    for (size_t at = begin; at < list->count; at++)
        if (list->actions[at].kind == PPL_B || list->actions[at].kind == PPL_I) tail[n++] = (int32_t)at;
    return n;
}

static int32_t find_ahead(const ppl_build *b, const ppl_rank_actions *list, const int32_t *tail, int32_t tails) {
    int32_t lead = 0, count = (int32_t)list->count;
    while (lead < count && list->actions[lead].kind == PPL_F && !list->actions[lead].overlap) lead++;
    if (lead && lead < count && list->actions[lead].kind != PPL_F) lead--;
    int32_t ahead = least(lead, tails);
    for (int32_t i = 0; i < ahead; i++) { // the i-th goes before tail[tails - ahead + i]
        int32_t done = ppl_phase_position(b, list->actions[i].stage, list->actions[i].microbatch, PPL_PHASE_W);
        ahead = least(ahead, tails + i - below(tail, tails, done + 1));
    }
    return ahead;
}

// Lets nothing run ahead of what it reads: each forward that does not run ahead keeps back its readers on other ranks.
static ppl_status keep_back(ppl_build *b) {
    const ppl_schedule *s = b->schedule;
    int32_t *settled = ppl_arena_get(&b->arena, (size_t)s->ranks * sizeof *settled);
    int32_t *stack = ppl_arena_get(&b->arena, (size_t)s->ranks * sizeof *stack), n = 0;
    bool *stacked = ppl_arena_get(&b->arena, (size_t)s->ranks * sizeof *stacked);
    if (!settled || !stack || !stacked) return PPL_ERR_MEMORY;
    for (int32_t r = 0; r < s->ranks; r++) settled[r] = b->flow[r].period, stacked[r] = true, stack[n++] = r;
    while (n) {
        int32_t rank = stack[--n], at = b->flow[rank].ahead, end = settled[rank];
        stacked[rank] = false;
        settled[rank] = at;
        for (; at < end; at++) {
            const ppl_action *a = &s->rank[rank].actions[at];
            const ppl_ends *sends = &b->ends[a->stage].send[PPL_PHASE_F];
            for (int32_t i = 0; a->kind == PPL_F && i < sends->count; i++) {
                int32_t edge = sends->item[i].edge;
                for (int32_t k = 0; k < b->plan->edge[edge].n_readers; k++) {
                    int32_t stage = b->stages->edges[edge].readers[k].stage, reader = s->stage_rank[stage];
                    int32_t read = ppl_phase_position(b, stage, a->microbatch, PPL_PHASE_F);
                    if (reader == rank || b->first[edge][k] != PPL_PHASE_F || read >= b->flow[reader].ahead) continue;
                    b->flow[reader].ahead = read;
                    if (!stacked[reader]) stacked[reader] = true, stack[n++] = reader;
                }
            }
        }
    }
    return PPL_OK;
}

static ppl_status set_times(ppl_build *b, ppl_flow *f, const ppl_rank_actions *list, int32_t *tail) {
    f->time = ppl_arena_get(&b->arena, list->count * sizeof *f->time);
    f->turn = ppl_arena_get(&b->arena, list->count * sizeof *f->turn);
    f->begins = ppl_arena_get(&b->arena, (list->count + 1) * sizeof *f->begins);
    if (!f->time || !f->turn || !f->begins) return PPL_ERR_MEMORY;
    int32_t tails = find_tail(list, tail), next = tails - f->ahead, now = 0;
    for (int32_t at = f->ahead; at < f->period; at++) {
        if (next < tails && tail[next] == at) {
            int32_t i = f->ahead - (tails - next++);
            f->time[i] = now - f->period;
            f->turn[now++] = i;
        }
        f->time[at] = now;
        f->turn[now++] = at;
    }
    return PPL_OK;
}

int32_t ppl_flow_ahead(const ppl_build *b, int32_t stage) {
    int32_t n = 0;
    for (int32_t mb = 0; b->flow && mb < b->plan->microbatches; mb++)
        n += ppl_phase_time(b, stage, mb, PPL_PHASE_F) < 0;
    return n;
}

// ---- places and versions ----

// The most uses that have begun by the end of one, it included, over chained steps: as many places let use n have place
// n % places. Uses in order of begin.
static int32_t most_open(const int32_t *begin, const int32_t *end, int32_t uses, int32_t period) {
    int32_t most = 1;
    for (int32_t n = 0; n < uses; n++) {
        int32_t open = below(begin, uses, end[n]) + below(begin, uses, end[n] - period);
        if (open - n > most) most = open - n;
    }
    return most;
}

static ppl_status find_places(ppl_build *b, int32_t stage, int32_t *begin, int32_t *end) {
    const ppl_flow *f = &b->flow[b->schedule->stage_rank[stage]];
    int32_t uses = b->plan->microbatches, most[2];
    for (int32_t phase = PPL_PHASE_F; phase <= PPL_PHASE_I; phase++) {
        for (int32_t mb = 0; mb < uses; mb++) {
            begin[b->order[phase][stage][mb]] = ppl_phase_time(b, stage, mb, phase);
            end[b->order[phase][stage][mb]] = ppl_phase_time(b, stage, mb, PPL_PHASE_W);
        }
        most[phase == PPL_PHASE_I] = most_open(begin, end, uses, f->period);
    }
    b->plan->layout[stage].slots = most[0];
    b->plan->layout[stage].pendings = most[1];
    if (most[0] <= PPL_MAX_SLOTS && most[1] <= PPL_MAX_SLOTS) return PPL_OK;
    return ppl_fail(PPL_ERR_PLAN, "stage %d takes more than %d slots", stage, PPL_MAX_SLOTS);
}

// A forward reads what has been stepped before it; its backward still reads that when the microbatches before it have
// stepped the newest (Narayanan et al., "PipeDream", 2019).
static ppl_status find_versions(ppl_build *b, int32_t stage, int32_t *stepped) {
    ppl_plan *p = b->plan;
    const ppl_flow *f = &b->flow[p->stage_rank[stage]];
    p->layout[stage].versions = 2;
    if (p->weights == PPL_WEIGHTS_2BW) return PPL_OK;
    int32_t *version = b->version[stage] =
        ppl_arena_get(&b->arena, (size_t)p->microbatches * sizeof *b->version[stage]);
    if (!version) return PPL_ERR_MEMORY;
    p->layout[stage].versions = 1;
    for (int32_t mb = 0; mb < p->microbatches; mb++) stepped[mb] = ppl_phase_time(b, stage, mb, PPL_PHASE_W);
    for (int32_t mb = 0; mb < p->microbatches; mb++) {
        int32_t time = ppl_phase_time(b, stage, mb, PPL_PHASE_F);
        version[mb] = time < 0 ? below(stepped, p->microbatches, time + f->period) - p->microbatches
                               : below(stepped, p->microbatches, time);
        if (mb - version[mb] + 1 > p->layout[stage].versions) p->layout[stage].versions = mb - version[mb] + 1;
    }
    return PPL_OK;
}

// Live activations over a step in the list's order, and over one between two others.
static ppl_status find_peak(ppl_build *b, int32_t rank) {
    const ppl_schedule *s = b->schedule;
    const ppl_flow *f = &b->flow[rank];
    ppl_rank_plan *r = &b->plan->rank[rank];
    for (int32_t turns = 0; turns < 2; turns++) {
        int32_t live = turns ? f->ahead : 0;
        for (int32_t k = 0; k < f->period; k++) {
            int32_t at = turns ? f->turn[k] : k, kind = s->rank[rank].actions[at].kind;
            live += (kind == PPL_F) - (kind == PPL_B || kind == PPL_W);
            if (s->max_live && live > s->max_live)
                return ppl_schedule_fail(s, PPL_ERR_PLAN, rank, at,
                                         "%d live activations on the rank%s, want at most %d", live,
                                         turns ? " while the step before it drains" : "", s->max_live);
            if (live > r->peak_live) r->peak_live = live;
        }
    }
    return PPL_OK;
}

// ---- the steps of building ----

static ppl_status check_tied(const ppl_build *b) {
    const ppl_graph *g = b->stages->graph;
    for (int32_t i = 0; i < b->stages->n_edges; i++) {
        const ppl_edge *e = &b->stages->edges[i];
        for (size_t p = 0; e->kind == PPL_U && p < g->n_params; p++)
            for (int32_t k = 0; k < g->params[p].n_uses; k++)
                if (g->params[p].uses[k] == e->value)
                    return ppl_fail(PPL_ERR_PLAN,
                                    "schedule %s: parameter '%s' is tied over stages %d and %d, want none tied with "
                                    "weights \"%s\", or \"sync\"",
                                    b->schedule->name, g->params[p].name, e->src, e->readers[0].stage,
                                    ppl_weights_name(b->plan->weights));
    }
    return PPL_OK;
}

ppl_status ppl_build_flow(ppl_build *b) {
    const ppl_schedule *s = b->schedule;
    size_t most = (size_t)s->microbatches;
    if (!ppl_plan_flows(b->plan)) return PPL_OK;
    PPL_TRY(check_tied(b));
    for (int32_t r = 0; r < s->ranks; r++) {
        if (s->rank[r].count > MOST_ACTIONS)
            return ppl_schedule_fail(s, PPL_ERR_PLAN, r, -1, "more than %d actions", MOST_ACTIONS);
        if (s->rank[r].count > most) most = s->rank[r].count;
    }
    ppl_flow *flow = ppl_arena_get(&b->arena, (size_t)s->ranks * sizeof *flow);
    int32_t *one = ppl_arena_get(&b->arena, most * sizeof *one), *two = ppl_arena_get(&b->arena, most * sizeof *two);
    b->version = ppl_arena_get(&b->arena, (size_t)s->stages * sizeof *b->version);
    if (!flow || !one || !two || !b->version) return PPL_ERR_MEMORY;
    for (int32_t r = 0; r < s->ranks; r++) {
        flow[r].period = (int32_t)s->rank[r].count;
        flow[r].ahead = least(b->most[r], find_ahead(b, &s->rank[r], one, find_tail(&s->rank[r], one)));
    }
    b->flow = flow;
    PPL_TRY(keep_back(b));
    for (int32_t r = 0; r < s->ranks; r++) {
        PPL_TRY(set_times(b, &flow[r], &s->rank[r], one));
        PPL_TRY(find_peak(b, r));
    }
    for (int32_t k = 0; k < s->stages; k++) {
        PPL_TRY(find_places(b, k, one, two));
        PPL_TRY(find_versions(b, k, one));
    }
    return PPL_OK;
}

ppl_status ppl_build_turns(ppl_build *b) {
    for (int32_t i = 0; b->flow && i < b->plan->ranks; i++) {
        ppl_rank_plan *r = &b->plan->rank[i];
        const ppl_flow *f = &b->flow[i];
        if (!f->ahead) continue;
        r->ahead = f->begins[f->ahead];
        r->turns = ppl_arena_get(&b->plan->arena, (size_t)r->count * sizeof *r->turns);
        if (!r->turns) return PPL_ERR_MEMORY;
        int64_t n = 0;
        for (int32_t k = 0; k < f->period; k++)
            for (int64_t at = f->begins[f->turn[k]]; at < f->begins[f->turn[k] + 1]; at++) r->turns[n++] = at;
        for (int64_t at = f->begins[f->period]; at < r->count; at++) r->turns[n++] = at; // the update
    }
    return PPL_OK;
}
