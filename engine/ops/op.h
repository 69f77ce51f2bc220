// op.h - what an operator is to the graph: shape rule, gradient rule, cost. One file in this folder each (or a small
// family of one); ops.c holds the table. No device code here: kernels are device/kernel.h's.
#ifndef PPL_OPS_OP_H
#define PPL_OPS_OP_H
#include "graph/graph.h"

enum {
    PPL_OP_RANDOM = 1, // attrs.i[7] is set to the key of the node's name
    PPL_OP_ACCUMULATES =
        2,              // may write accumulators (out = or out +=); else differentiation puts an ACCUMULATE behind it
    PPL_OP_ALIAS = 4,   // output 0 is input 0's bytes: no kernel runs, the layout shares the buffer
    PPL_OP_BACKWARD = 8 // emitted by gradient rules; not differentiable, not offered to scripts
};

typedef struct ppl_op_types { // what rules see
    const ppl_type *in[PPL_MAX_INPUTS];
    int32_t inputs;
    const ppl_attrs *attrs;
    int32_t acc_dtype; // F32 or F64: of statistics, losses and accumulators
    bool accumulates;  // the outputs are accumulators: of acc_dtype
} ppl_op_types;

typedef struct ppl_cost {
    double flops; // a multiply-add counts 2
    double bytes; // read and written once each
} ppl_cost;

typedef struct ppl_diff ppl_diff; // an ongoing differentiation of one forward node

typedef struct ppl_op_def {
    const char *name;
    int32_t min_inputs, max_inputs;
    uint32_t flags;
    // Output types into out, their number into *outputs. Errors say which input is what and what was wanted.
    ppl_status (*infer)(const ppl_op_types *t, ppl_type *out, int32_t *outputs);
    // dy[k]: gradient of output k, -1 where none arrives (then only rules of several outputs are called). NULL: BACKWARD ops.
    ppl_status (*gradient)(ppl_diff *d, const ppl_node *n, const ppl_value *dy);
    void (*cost)(const ppl_op_types *t, const ppl_type *out, ppl_cost *cost);
} ppl_op_def;

const ppl_op_def *ppl_op_get(int32_t op); // never NULL for 0 <= op < PPL_OPS

// For gradient rules.
bool ppl_diff_wants(const ppl_diff *d, int32_t input); // is the gradient of this input needed?
const ppl_type *ppl_diff_type(const ppl_diff *d, ppl_value v);
// Emits a backward node, in the layer of the forward node, and gives its outputs. An output that is then contributed to a
// parameter becomes an accumulator. Its phase is found once all is emitted.
ppl_status ppl_diff_apply(ppl_diff *d, int32_t op, const ppl_value *in, int32_t inputs, const ppl_attrs *attrs,
                          ppl_value *out);
// Says that `grad` is this node's contribution to the gradient of its input: at most once an input, and only where it is
// wanted.
ppl_status ppl_diff_contribute(ppl_diff *d, int32_t input, ppl_value grad);
// Fails if a gradient arrives at any output but the first: for operators whose other outputs are statistics.
ppl_status ppl_diff_first_only(const ppl_node *n, const ppl_value *dy);

#endif
