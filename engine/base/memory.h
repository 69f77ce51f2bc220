// memory.h - arenas and zeroed allocation. One arena per lifetime; with -DPPL_ARENA_MALLOC every block is a malloc of
// its own, so that checkers see overruns.
#ifndef PPL_BASE_MEMORY_H
#define PPL_BASE_MEMORY_H
#include "types.h"

typedef struct ppl_arena {
    struct ppl_arena_block *blocks;
    size_t total; // bytes handed out
} ppl_arena;

// Zeroed, 64-byte aligned; NULL when the machine has none (the error text is set: pass PPL_ERR_MEMORY on).
void *ppl_arena_get(ppl_arena *a, size_t bytes);
char *ppl_arena_text(ppl_arena *a, const char *text); // a copy
void ppl_arena_clear(ppl_arena *a);                   // frees all; the arena may be used again

// Zeroed, 64-byte aligned, freed with ppl_free; NULL sets the error text.
void *ppl_alloc(size_t bytes);
void ppl_free(void *p);

// Counts a block of malloc's that ppl_alloc did not give among what the engine holds; or, before it is freed, no longer.
void ppl_memory_count(void *p, bool taken);

// Grows *array (element size bytes) to hold at least need elements, doubling. *room is in elements; plain malloc memory.
ppl_status ppl_grow(void **array, size_t *room, size_t need, size_t element);

static inline size_t ppl_align(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

#endif
