// names.h - finds inputs, parameters, nodes and layers of a graph by name. Internal to graph.c.
#ifndef PPL_GRAPH_NAMES_H
#define PPL_GRAPH_NAMES_H
#include "base/status.h"

typedef enum ppl_named { PPL_NAMED_INPUT = 0, PPL_NAMED_PARAM, PPL_NAMED_NODE, PPL_NAMED_LAYER } ppl_named;

typedef struct ppl_names { // open addressing, at most half full
    struct ppl_name_slot *slots;
    size_t room, count;
} ppl_names;

int32_t ppl_names_find(const ppl_names *n, ppl_named kind, const char *name);   // the id; -1 none
ppl_status ppl_names_reserve(ppl_names *n);                                     // makes the next add possible
void ppl_names_add(ppl_names *n, ppl_named kind, const char *name, int32_t id); // borrows the name
void ppl_names_clear(ppl_names *n);

#endif
