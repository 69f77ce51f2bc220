// csv_messages.c - sends, receives and sharding words of a CSV file held against its compute order. Before: csv.c has read
// the file. After: the words are dropped, since sends and receives are the engine's.
#include "schedule/csv.h"
#include <stdlib.h>

// What has been seen of a (stage, microbatch) so far.
enum { MADE_F = 1, MADE_B = 2, SENT_F = 4, GOT_F = 8, SENT_B = 16, GOT_B = 32 };

typedef struct message {
    int32_t from, to;          // ranks
    size_t order;              // among the words of the rank that sends, or receives
    int32_t stage, microbatch; // that made it
    bool gradient;
    const ppl_csv_word *word;
} message;

typedef struct judge {
    const ppl_csv *csv;
    const ppl_schedule *s;
    uint8_t *seen;  // [stages][microbatches]
    uint8_t *shard; // [stages]: 0 no such word so far, 1 sharded, 2 whole
    int32_t *left;  // [stages]: weight gradients to come
    message *sent, *got;
    size_t n_sent, n_got;
} judge;

static uint8_t *seen(const judge *j, const ppl_word *w) {
    return &j->seen[(size_t)w->stage * (size_t)j->s->microbatches + (size_t)w->microbatch];
}

// The rank of the stage next to w's in the direction of +1 or -1; -1: there is none, or it is on w's own rank.
static int32_t neighbour(const judge *j, int32_t stage, int32_t direction) {
    int32_t other = stage + direction;
    if (other < 0 || other >= j->s->stages) return -1;
    int32_t rank = j->s->stage_rank[other];
    return rank == j->s->stage_rank[stage] ? -1 : rank;
}

static ppl_status judge_message(judge *j, const ppl_csv_word *cw) {
    const ppl_word *w = &cw->word;
    bool sends = w->kind == PPL_WORD_SEND_F || w->kind == PPL_WORD_SEND_B;
    bool gradient = w->kind == PPL_WORD_SEND_B || w->kind == PPL_WORD_RECV_B;
    int32_t direction = sends == gradient ? -1 : 1; // SEND_F and RECV_B look up, RECV_F and SEND_B down
    int32_t other = neighbour(j, w->stage, direction), stage = w->stage + direction;
    if (stage < 0 || stage >= j->s->stages)
        return ppl_csv_fail(j->csv, cw, "there is no stage %d to %s", stage, sends ? "send to" : "receive from");
    if (other < 0)
        return ppl_csv_fail(j->csv, cw, "stages %d and %d are both on rank %d, want no messages between them", w->stage,
                            stage, cw->row);
    uint8_t *cell = seen(j, w);
    int bit = sends ? (gradient ? SENT_B : SENT_F) : (gradient ? GOT_B : GOT_F);
    if (*cell & bit) return ppl_csv_fail(j->csv, cw, "stands twice, want it once");
    int computed = gradient ? MADE_B : MADE_F;
    if (sends && !(*cell & computed))
        return ppl_csv_fail(j->csv, cw, "stands before the action that makes what it sends, want it behind");
    if (!sends && (*cell & computed))
        return ppl_csv_fail(j->csv, cw, "stands behind the action that needs what it receives, want it before");
    *cell |= (uint8_t)bit;
    message m = {.from = sends ? cw->row : other,
                 .to = sends ? other : cw->row,
                 .stage = sends ? w->stage : stage,
                 .microbatch = w->microbatch,
                 .gradient = gradient,
                 .word = cw};
    m.order = sends ? j->n_sent : j->n_got;
    if (sends) j->sent[j->n_sent++] = m;
    else j->got[j->n_got++] = m;
    return PPL_OK;
}

static ppl_status judge_compute(judge *j, const ppl_csv_word *cw, bool messages) {
    const ppl_word *w = &cw->word;
    uint8_t *cell = seen(j, w);
    if (j->shard[w->stage] == 1)
        return ppl_csv_fail(j->csv, cw, "stage %d is sharded here, want an UNSHARD before", w->stage);
    if (w->kind == PPL_WORD_F) {
        if (messages && neighbour(j, w->stage, -1) >= 0 && !(*cell & GOT_F))
            return ppl_csv_fail(j->csv, cw, "%dRECV_F%d does not stand before it, want what it needs received",
                                w->stage, w->microbatch);
        *cell |= MADE_F;
    } else if (w->kind == PPL_WORD_I || w->kind == PPL_WORD_B) {
        if (messages && neighbour(j, w->stage, 1) >= 0 && !(*cell & GOT_B))
            return ppl_csv_fail(j->csv, cw, "%dRECV_B%d does not stand before it, want what it needs received",
                                w->stage, w->microbatch);
        *cell |= MADE_B;
    }
    if (w->kind == PPL_WORD_B || w->kind == PPL_WORD_W) j->left[w->stage]--;
    return PPL_OK;
}

