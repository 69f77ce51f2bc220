// reduce.c - REDUCE, the gradient of what was broadcast, and ACCUMULATE, which takes any gradient of a parameter over
// into its accumulator.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer_reduce(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "reduce", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    const ppl_type *x = t->in[0];
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (dims that stay)", 0, x->ndim));
    int32_t stay = (int32_t)t->attrs->i[0];
    *outputs = 1;
    return ppl_rule_output(&r, out, t->accumulates ? t->acc_dtype : x->dtype, stay, x->dim + (x->ndim - stay));
}

static ppl_status infer_accumulate(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "accumulate", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    *out = *t->in[0];
    out->dtype = t->acc_dtype;
    *outputs = 1;
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_reduce = {.name = "reduce",
                                   .min_inputs = 1,
                                   .max_inputs = 1,
                                   .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                   .infer = infer_reduce,
                                   .cost = cost};
const ppl_op_def ppl_def_accumulate = {.name = "accumulate",
                                       .min_inputs = 1,
                                       .max_inputs = 1,
                                       .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                       .infer = infer_accumulate,
                                       .cost = cost};
