// check.c - is a schedule complete, and each rank's own order possible? Before: schedule.c. After: plan/ compiles it and
// proves that the ranks do not wait for each other in a circle.
#include "schedule/schedule.h"

static const ppl_action *action_at(const ppl_schedule *s, int32_t rank, int64_t at) {
    return &s->rank[rank].actions[at];
}

// Every rank owns a stage and acts; every action stands on its stage's owner.
static ppl_status check_owners(const ppl_schedule *s) {
    bool *owns = ppl_alloc((size_t)s->ranks * sizeof *owns);
    if (!owns) return PPL_ERR_MEMORY;
    for (int32_t k = 0; k < s->stages; k++) owns[s->stage_rank[k]] = true;
    int32_t idle = 0;
    while (idle < s->ranks && owns[idle]) idle++;
    ppl_free(owns);
    if (idle < s->ranks)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, idle, -1, "owns none of %d stages, want at least one a rank",
                                 s->stages);
    for (int32_t r = 0; r < s->ranks; r++) {
        if (!s->rank[r].count)
            return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, r, -1, "has no actions, want those of its stages");
        for (size_t at = 0; at < s->rank[r].count; at++) {
            int32_t stage = action_at(s, r, (int64_t)at)->stage;
            if (s->stage_rank[stage] != r)
                return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, r, (int64_t)at,
                                         "stage %d is owned by rank %d, want it there", stage, s->stage_rank[stage]);
        }
    }
    return PPL_OK;
}

// What a (stage, microbatch) lacks, from where its actions stand: at[PPL_U], -1 where there is none; PPL_OK if nothing.
static ppl_status check_missing(const ppl_schedule *s, int32_t stage, int32_t microbatch, const int32_t *at) {
    int32_t rank = s->stage_rank[stage];
    if (at[PPL_F] < 0)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, -1, "%dF%d is missing, want all of 0 to %d", stage,
                                 microbatch, s->microbatches - 1);
    if (at[PPL_B] >= 0) return PPL_OK;
    if (at[PPL_I] < 0 && at[PPL_W] < 0)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at[PPL_F],
                                 "its backward %dB%d is missing, want it (or %dI%d and %dW%d) behind", stage,
                                 microbatch, stage, microbatch, stage, microbatch);
    for (int32_t kind = PPL_I; kind <= PPL_W; kind++)
        if (at[kind] < 0)
            return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at[kind == PPL_I ? PPL_W : PPL_I],
                                     "%d%c%d is missing, want it %s", stage, ppl_kind_letter[kind], microbatch,
                                     kind == PPL_I ? "before" : "behind");
    return PPL_OK;
}

// A schedule with far fewer actions than cells lacks some: found stage by stage, so that no table is made that is out of
// proportion to the actions given.
static ppl_status check_sparse(const ppl_schedule *s) {
    int32_t *at = ppl_alloc((size_t)s->microbatches * PPL_U * sizeof *at);
    if (!at) return PPL_ERR_MEMORY;
    int64_t *count = ppl_alloc((size_t)s->stages * sizeof *count);
    ppl_status st = count ? PPL_OK : PPL_ERR_MEMORY;
    int32_t least = 0;
    for (int32_t r = 0; count && r < s->ranks; r++)
        for (size_t i = 0; i < s->rank[r].count; i++) count[action_at(s, r, (int64_t)i)->stage]++;
    for (int32_t k = 0; count && k < s->stages; k++)
        if (count[k] < count[least]) least = k;
    const ppl_rank_actions *list = &s->rank[s->stage_rank[least]];
    for (int32_t i = 0; i < s->microbatches * PPL_U; i++) at[i] = -1;
    for (size_t i = 0; i < list->count; i++) {
        const ppl_action *a = &list->actions[i];
        if (a->stage == least && a->kind < PPL_U) at[a->microbatch * PPL_U + a->kind] = (int32_t)i;
    }
    for (int32_t m = 0; st == PPL_OK && m < s->microbatches; m++) st = check_missing(s, least, m, &at[m * PPL_U]);
    ppl_free(at);
    ppl_free(count);
    return st;
}