static ppl_status judge_shard(judge *j, const ppl_csv_word *cw) {
    const ppl_word *w = &cw->word;
    if (w->kind == PPL_WORD_REDUCE_GRAD) {
        if (j->left[w->stage])
            return ppl_csv_fail(j->csv, cw, "%d weight gradient%s of the stage come%s behind it, want none",
                                j->left[w->stage], j->left[w->stage] == 1 ? "" : "s",
                                j->left[w->stage] == 1 ? "s" : "");
        return PPL_OK;
    }
    uint8_t state = w->kind == PPL_WORD_UNSHARD ? 2 : 1;
    if (j->shard[w->stage] == state || (state == 1 && !j->shard[w->stage]))
        return ppl_csv_fail(j->csv, cw, "stage %d is %s already, want no second one", w->stage,
                            state == 2 ? "unsharded" : "sharded");
    j->shard[w->stage] = state;
    return PPL_OK;
}

static ppl_status judge_word(judge *j, const ppl_csv_word *cw, bool messages) {
    const ppl_word *w = &cw->word;
    if (w->kind < PPL_KINDS) return judge_compute(j, cw, messages);
    if (w->stage >= j->s->stages || j->s->stage_rank[w->stage] != cw->row)
        return ppl_csv_fail(j->csv, cw, "stage %d is not on rank %d, want messages of its own stages", w->stage,
                            cw->row);
    if (w->microbatch >= j->s->microbatches)
        return ppl_csv_fail(j->csv, cw, "microbatch %d, want 0 to %d", w->microbatch, j->s->microbatches - 1);
    return w->microbatch < 0 ? judge_shard(j, cw) : judge_message(j, cw);
}

// Receives that are missing were named with the action that needs them; sends are counted at the end.
static ppl_status judge_sends(const judge *j) {
    const ppl_schedule *s = j->s;
    for (int32_t k = 0; k < s->stages; k++)
        for (int32_t direction = -1; direction <= 1; direction += 2) {
            int32_t other = neighbour(j, k, direction);
            if (other < 0) continue;
            for (int32_t m = 0; m < s->microbatches; m++) {
                ppl_word w = {.stage = k, .kind = direction > 0 ? PPL_WORD_SEND_F : PPL_WORD_SEND_B, .microbatch = m};
                if (*seen(j, &w) & (direction > 0 ? SENT_F : SENT_B)) continue;
                char text[48];
                ppl_word_print(&w, text);
                ppl_schedule_fail(NULL, PPL_ERR_SCHEDULE, s->stage_rank[k], -1,
                                  "%s is missing, want what the next rank reads sent", text);
                return ppl_prefix(PPL_ERR_SCHEDULE, "%s:%d: ", j->csv->path, s->stage_rank[k] + 1);
            }
        }
    return PPL_OK;
}

static int by_ranks(const void *a, const void *b) {
    const message *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

// Messages between two ranks have no names there: the n-th sent is the n-th received.
static ppl_status judge_pairs(judge *j) {
    qsort(j->sent, j->n_sent, sizeof *j->sent, by_ranks);
    qsort(j->got, j->n_got, sizeof *j->got, by_ranks);
    for (size_t i = 0; i < j->n_got; i++) { // as many as are sent: both were found complete
        const message *a = &j->sent[i], *b = &j->got[i];
        if (a->stage == b->stage && a->microbatch == b->microbatch && a->gradient == b->gradient) continue;
        char text[48];
        ppl_word_print(&a->word->word, text);
        return ppl_csv_fail(j->csv, b->word,
                            "rank %d sends %s in its place (cell %d there): crossed, want one order on both sides",
                            b->from, text, a->word->cell);
    }
    return PPL_OK;
}

ppl_status ppl_csv_check_messages(const ppl_csv *c, const ppl_schedule *s) {
    size_t cells = (size_t)s->stages * (size_t)s->microbatches, communicates = 0;
    bool messages = false;
    for (size_t i = 0; i < c->count; i++) {
        communicates += c->words[i].word.kind >= PPL_KINDS;
        messages |= c->words[i].word.kind >= PPL_KINDS && c->words[i].word.microbatch >= 0;
    }
    if (!communicates) return PPL_OK;
    judge j = {.csv = c, .s = s};
    j.seen = ppl_alloc(cells);
    j.shard = ppl_alloc((size_t)s->stages);
    j.left = ppl_alloc((size_t)s->stages * sizeof *j.left);
    j.sent = ppl_alloc(communicates * sizeof *j.sent);
    j.got = ppl_alloc(communicates * sizeof *j.got);
    ppl_status st = j.seen && j.shard && j.left && j.sent && j.got ? PPL_OK : PPL_ERR_MEMORY;
    for (int32_t k = 0; st == PPL_OK && k < s->stages; k++) j.left[k] = s->microbatches;
    for (size_t i = 0; st == PPL_OK && i < c->count; i++) st = judge_word(&j, &c->words[i], messages);
    if (st == PPL_OK && messages) st = judge_sends(&j);
    if (st == PPL_OK) st = judge_pairs(&j);
    ppl_free(j.seen);
    ppl_free(j.shard);
    ppl_free(j.left);
    ppl_free(j.sent);
    ppl_free(j.got);
    return st;
}
