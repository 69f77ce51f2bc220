// concat.c - CONCAT: inputs joined along one dim. Its gradient is a SLICE for each input.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "concat", {NULL}};
    PPL_TRY(ppl_rule_inputs(&r, 1, PPL_MAX_INPUTS));
    const ppl_type *first = t->in[0];
    if (first->ndim < 1) return ppl_rule_bad(&r, 0, "at least 1 dim");
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (dim)", 0, first->ndim - 1));
    int64_t dim = t->attrs->i[0], like[PPL_MAX_DIMS], joined = first->dim[dim];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) like[i] = first->dim[i];
    like[dim] = -1;
    for (int32_t k = 1; k < t->inputs; k++) {
        PPL_TRY(ppl_rule_want(&r, k, first->dtype, first->ndim, like));
        joined += t->in[k]->dim[dim];
    }
    like[dim] = joined;
    *outputs = 1;
    return ppl_rule_output(&r, out, first->dtype, first->ndim, like);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    int64_t dim = n->attrs.i[0], at = 0;
    for (int32_t k = 0; k < n->inputs; k++) {
        int64_t length = ppl_diff_type(d, n->in[k])->dim[dim];
        if (ppl_diff_wants(d, k)) {
            ppl_value grad;
            PPL_TRY(ppl_diff_apply(d, PPL_OP_SLICE, dy, 1, &(ppl_attrs){.i = {dim, at, length}}, &grad));
            PPL_TRY(ppl_diff_contribute(d, k, grad));
        }
        at += length;
    }
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 0, c);
}

const ppl_op_def ppl_def_concat = {.name = "concat",
                                   .min_inputs = 1,
                                   .max_inputs = PPL_MAX_INPUTS,
                                   .infer = infer,
                                   .gradient = gradient,
                                   .cost = cost};