static ppl_status fill(const ppl_schedule *s, ppl_positions *p) {
    for (int32_t r = 0; r < s->ranks; r++)
        for (size_t at = 0; at < s->rank[r].count; at++) {
            const ppl_action *a = action_at(s, r, (int64_t)at);
            if (a->kind == PPL_U) continue;
            int32_t *cell = ppl_position(p, a->stage, a->microbatch, a->kind);
            if (*cell >= 0)
                return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, r, (int64_t)at,
                                         "stands twice, first at position %d, want it once", *cell);
            *cell = (int32_t)at;
        }
    return PPL_OK;
}

// Backward after forward, W after I, and not both B and its parts.
static ppl_status check_action(const ppl_schedule *s, const ppl_positions *p, int32_t rank, int64_t at) {
    const ppl_action *a = action_at(s, rank, at);
    const int32_t *pos = ppl_position(p, a->stage, a->microbatch, 0);
    if (a->kind == PPL_F || a->kind == PPL_U) return PPL_OK;
    if (pos[PPL_F] < 0)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at, "its forward %dF%d is missing", a->stage,
                                 a->microbatch);
    if (pos[PPL_F] > at)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at,
                                 "stands before its forward %dF%d at position %d, want it behind", a->stage,
                                 a->microbatch, pos[PPL_F]);
    if (a->kind != PPL_B && pos[PPL_B] >= 0)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at,
                                 "the full backward %dB%d stands at position %d, want either B or I and W", a->stage,
                                 a->microbatch, pos[PPL_B]);
    if (a->kind != PPL_W) return PPL_OK;
    if (pos[PPL_I] < 0)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at, "its input gradient %dI%d is missing", a->stage,
                                 a->microbatch);
    if (pos[PPL_I] > at)
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at,
                                 "stands before its input gradient %dI%d at position %d, want it behind", a->stage,
                                 a->microbatch, pos[PPL_I]);
    return PPL_OK;
}

// Weight gradients are added in microbatch order, or the bits would depend on the schedule. next: the microbatch whose
// W or B is due, by stage.
static ppl_status check_order(const ppl_schedule *s, const ppl_positions *p, int32_t rank, int64_t at, int32_t *next) {
    const ppl_action *a = action_at(s, rank, at);
    if (a->kind != PPL_B && a->kind != PPL_W) return PPL_OK;
    int32_t due = next[a->stage];
    if (a->microbatch == due) {
        next[a->stage]++;
        return PPL_OK;
    }
    PPL_TRY(check_missing(s, a->stage, due, ppl_position(p, a->stage, due, 0)));
    int32_t kind = *ppl_position(p, a->stage, due, PPL_B) >= 0 ? PPL_B : PPL_W;
    return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at,
                             "stands before %d%c%d at position %d, want a stage's weight gradients in microbatch order",
                             a->stage, ppl_kind_letter[kind], due, *ppl_position(p, a->stage, due, kind));
}

// Updates are the engine's; a U that a script names must stand where the engine may place it. done: the position of each
// stage's last other action; updated: the last microbatch it was updated after, from 1.
static ppl_status check_update(const ppl_schedule *s, const ppl_positions *p, int32_t rank, int64_t at,
                               const int32_t *done, int32_t *updated) {
    const ppl_action *a = action_at(s, rank, at);
    if (a->kind != PPL_U) return PPL_OK;
    if (updated[a->stage] && (s->weights == PPL_WEIGHTS_SYNC || updated[a->stage] > a->microbatch))
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at, "stage %d was updated already", a->stage);
    updated[a->stage] = a->microbatch + 1;
    if (s->weights == PPL_WEIGHTS_SYNC) {
        if (done[a->stage] < at) return PPL_OK;
        char text[24];
        ppl_action_print(action_at(s, rank, done[a->stage]), text);
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at,
                                 "stands before %s at position %d, want a stage's update behind all its actions", text,
                                 done[a->stage]);
    }
    const int32_t *pos = ppl_position(p, a->stage, a->microbatch, 0);
    if ((pos[PPL_B] < 0 || pos[PPL_B] > at) && (pos[PPL_W] < 0 || pos[PPL_W] > at))
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, at, "stands before the weight gradient of microbatch %d",
                                 a->microbatch);
    return PPL_OK;
}

