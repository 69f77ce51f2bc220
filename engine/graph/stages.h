// stages.h - the graph cut into stages: each stage's F, I and W programs, and the edges between stages. Before: graph.h.
// After: plan.h lays out memory for it and turns a schedule's actions into tasks.
#ifndef PPL_GRAPH_STAGES_H
#define PPL_GRAPH_STAGES_H
#include "graph/graph.h"

// A value that crosses from one stage to another: an activation going up, a gradient coming down, or the accumulators of
// a tied parameter (kind PPL_U) exchanged between all stages that use it.
typedef struct ppl_edge_reader {
    int32_t stage;
    int32_t last; // ppl_phase of the last program that reads it there (PPL_U edges: unused)
} ppl_edge_reader;

typedef struct ppl_edge {
    ppl_value value;          // -1 in abstract stages
    int32_t kind;             // PPL_F, PPL_B or PPL_U
    int32_t src;              // stage
    int32_t src_last;         // ppl_phase of the last program of src itself that reads it after its producer's; -1 none
    ppl_edge_reader *readers; // in order of stage; src is not among them
    int32_t n_readers;
    size_t bytes; // of one microbatch
} ppl_edge;

// What a stage runs. Aliases (RESHAPE) are left out: a node's inputs lie where ppl_graph_root of them lies. A node's phase
// here may be I where the graph has W: gradients that leave their stage are always made in I.
typedef struct ppl_program {
    const int32_t *nodes; // ids in order of execution
    int32_t count;
} ppl_program;

// How long a value lives inside one stage.
typedef struct ppl_stage_value {
    ppl_value value;    // the root of its aliases
    int32_t born, last; // ppl_phase; born where it is only read: the first reading phase; of inputs: F
    int32_t edge;       // -1: the stage's own
    size_t bytes;
} ppl_stage_value;

typedef struct ppl_stage {
    int32_t first_layer, layers;
    ppl_program program[PPL_PHASES];
    ppl_stage_value
        *values; // node outputs, inputs and edges made or read here, by id; no params, no accumulators, no seed
    int32_t n_values;
    ppl_value *inputs; // INPUT values read here
    int32_t n_inputs;
    int32_t *params; // indexes of the parameters read here or accumulated for here, ascending
    int32_t n_params;
    ppl_value *accumulators; // produced here, in graph order
    int32_t n_accumulators;
    double flops[PPL_PHASES], bytes[PPL_PHASES]; // of one microbatch, by the operators' costs
} ppl_stage;

typedef struct ppl_stages {
    ppl_arena arena;
    const ppl_graph *graph; // borrowed; NULL in abstract stages
    ppl_stage *stage;
    int32_t count;
    ppl_edge *edges; // F edges in order of (src, value), then B edges, then U edges
    int32_t n_edges;
} ppl_stages;

// Cuts a differentiated graph; first_layer[0] must be 0, then ascending. Errors name the layer.
ppl_status ppl_stages_build(const ppl_graph *g, int32_t count, const int32_t *first_layer, ppl_stages **out);
// A chain of stages without a model: F edges s -> s+1, read by F and (as a saved input) last by W; B edges s+1 -> s, last
// read by W; one byte each, one byte of activation a stage.
ppl_status ppl_stages_chain(int32_t count, ppl_stages **out);
void ppl_stages_free(ppl_stages *s);
// The root of a chain of aliases (RESHAPE): the value whose bytes v is.
ppl_value ppl_graph_root(const ppl_graph *g, ppl_value v);
// The stage a layer belongs to.
int32_t ppl_stages_of_layer(const ppl_stages *s, int32_t layer);

#endif
