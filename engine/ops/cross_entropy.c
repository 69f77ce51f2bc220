// cross_entropy.c - CROSS_ENTROPY: the sum of -log softmax(logits)[target] over rows whose target is not negative, and its
// gradient from the log-sum-exp of each row.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "cross_entropy", {"logits", "targets"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *x = t->in[0];
    PPL_TRY(ppl_rule_want(&r, 1, PPL_I32, x->ndim - 1, x->dim));
    PPL_TRY(ppl_rule_output(&r, &out[0], t->acc_dtype, 0, NULL));
    *outputs = 2;
    return ppl_rule_output(&r, &out[1], t->acc_dtype, x->ndim - 1, x->dim);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    PPL_TRY(ppl_diff_first_only(n, dy));
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_CROSS_ENTROPY_GRAD, (ppl_value[]){dy[0], n->in[0], n->in[1], n->out[1]}, 4, NULL,
                           &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static ppl_status infer_grad(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "cross_entropy_grad", {"seed", "logits", "targets", "lse"}};
    PPL_TRY(ppl_rule_inputs(&r, 4, 4));
    PPL_TRY(ppl_rule_want(&r, 0, t->acc_dtype, 0, NULL));
    PPL_TRY(ppl_rule_float(&r, 1, 1));
    const ppl_type *x = t->in[1];
    PPL_TRY(ppl_rule_want(&r, 2, PPL_I32, x->ndim - 1, x->dim));
    PPL_TRY(ppl_rule_want(&r, 3, t->acc_dtype, x->ndim - 1, x->dim));
    *out = *x;
    *outputs = 1;
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 2, 12.0 * ppl_rule_count(t->in[0]), c);
}

static void cost_grad(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 12.0 * ppl_rule_count(out), c);
}

const ppl_op_def ppl_def_cross_entropy = {
    .name = "cross_entropy", .min_inputs = 2, .max_inputs = 2, .infer = infer, .gradient = gradient, .cost = cost};
const ppl_op_def ppl_def_cross_entropy_grad = {.name = "cross_entropy_grad",
                                               .min_inputs = 4,
                                               .max_inputs = 4,
                                               .flags = PPL_OP_BACKWARD,
                                               .infer = infer_grad,
                                               .cost = cost_grad};
