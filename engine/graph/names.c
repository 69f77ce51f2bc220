// names.c - a hash table from (kind, name) to id. graph.c asks it before it adds anything.
#include "graph/names.h"
#include "base/memory.h"
#include "base/random.h"
#include <string.h>

struct ppl_name_slot {
    const char *name; // NULL: free
    uint64_t key;
    int32_t kind, id;
};

static uint64_t key_of(ppl_named kind, const char *name) {
    return ppl_name_key(name) + (uint64_t)kind;
}

// The slot of a name, or the free one where it would stand.
static struct ppl_name_slot *slot_of(const ppl_names *n, ppl_named kind, const char *name, uint64_t key) {
    for (size_t at = key & (n->room - 1);; at = (at + 1) & (n->room - 1)) {
        struct ppl_name_slot *s = &n->slots[at];
        if (!s->name || (s->key == key && s->kind == (int32_t)kind && strcmp(s->name, name) == 0)) return s;
    }
}

int32_t ppl_names_find(const ppl_names *n, ppl_named kind, const char *name) {
    if (!n->room) return -1;
    const struct ppl_name_slot *s = slot_of(n, kind, name, key_of(kind, name));
    return s->name ? s->id : -1;
}

ppl_status ppl_names_reserve(ppl_names *n) {
    if ((n->count + 1) * 2 <= n->room) return PPL_OK;
    ppl_names wide = {.room = n->room ? n->room * 2 : 64, .count = n->count};
    wide.slots = ppl_alloc(wide.room * sizeof *wide.slots);
    if (!wide.slots) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < n->room; i++) {
        const struct ppl_name_slot *s = &n->slots[i];
        if (s->name) *slot_of(&wide, (ppl_named)s->kind, s->name, s->key) = *s;
    }
    ppl_free(n->slots);
    *n = wide;
    return PPL_OK;
}

void ppl_names_add(ppl_names *n, ppl_named kind, const char *name, int32_t id) {
    uint64_t key = key_of(kind, name);
    *slot_of(n, kind, name, key) = (struct ppl_name_slot){name, key, (int32_t)kind, id};
    n->count++;
}

void ppl_names_clear(ppl_names *n) {
    ppl_free(n->slots);
    *n = (ppl_names){0};
}
