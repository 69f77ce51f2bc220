// order.h - in which order a reader on another rank takes the values of an edge: the numbering of links that post receives of
// their own. Before: plan.h. After: mpi.c, nccl.c.
//
// Value n of a crossing, counted over all steps from 0, is the one that its reader receives as the n-th: that of sequence
// `sequence[n % uses]` of step n / uses.
#ifndef PPL_LINK_ORDER_H
#define PPL_LINK_ORDER_H
#include "link/link.h"

typedef struct ppl_link_order {
    int32_t uses;      // a step
    int32_t *sequence; // [uses]: as the reader receives them
    int32_t *position; // [uses]: the inverse
    bool *before;      // [uses], by sequence: sent before the producer's VALIDATE
} ppl_link_order;

// PPL_ERR_PLAN where the reader does not receive each value once a step, or a step's values among those of the next.
ppl_status ppl_link_order_find(ppl_arena *arena, const ppl_plan *plan, int32_t edge, int32_t reader, const char *link,
                               ppl_link_order *out);

#endif