// Overlapping actions come in twos: an F and a backward, side by side.
static ppl_status check_overlaps(const ppl_schedule *s, int32_t rank) {
    const ppl_rank_actions *list = &s->rank[rank];
    for (size_t at = 0, end; at < list->count; at = end) {
        end = at + 1;
        int32_t group = list->actions[at].overlap;
        if (!group) continue;
        while (end < list->count && list->actions[end].overlap == group) end++;
        bool forward = list->actions[at].kind == PPL_F, other = list->actions[end - 1].kind == PPL_F;
        bool update = list->actions[at].kind == PPL_U || list->actions[end - 1].kind == PPL_U;
        if (end - at != 2)
            return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, (int64_t)at,
                                     "overlaps with %zu others, want a forward and a backward side by side",
                                     end - at - 1);
        if (forward != other && !update) continue;
        char text[24];
        ppl_action_print(&list->actions[end - 1], text);
        return ppl_schedule_fail(s, PPL_ERR_SCHEDULE, rank, (int64_t)at,
                                 "overlaps with %s, want a forward and a backward side by side", text);
    }
    return PPL_OK;
}

static ppl_status check_lists(const ppl_schedule *s, const ppl_positions *p, int32_t *next, int32_t *done,
                              int32_t *updated) {
    for (int32_t r = 0; r < s->ranks; r++) {
        for (size_t at = 0; at < s->rank[r].count; at++) {
            const ppl_action *a = action_at(s, r, (int64_t)at);
            if (a->kind != PPL_U) done[a->stage] = (int32_t)at;
        }
        for (size_t at = 0; at < s->rank[r].count; at++) {
            PPL_TRY(check_action(s, p, r, (int64_t)at));
            PPL_TRY(check_order(s, p, r, (int64_t)at, next));
            PPL_TRY(check_update(s, p, r, (int64_t)at, done, updated));
        }
        PPL_TRY(check_overlaps(s, r));
    }
    for (int32_t k = 0; k < s->stages; k++)
        for (int32_t m = 0; m < s->microbatches; m++) PPL_TRY(check_missing(s, k, m, ppl_position(p, k, m, 0)));
    return PPL_OK;
}

ppl_status ppl_schedule_positions(const ppl_schedule *s, ppl_positions *out) {
    *out = (ppl_positions){.microbatches = s->microbatches};
    ppl_schedule_unmark();
    PPL_TRY(check_owners(s));
    size_t cells = (size_t)s->stages * (size_t)s->microbatches, actions = 0;
    for (int32_t r = 0; r < s->ranks; r++) actions += s->rank[r].count;
    if (cells > 4 * actions + 4096) return check_sparse(s);
    ppl_positions p = {.microbatches = s->microbatches, .at = ppl_alloc(cells * PPL_U * sizeof *p.at)};
    int32_t *state = ppl_alloc(3 * (size_t)s->stages * sizeof *state); // next, done, updated
    ppl_status st = PPL_ERR_MEMORY;
    if (!p.at || !state) goto fail;
    for (size_t i = 0; i < cells * PPL_U; i++) p.at[i] = -1;
    PPL_GOTO(fill(s, &p));
    PPL_GOTO(check_lists(s, &p, state, state + s->stages, state + 2 * (size_t)s->stages));
    ppl_free(state);
    *out = p;
    return PPL_OK;
fail:
    ppl_free(state);
    ppl_free(p.at);
    return st;
}

ppl_status ppl_schedule_check(const ppl_schedule *s) {
    ppl_positions p;
    PPL_TRY(ppl_schedule_positions(s, &p));
    ppl_free(p.at);
    return PPL_OK;
}
