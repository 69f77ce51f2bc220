// recompute.h - forward nodes emitted again among the backward nodes, for layers that do not keep their values. Used by
// differentiate.c alone, while it emits.
#ifndef PPL_GRAPH_RECOMPUTE_H
#define PPL_GRAPH_RECOMPUTE_H
#include "graph/graph.h"

typedef struct ppl_recompute {
    ppl_graph *g;
    ppl_value *again; // [values of the forward]: its second computation; -1 none yet
    bool *wanted;     // [forward nodes]: scratch
    size_t n_values;
} ppl_recompute;

ppl_status ppl_recompute_init(ppl_recompute *r, ppl_graph *g);
void ppl_recompute_clear(ppl_recompute *r);
// What a backward node of `layer` reads in place of v: v itself, unless a forward node of the same layer made it and the
// layer is recomputed; then v's second computation, for which nodes are emitted behind the graph's last, as few as are
// needed, from values that enter the layer. They are phase W until what reads them settles it (differentiate.c).
ppl_status ppl_recompute_value(ppl_recompute *r, ppl_value v, int32_t layer, ppl_value *out);

#endif
