// slots.h - which activation slot a microbatch has between its F and the end of its W, and which pending slot between its I
// and the end of its W: always the lowest free one of the stage.
#ifndef PPL_PLAN_SLOTS_H
#define PPL_PLAN_SLOTS_H
#include "base/memory.h"
#include "base/status.h"

typedef struct ppl_slot_set { // of one stage
    uint64_t *taken;          // a bit a slot
    int32_t hint;             // no word before it has a free bit
    int32_t used;             // slots ever taken
    int16_t *of;              // [microbatches]: -1 none
} ppl_slot_set;

typedef struct ppl_slots {
    ppl_slot_set *activation, *pending; // [stages]
    int32_t live, peak;                 // activations of the rank that is being looked at
} ppl_slots;

ppl_status ppl_slots_init(ppl_slots *s, ppl_arena *arena, int32_t stages, int32_t microbatches);
int32_t ppl_slots_take(ppl_slots *s, int32_t stage, int32_t microbatch);         // -1: more than slots can be numbered
int32_t ppl_slots_take_pending(ppl_slots *s, int32_t stage, int32_t microbatch); // likewise
void ppl_slots_give(ppl_slots *s, int32_t stage, int32_t microbatch);            // both
static inline int32_t ppl_slots_slot(const ppl_slots *s, int32_t stage, int32_t mb) {
    return s->activation[stage].of[mb];
}
static inline int32_t ppl_slots_pending(const ppl_slots *s, int32_t stage, int32_t mb) {
    return s->pending[stage].of[mb];
}

#endif
