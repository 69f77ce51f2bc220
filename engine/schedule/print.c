// print.c - actions as text, and where the last fault of this thread stands.
#include "schedule/schedule.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char ppl_kind_letter[PPL_KINDS + 1] = {
    [PPL_F] = 'F', [PPL_B] = 'B', [PPL_I] = 'I', [PPL_W] = 'W', [PPL_U] = 'U',
};

static _Thread_local int32_t mark_rank = -1;
static _Thread_local int64_t mark_at = -1;

void ppl_schedule_mark(int32_t *rank, int64_t *at) {
    *rank = mark_rank;
    *at = mark_at;
}

void ppl_schedule_unmark(void) {
    mark_rank = -1;
    mark_at = -1;
}

void ppl_action_print(const ppl_action *a, char *text) {
    char letter = a->kind >= 0 && a->kind < PPL_KINDS ? ppl_kind_letter[a->kind] : '?';
    snprintf(text, 24, "%d%c%d", a->stage, letter, a->microbatch);
}

ppl_status ppl_schedule_fail(const ppl_schedule *s, ppl_status status, int32_t rank, int64_t at, const char *format,
                             ...) {
    char words[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    mark_rank = rank;
    mark_at = at;
    if (rank < 0) return ppl_fail(status, "%s", words);
    if (at < 0) return ppl_fail(status, "rank %d: %s", rank, words);
    if (!s || rank >= s->ranks || (size_t)at >= s->rank[rank].count)
        return ppl_fail(status, "rank %d, position %lld, %s", rank, (long long)at, words);
    char action[24];
    ppl_action_print(&s->rank[rank].actions[at], action);
    return ppl_fail(status, "rank %d, position %lld, %s: %s", rank, (long long)at, action, words);
}
