// work.h - offsets in a rank's workspace for values that live inside one program: those alive at the same time lie apart,
// the others share. Used by layout.c.
#ifndef PPL_PLAN_WORK_H
#define PPL_PLAN_WORK_H
#include "plan/plan.h"

typedef struct ppl_work_block {
    size_t offset, bytes;
    ppl_value value;
} ppl_work_block;

typedef struct ppl_work {
    const ppl_graph *graph;
    const ppl_value *root; // [graph values]
    ppl_place *place;      // of the stage, set for each: WORK places get their offsets
    int32_t *last;         // [graph values]: the last node of the program, by its position, that touches it
    ppl_work_block *live;  // in order of offset
    int32_t count;
    size_t bytes; // the most that was alive at once
} ppl_work;

ppl_status ppl_work_init(ppl_work *w, ppl_arena *scratch, const ppl_graph *graph, const ppl_value *root);
// Values that are there before the program begins; those whose region is not WORK are passed over.
void ppl_work_enter(ppl_work *w, ppl_value value);
// Places what the program makes; kept (-1 none) is alive to its end. Nothing is alive behind it.
void ppl_work_pack(ppl_work *w, const ppl_program *program, ppl_value kept);

#endif
