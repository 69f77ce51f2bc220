// dropout.c - DROPOUT: the mask is a function of the node's key, the step, the sample and the element (base/random.h), so
// the gradient makes it again instead of keeping it.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "dropout", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    double p = t->attrs->f[0];
    if (!(p >= 0 && p < 1)) return ppl_rule_bad_number(&r, 0, "f0 (probability)", "0 <= p < 1");
    *out = *t->in[0];
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_DROPOUT, dy, 1, &n->attrs, &grad)); // with the same key
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 12.0 * ppl_rule_count(out), c); // ten rounds of Philox give four numbers
}

const ppl_op_def ppl_def_dropout = {.name = "dropout",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .flags = PPL_OP_RANDOM,
                                    .infer = infer,
                                    .gradient = gradient,
                                    .cost = cost};
