// schedule.h - the actions of each rank, as a script said them. After: plan.h.
#ifndef PPL_SCHEDULE_SCHEDULE_H
#define PPL_SCHEDULE_SCHEDULE_H
#include "base/memory.h"
#include "base/status.h"

typedef struct ppl_rank_actions {
    ppl_action *actions;
    size_t count, room;
} ppl_rank_actions;

struct ppl_schedule {
    char name[PPL_NAME_BYTES];
    int32_t ranks, stages, microbatches, weights, max_live;
    int32_t *stage_rank; // [stages]
    ppl_rank_actions *rank; // [ranks]
};

// Sets what ppl_schedule_mark gives and returns ppl_fail's status: "rank 1, position 7, 2B3: ..." stands before the words.
ppl_status ppl_schedule_fail(const ppl_schedule *s, ppl_status status, int32_t rank, int64_t at, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
extern const char ppl_kind_letter[PPL_KINDS + 1]; // "FBIWU"

#endif
