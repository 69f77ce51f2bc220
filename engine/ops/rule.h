// rule.h - what shape rules share: checks that give one form of error, "linear: w is f32 (4, 5), want f32 (any, 3) beside
// x f32 (2, 3)", and bounds that every kernel may rely on.
#ifndef PPL_OPS_RULE_H
#define PPL_OPS_RULE_H
#include "ops/op.h"

#define PPL_MAX_ELEMENTS ((int64_t)1 << 40) // of a value: products of two dims stay far from 2^63

typedef struct ppl_rule {
    const ppl_op_types *t;
    const char *op;
    const char *input[PPL_MAX_INPUTS]; // what errors call the inputs
} ppl_rule;

// A dtype, 0..PPL_MAX_DIMS dims of at least 1 each and at most PPL_MAX_ELEMENTS elements. what: the error's subject.
ppl_status ppl_rule_type(const char *what, const ppl_type *type);
// The number of inputs, and that each is a type by ppl_rule_type.
ppl_status ppl_rule_inputs(const ppl_rule *r, int32_t min, int32_t max);
// Input k has a floating dtype and at least min_ndim dims.
ppl_status ppl_rule_float(const ppl_rule *r, int32_t k, int32_t min_ndim);
// Input k is exactly of this dtype and shape; a dim of -1 may be any.
ppl_status ppl_rule_want(const ppl_rule *r, int32_t k, int32_t dtype, int32_t ndim, const int64_t *dim);
// Input k has the type of input `like`.
ppl_status ppl_rule_same(const ppl_rule *r, int32_t k, int32_t like);
// Fails: input k is not what is wanted (the format's words).
ppl_status ppl_rule_bad(const ppl_rule *r, int32_t k, const char *want, ...) __attribute__((format(printf, 3, 4)));
// Fails unless lo <= attrs.i[slot] <= hi.
ppl_status ppl_rule_int(const ppl_rule *r, int32_t slot, const char *what, int64_t lo, int64_t hi);
// Fails: attrs.f[slot] is not what is wanted.
ppl_status ppl_rule_bad_number(const ppl_rule *r, int32_t slot, const char *what, const char *want);
// Makes an output type, within PPL_MAX_ELEMENTS.
ppl_status ppl_rule_output(const ppl_rule *r, ppl_type *out, int32_t dtype, int32_t ndim, const int64_t *dim);

// Costs. All inputs read and `outputs` outputs written once, accumulators read too; flops as given.
void ppl_rule_cost(const ppl_op_types *t, const ppl_type *out, int32_t outputs, double flops, ppl_cost *cost);
// Elements of a type, as a double.
static inline double ppl_rule_count(const ppl_type *t) {
    return (double)ppl_type_elements(t);
}
// Operations an element of an activation function takes, and of its gradient: rough, for balance alone.
double ppl_rule_act_flops(int64_t act);

#endif
