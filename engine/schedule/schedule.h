// schedule.h - the actions of each rank, as a script said them. After: plan.h.
#ifndef PPL_SCHEDULE_SCHEDULE_H
#define PPL_SCHEDULE_SCHEDULE_H
#include "base/memory.h"
#include "base/status.h"
#include "ppl.h"

enum { // what ppl_schedule_open accepts; ids fit the fields of a task and tables of (stage, microbatch) fit a size_t
    PPL_MAX_RANKS = 1 << 16,
    PPL_MAX_STAGES = 1 << 20,
    PPL_MAX_MICROBATCHES = 1 << 20
};

typedef struct ppl_rank_actions {
    ppl_action *actions;
    size_t count, room;
} ppl_rank_actions;

struct ppl_schedule {
    char name[PPL_NAME_BYTES];
    int32_t ranks, stages, microbatches, weights, max_live;
    int32_t *stage_rank;    // [stages]
    ppl_rank_actions *rank; // [ranks]
};

// Sets what ppl_schedule_mark gives and returns ppl_fail's status: "rank 1, position 7, 2B3: ..." stands before the words.
// at -1: no position, "rank 1: ..."; rank -1: no rank either.
ppl_status ppl_schedule_fail(const ppl_schedule *s, ppl_status status, int32_t rank, int64_t at, const char *format,
                             ...) __attribute__((format(printf, 5, 6)));
void ppl_schedule_unmark(void); // a check, a reading or a build begins: ppl_schedule_mark names nothing
extern const char ppl_kind_letter[PPL_KINDS + 1]; // "FBIWU"

const char *ppl_weights_name(int32_t weights); // "sync", "stash", "2bw"
ppl_status ppl_schedule_copy(const ppl_schedule *s, ppl_schedule **out);

// Where each action stands: position in its owner's list, -1 where there is none. Valid after a passed check.
typedef struct ppl_positions {
    int32_t microbatches;
    int32_t *at; // [stages][microbatches][PPL_U]: F, B, I, W
} ppl_positions;
static inline int32_t *ppl_position(const ppl_positions *p, int32_t stage, int32_t microbatch, int32_t kind) {
    return p->at + ((size_t)stage * (size_t)p->microbatches + (size_t)microbatch) * PPL_U + kind;
}
// ppl_schedule_check, and the table it made (ppl_free(out->at)).
ppl_status ppl_schedule_positions(const ppl_schedule *s, ppl_positions *out);

// A word of the action language: the engine's own kinds and those of PyTorch's CSV files.
typedef enum ppl_word_kind {
    PPL_WORD_F = 0,
    PPL_WORD_B,
    PPL_WORD_I,
    PPL_WORD_W,
    PPL_WORD_U,  // as ppl_kind
    PPL_WORD_BW, // the full backward in old files
    PPL_WORD_SEND_F,
    PPL_WORD_RECV_F,
    PPL_WORD_SEND_B,
    PPL_WORD_RECV_B,
    PPL_WORD_UNSHARD,
    PPL_WORD_RESHARD,
    PPL_WORD_REDUCE_GRAD, // carry no microbatch
    PPL_WORD_KINDS
} ppl_word_kind;
typedef struct ppl_word {
    int32_t stage, kind, microbatch; // ppl_word_kind; microbatch -1 where the kind has none
} ppl_word;
// "2F5", "1SEND_F3", "0UNSHARD": the whole text and nothing else. The error does not say where the text stands.
ppl_status ppl_word_parse(const char *text, size_t length, ppl_word *out);
void ppl_word_print(const ppl_word *w, char text[48]);
ppl_status ppl_action_parse(const char *text, ppl_action *out); // "2F5": F, B, I, W or U

#endif
