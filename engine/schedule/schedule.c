// schedule.c - the handle that scripts fill with actions. Before: Lua (or a CSV file). After: check.c, then plan/.
#include "schedule/schedule.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ppl_status ppl_schedule_open(const char *name, int32_t ranks, int32_t stages, const int32_t *stage_rank,
                             int32_t microbatches, ppl_schedule **out) {
    *out = NULL;
    if (ranks < 1 || ranks > PPL_MAX_RANKS)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: %d ranks, want 1 to %d", name, ranks, PPL_MAX_RANKS);
    if (stages < 1 || stages > PPL_MAX_STAGES)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: %d stages, want 1 to %d", name, stages, PPL_MAX_STAGES);
    if (microbatches < 1 || microbatches > PPL_MAX_MICROBATCHES)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: %d microbatches, want 1 to %d", name, microbatches,
                        PPL_MAX_MICROBATCHES);
    for (int32_t s = 0; s < stages; s++)
        if (stage_rank[s] < 0 || stage_rank[s] >= ranks)
            return ppl_fail(PPL_ERR_ARG, "schedule %s: stage %d is placed on rank %d, want 0 to %d", name, s,
                            stage_rank[s], ranks - 1);
    ppl_schedule *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->ranks = ranks;
    s->stages = stages;
    s->microbatches = microbatches;
    s->stage_rank = ppl_alloc((size_t)stages * sizeof *s->stage_rank);
    s->rank = ppl_alloc((size_t)ranks * sizeof *s->rank);
    if (!s->stage_rank || !s->rank) {
        ppl_schedule_close(s);
        return PPL_ERR_MEMORY;
    }
    memcpy(s->stage_rank, stage_rank, (size_t)stages * sizeof *stage_rank);
    *out = s;
    return PPL_OK;
}

void ppl_schedule_close(ppl_schedule *s) {
    if (!s) return;
    for (int32_t r = 0; s->rank && r < s->ranks; r++) free(s->rank[r].actions);
    ppl_free(s->rank);
    ppl_free(s->stage_rank);
    ppl_free(s);
}

ppl_status ppl_schedule_copy(const ppl_schedule *s, ppl_schedule **out) {
    ppl_schedule *c;
    PPL_TRY(ppl_schedule_open(s->name, s->ranks, s->stages, s->stage_rank, s->microbatches, &c));
    c->weights = s->weights;
    c->max_live = s->max_live;
    for (int32_t r = 0; r < s->ranks; r++) {
        const ppl_rank_actions *from = &s->rank[r];
        ppl_rank_actions *to = &c->rank[r];
        if (!from->count) continue;
        ppl_status st = ppl_grow((void **)&to->actions, &to->room, from->count, sizeof *to->actions);
        if (st != PPL_OK) {
            ppl_schedule_close(c);
            *out = NULL;
            return st;
        }
        memcpy(to->actions, from->actions, from->count * sizeof *to->actions);
        to->count = from->count;
    }
    *out = c;
    return PPL_OK;
}

static ppl_status outside(int32_t rank, size_t at, const ppl_action *a, const char *what, int32_t is, int32_t most) {
    char text[24];
    ppl_action_print(a, text);
    return ppl_schedule_fail(NULL, PPL_ERR_ARG, rank, (int64_t)at, "%s: %s %d, want 0 to %d", text, what, is, most);
}

ppl_status ppl_schedule_add(ppl_schedule *s, int32_t rank, int32_t kind, int32_t stage, int32_t microbatch,
                            int32_t overlap) {
    if (rank < 0 || rank >= s->ranks)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: an action for rank %d, want 0 to %d", s->name, rank, s->ranks - 1);
    ppl_rank_actions *list = &s->rank[rank];
    ppl_action a = {.stage = stage, .microbatch = microbatch, .kind = kind, .overlap = overlap};
    if (kind < 0 || kind >= PPL_KINDS) return outside(rank, list->count, &a, "kind", kind, PPL_KINDS - 1);
    if (stage < 0 || stage >= s->stages) return outside(rank, list->count, &a, "stage", stage, s->stages - 1);
    if (microbatch < 0 || microbatch >= s->microbatches)
        return outside(rank, list->count, &a, "microbatch", microbatch, s->microbatches - 1);
    if (overlap < 0) return outside(rank, list->count, &a, "overlap", overlap, INT32_MAX);
    if (list->count >= INT32_MAX)
        return ppl_schedule_fail(NULL, PPL_ERR_ARG, rank, -1, "more than %d actions", INT32_MAX);
    if (list->count == list->room)
        PPL_TRY(ppl_grow((void **)&list->actions, &list->room, list->count + 1, sizeof *list->actions));
    list->actions[list->count++] = a;
    return PPL_OK;
}

const char *ppl_weights_name(int32_t weights) {
    return weights == PPL_WEIGHTS_STASH ? "stash" : weights == PPL_WEIGHTS_2BW ? "2bw" : "sync";
}
void ppl_schedule_set_weights(ppl_schedule *s, int32_t weights) {
    s->weights = weights;
}
void ppl_schedule_set_max_live(ppl_schedule *s, int32_t max_live) {
    s->max_live = max_live;
}
const char *ppl_schedule_name(const ppl_schedule *s) {
    return s->name;
}
int32_t ppl_schedule_ranks(const ppl_schedule *s) {
    return s->ranks;
}
int32_t ppl_schedule_stages(const ppl_schedule *s) {
    return s->stages;
}
int32_t ppl_schedule_microbatches(const ppl_schedule *s) {
    return s->microbatches;
}
int32_t ppl_schedule_stage_rank(const ppl_schedule *s, int32_t stage) {
    return stage < 0 || stage >= s->stages ? -1 : s->stage_rank[stage];
}
int64_t ppl_schedule_length(const ppl_schedule *s, int32_t rank) {
    return rank < 0 || rank >= s->ranks ? 0 : (int64_t)s->rank[rank].count;
}

ppl_status ppl_schedule_action(const ppl_schedule *s, int32_t rank, int64_t at, ppl_action *out) {
    if (rank < 0 || rank >= s->ranks)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: rank %d, want 0 to %d", s->name, rank, s->ranks - 1);
    if (at < 0 || (size_t)at >= s->rank[rank].count)
        return ppl_fail(PPL_ERR_ARG, "schedule %s: rank %d, position %lld, want 0 to %lld", s->name, rank,
                        (long long)at, (long long)s->rank[rank].count - 1);
    *out = s->rank[rank].actions[at];
    return PPL_OK;
}
