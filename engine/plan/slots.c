// slots.c - the lowest free slot of a stage, in constant time for the numbers that occur.
#include "plan/slots.h"
#include "plan/build.h"

static ppl_status init_sets(ppl_slot_set **out, ppl_arena *arena, int32_t stages, int32_t microbatches) {
    ppl_slot_set *set = ppl_arena_get(arena, (size_t)stages * sizeof *set);
    int32_t most = microbatches < PPL_MAX_SLOTS ? microbatches : PPL_MAX_SLOTS;
    if (!set) return PPL_ERR_MEMORY;
    for (int32_t k = 0; k < stages; k++) {
        set[k].taken = ppl_arena_get(arena, ((size_t)most / 64 + 1) * sizeof *set[k].taken);
        set[k].of = ppl_arena_get(arena, (size_t)microbatches * sizeof *set[k].of);
        if (!set[k].taken || !set[k].of) return PPL_ERR_MEMORY;
        for (int32_t m = 0; m < microbatches; m++) set[k].of[m] = -1;
    }
    *out = set;
    return PPL_OK;
}

ppl_status ppl_slots_init(ppl_slots *s, ppl_arena *arena, int32_t stages, int32_t microbatches) {
    *s = (ppl_slots){0};
    PPL_TRY(init_sets(&s->activation, arena, stages, microbatches));
    return init_sets(&s->pending, arena, stages, microbatches);
}

static int32_t take(ppl_slot_set *set, int32_t microbatch) {
    while (set->taken[set->hint] == UINT64_MAX) set->hint++; // ends: at most `most` bits are taken when one more is
    int32_t slot = set->hint * 64 + __builtin_ctzll(~set->taken[set->hint]);
    if (slot >= PPL_MAX_SLOTS) return -1;
    set->taken[set->hint] |= UINT64_C(1) << slot % 64;
    set->of[microbatch] = (int16_t)slot;
    if (slot >= set->used) set->used = slot + 1;
    return slot;
}

static void give(ppl_slot_set *set, int32_t microbatch) {
    int32_t slot = set->of[microbatch];
    if (slot < 0) return;
    set->of[microbatch] = -1;
    set->taken[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (slot / 64 < set->hint) set->hint = slot / 64;
}

int32_t ppl_slots_take(ppl_slots *s, int32_t stage, int32_t microbatch) {
    int32_t slot = take(&s->activation[stage], microbatch);
    if (slot >= 0 && ++s->live > s->peak) s->peak = s->live;
    return slot;
}

int32_t ppl_slots_take_pending(ppl_slots *s, int32_t stage, int32_t microbatch) {
    return take(&s->pending[stage], microbatch);
}

void ppl_slots_give(ppl_slots *s, int32_t stage, int32_t microbatch) {
    give(&s->activation[stage], microbatch);
    give(&s->pending[stage], microbatch);
    s->live--;
}
