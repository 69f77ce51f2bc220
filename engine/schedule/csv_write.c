// csv_write.c - a schedule as the CSV text that PyTorch's pipelining reads (csv.c has the grammar). Before: a checked schedule,
// for messages a proven one. After: a file.
//
// Messages between two ranks have no names there: the n-th sent is the n-th received. The lists are therefore walked at once,
// and when an action has made a value its send goes behind it and the receive to the end of what the reader's row has so far.
#include "base/json.h"
#include "schedule/csv.h"
#include <stdio.h>
#include <stdlib.h>

enum { GOT_F = 1, GOT_B = 2 }; // of a (stage, microbatch): what it reads of other ranks stands in its row

typedef struct writer {
    const ppl_schedule *s;
    bool messages;
    ppl_text *row; // [ranks]
    size_t *at;    // [ranks]: the next action
    uint8_t *has;  // [stages][microbatches]
} writer;

static void put(writer *w, int32_t rank, const char *cell) {
    ppl_text_add(&w->row[rank], "%s%s", w->row[rank].length ? "," : "", cell);
}

static uint8_t *has(const writer *w, int32_t stage, int32_t microbatch) {
    return &w->has[(size_t)stage * (size_t)w->s->microbatches + (size_t)microbatch];
}

// The rank of the stage next to one's in the direction of +1 or -1; -1: there is none, or it is on the same rank.
static int32_t neighbour(const writer *w, int32_t stage, int32_t direction) {
    int32_t other = stage + direction;
    if (other < 0 || other >= w->s->stages || w->s->stage_rank[other] == w->s->stage_rank[stage]) return -1;
    return w->s->stage_rank[other];
}

static bool makes_gradient(const ppl_action *a) {
    return a->kind == PPL_I || a->kind == PPL_B;
}

static bool is_ready(const writer *w, const ppl_action *a) {
    if (!w->messages) return true;
    if (a->kind == PPL_F) return neighbour(w, a->stage, -1) < 0 || *has(w, a->stage, a->microbatch) & GOT_F;
    return !makes_gradient(a) || neighbour(w, a->stage, 1) < 0 || *has(w, a->stage, a->microbatch) & GOT_B;
}

// The send of what an action made, and its receive in the reader's row.
static void put_messages(writer *w, int32_t rank, const ppl_action *a) {
    if (!w->messages || (a->kind != PPL_F && !makes_gradient(a))) return;
    int32_t direction = a->kind == PPL_F ? 1 : -1, other = neighbour(w, a->stage, direction);
    if (other < 0) return;
    ppl_word send = {a->stage, a->kind == PPL_F ? PPL_WORD_SEND_F : PPL_WORD_SEND_B, a->microbatch};
    ppl_word receive = {a->stage + direction, a->kind == PPL_F ? PPL_WORD_RECV_F : PPL_WORD_RECV_B, a->microbatch};
    char text[48];
    ppl_word_print(&send, text);
    put(w, rank, text);
    ppl_word_print(&receive, text);
    put(w, other, text);
    *has(w, receive.stage, receive.microbatch) |= a->kind == PPL_F ? GOT_F : GOT_B;
}

// The rank's next cell, if all it reads has been received: an action, or two that overlap.
static bool put_next(writer *w, int32_t rank) {
    const ppl_rank_actions *list = &w->s->rank[rank];
    while (w->at[rank] < list->count && list->actions[w->at[rank]].kind == PPL_U) w->at[rank]++; // the form has none
    size_t left = list->count - w->at[rank];
    if (!left) return false;
    const ppl_action *a = &list->actions[w->at[rank]];
    const ppl_action *b = left > 1 && a->overlap && a[1].overlap == a->overlap ? a + 1 : NULL;
    char one[24], two[24], cell[64];
    if (!is_ready(w, a) || (b && !is_ready(w, b))) return false;
    ppl_action_print(a, one);
    if (b) {
        ppl_action_print(b, two);
        snprintf(cell, sizeof cell, "(%s;%s)OVERLAP_F_B", one, two);
    }
    put(w, rank, b ? cell : one);
    put_messages(w, rank, a);
    if (b) put_messages(w, rank, b);
    w->at[rank] += b ? 2 : 1;
    return true;
}

// In a proven schedule a walk that ends early has met an overlap of which one part waits for the other: the first may go on,
// the second not.
static ppl_status check_ends(const writer *w) {
    for (int32_t r = 0; r < w->s->ranks; r++) {
        const ppl_rank_actions *list = &w->s->rank[r];
        const ppl_action *a = &list->actions[w->at[r]];
        if (w->at[r] >= list->count || !is_ready(w, a)) continue;
        char text[24];
        ppl_action_print(a + 1, text);
        return ppl_schedule_fail(
            w->s, PPL_ERR_SCHEDULE, r, (int64_t)w->at[r],
            "overlaps with %s, which waits for it: the CSV form with messages cannot say that, want no "
            "overlap of actions that wait for one another",
            text);
    }
    for (int32_t r = 0; r < w->s->ranks; r++)
        if (w->at[r] < w->s->rank[r].count)
            return ppl_schedule_fail(w->s, PPL_ERR_SCHEDULE, r, (int64_t)w->at[r],
                                     "is never reached, want a schedule that is proven");
    return PPL_OK;
}

static ppl_status write_rows(writer *w, const char *path) {
    for (bool moves = true; moves;) {
        moves = false;
        for (int32_t r = 0; r < w->s->ranks; r++) moves |= put_next(w, r);
    }
    PPL_TRY(check_ends(w));
    ppl_text file = {0};
    for (int32_t r = 0; r < w->s->ranks; r++) {
        file.failed |= w->row[r].failed;
        ppl_text_add(&file, "%s\n", w->row[r].data ? w->row[r].data : "");
    }
    return ppl_text_write(&file, path);
}

ppl_status ppl_csv_write(const ppl_schedule *s, bool messages, const char *path) {
    ppl_schedule_unmark();
    if (s->weights != PPL_WEIGHTS_SYNC)
        return ppl_fail(PPL_ERR_SCHEDULE, "schedule %s: weights are '%s', which the CSV form cannot say, want 'sync'",
                        s->name, ppl_weights_name(s->weights));
    writer w = {.s = s, .messages = messages};
    w.row = ppl_alloc((size_t)s->ranks * sizeof *w.row);
    w.at = ppl_alloc((size_t)s->ranks * sizeof *w.at);
    w.has = ppl_alloc(messages ? (size_t)s->stages * (size_t)s->microbatches : 1);
    ppl_status st = w.row && w.at && w.has ? write_rows(&w, path) : PPL_ERR_MEMORY;
    for (int32_t r = 0; w.row && r < s->ranks; r++) ppl_text_clear(&w.row[r]);
    ppl_free(w.row);
    ppl_free(w.at);
    ppl_free(w.has);
    return st;
}

ppl_status ppl_schedule_write(const ppl_schedule *s, const char *path) {
    return ppl_csv_write(s, false, path);
}
