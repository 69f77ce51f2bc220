// memory.c - arenas and aligned allocation.
#include "base/memory.h"
#include "ppl.h"
#include "base/status.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, BLOCK_BYTES = 64 * 1024 };

struct ppl_arena_block {
    struct ppl_arena_block *next;
    size_t used, room; // bytes behind this header
    size_t pad[5];     // the header takes one aligned unit
};
_Static_assert(sizeof(struct ppl_arena_block) == ALIGN, "data behind the header stays aligned");

static atomic_llong held; // bytes

int64_t ppl_memory_held(void) {
    return atomic_load_explicit(&held, memory_order_relaxed);
}

void ppl_memory_count(void *p, bool taken) {
    if (!p) return;
    long long bytes = (long long)malloc_usable_size(p);
    atomic_fetch_add_explicit(&held, taken ? bytes : -bytes, memory_order_relaxed);
}

void *ppl_alloc(size_t bytes) {
    size_t room = ppl_align(bytes ? bytes : 1, ALIGN);
    void *p = room < bytes ? NULL : aligned_alloc(ALIGN, room);
    if (!p) {
        ppl_fail(PPL_ERR_MEMORY, "memory: %zu bytes cannot be had", bytes);
        return NULL;
    }
    memset(p, 0, room);
    ppl_memory_count(p, true);
    return p;
}

void ppl_free(void *p) {
    ppl_memory_count(p, false);
    free(p);
}

void *ppl_arena_get(ppl_arena *a, size_t bytes) {
    size_t need = ppl_align(bytes ? bytes : 1, ALIGN);
    if (need < bytes) {
        ppl_fail(PPL_ERR_MEMORY, "memory: %zu bytes cannot be had", bytes);
        return NULL;
    }
    struct ppl_arena_block *b = a->blocks;
    if (!b || b->room - b->used < need) {
#ifdef PPL_ARENA_MALLOC
        size_t room = need;
#else
        size_t room = need > BLOCK_BYTES ? need : BLOCK_BYTES;
#endif
        b = ppl_alloc(sizeof *b + room);
        if (!b) return NULL;
        b->room = room;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = (char *)(b + 1) + b->used;
    b->used += need;
    a->total += need;
    return p;
}

char *ppl_arena_text(ppl_arena *a, const char *text) {
    size_t n = strlen(text) + 1;
    char *p = ppl_arena_get(a, n);
    if (p) memcpy(p, text, n);
    return p;
}

void ppl_arena_clear(ppl_arena *a) {
    for (struct ppl_arena_block *b = a->blocks; b;) {
        struct ppl_arena_block *next = b->next;
        ppl_free(b);
        b = next;
    }
    *a = (ppl_arena){0};
}

ppl_status ppl_grow(void **array, size_t *room, size_t need, size_t element) {
    if (need <= *room) return PPL_OK;
    size_t to = *room ? *room : 16;
    while (to < need) {
        if (to > SIZE_MAX / 2 / element) return ppl_fail(PPL_ERR_MEMORY, "memory: %zu elements cannot be had", need);
        to *= 2;
    }
    void *p = realloc(*array, to * element);
    if (!p) return ppl_fail(PPL_ERR_MEMORY, "memory: %zu bytes cannot be had", to * element);
    *array = p;
    *room = to;
    return PPL_OK;
}
