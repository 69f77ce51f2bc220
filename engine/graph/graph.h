// graph.h - values and nodes of the whole model. Before: a script's layers. After: differentiate.c adds the backward
// nodes, stages.h cuts both into programs.
#ifndef PPL_GRAPH_GRAPH_H
#define PPL_GRAPH_GRAPH_H
#include "ppl.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/status.h"

typedef enum ppl_phase {
    PPL_PHASE_F = 0, // forward
    PPL_PHASE_I,     // backward, on the way to the gradient of an activation
    PPL_PHASE_W,     // backward, needed for gradients of parameters alone
    PPL_PHASES
} ppl_phase;

typedef enum ppl_value_kind {
    PPL_VALUE_INPUT = 0,  // filled from the data source in each microbatch
    PPL_VALUE_PARAM,      // a parameter as operators read it
    PPL_VALUE_NODE,       // a node's output
    PPL_VALUE_SEED,       // scalar: d(step loss) / d(loss node) = 1 / the step's weight
    PPL_VALUE_ACCUMULATOR // a node's output that lives over the step: the gradient of one use of a parameter
} ppl_value_kind;

typedef struct ppl_value_info {
    ppl_type type;
    int32_t kind;   // ppl_value_kind
    int32_t node;   // producer; -1
    int32_t output; // which of the producer's outputs
    int32_t param;  // index into params (PARAM, ACCUMULATOR); -1
    bool data;      // depends on an input: its gradient is an activation's, not a parameter's
    const char *name;
} ppl_value_info;

typedef struct ppl_node {
    int32_t op;    // ppl_op
    int32_t layer; // of the forward node; a backward node has that of the forward node it derives from
    int32_t phase; // ppl_phase
    int32_t inputs, outputs;
    ppl_value in[PPL_MAX_INPUTS];
    ppl_value out[PPL_MAX_OUTPUTS];
    ppl_attrs attrs;
    bool accumulates; // outputs are accumulators: = in a step's first microbatch, += in the others
    const char *name;
} ppl_node;

typedef struct ppl_param {
    const char *name;
    ppl_type type; // of the master: F32 (F64 in an f64 graph)
    ppl_param_spec spec;
    ppl_value value;
    // One accumulator per use, in graph order of the uses (filled by differentiation); the gradient is their sum in this order.
    ppl_value *uses;
    int32_t n_uses;
} ppl_param;

typedef struct ppl_layer {
    const char *name;
    double weight;
    bool recompute; // backward nodes read values computed anew
} ppl_layer;

struct ppl_graph {
    ppl_arena arena; // owns names and everything below
    int32_t dtype;
    ppl_value_info *values;
    ppl_node *nodes; // forward in tracing order, then backward in order of execution
    ppl_param *params;
    ppl_layer *layers;
    size_t n_values, room_values, n_nodes, room_nodes, n_params, room_params, n_layers, room_layers;
    size_t n_forward;     // nodes[0 .. n_forward) are forward
    ppl_value loss, seed; // -1 until set
    bool differentiated;
    struct ppl_names *names; // internal to graph.c: finds values and params by name
};

static inline const ppl_type *ppl_graph_type_of(const ppl_graph *g, ppl_value v) {
    return &g->values[v].type;
}

// Appends a node: infers output types, makes output values. Used by tracing and by gradient rules alike; `phase` and
// `layer` as given. accumulates: the outputs become ACCUMULATOR values.
ppl_status ppl_graph_add_node(ppl_graph *g, int32_t op, const char *name, int32_t layer, int32_t phase,
                              bool accumulates, const ppl_value *in, int32_t inputs, const ppl_attrs *attrs,
                              ppl_value *out);

// Differentiates the whole graph with respect to every parameter that is not frozen, once. Where gradients of a value
// meet they are added in one fixed chain from the last use in graph order to the first; each add belongs to the layer of
// the use whose contribution it adds, so that a cut never changes the order of a sum. Backward nodes end up in phase I
// when an activation's gradient depends on them, else in W. Nothing is emitted towards values that no trainable
// parameter feeds. A second call changes nothing.
ppl_status ppl_graph_differentiate(ppl_graph *g);

#endif
