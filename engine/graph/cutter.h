// cutter.h - what stages.c and edges.c share while they cut a graph. Internal to this folder.
#ifndef PPL_GRAPH_CUTTER_H
#define PPL_GRAPH_CUTTER_H
#include "graph/stages.h"
#include "ops/op.h"

// A value that one stage makes and another reads.
typedef struct ppl_crossing {
    int32_t kind, src;
    ppl_value value;
    ppl_edge_reader reader;
} ppl_crossing;

typedef struct ppl_cutter {
    const ppl_graph *g;
    ppl_stages *s;
    int32_t *stage;        // [nodes]
    int8_t *phase;         // [nodes]
    int32_t *mark;         // [values]: place in list + 1; 0: not in it
    int32_t *reads_param;  // [params]: 1 + the last stage that was seen to use it
    ppl_stage_value *list; // of the stage at work
    size_t n_list, room_list;
    ppl_crossing *crossings;
    size_t n_crossings, room_crossings;
} ppl_cutter;

// Makes the edges from the stages' values, and tells the values which edge they are.
ppl_status ppl_cutter_join(ppl_cutter *c);

#endif
