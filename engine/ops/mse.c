// mse.c - MSE: the sum of squared differences, targets that are NaN left out, and its gradient.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "mse", {"x", "target"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    *outputs = 1;
    return ppl_rule_output(&r, out, t->acc_dtype, 0, NULL);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_MSE_GRAD, (ppl_value[]){dy[0], n->in[0], n->in[1]}, 3, NULL, &grad));
    if (ppl_diff_wants(d, 0)) PPL_TRY(ppl_diff_contribute(d, 0, grad));
    if (ppl_diff_wants(d, 1)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_SCALE, &grad, 1, &(ppl_attrs){.f = {-1}}, &grad));
        PPL_TRY(ppl_diff_contribute(d, 1, grad));
    }
    return PPL_OK;
}

static ppl_status infer_grad(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "mse_grad", {"seed", "x", "target"}};
    PPL_TRY(ppl_rule_inputs(&r, 3, 3));
    PPL_TRY(ppl_rule_want(&r, 0, t->acc_dtype, 0, NULL));
    PPL_TRY(ppl_rule_float(&r, 1, 0));
    PPL_TRY(ppl_rule_same(&r, 2, 1));
    *out = *t->in[1];
    *outputs = 1;
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 3.0 * ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_mse = {
    .name = "mse", .min_inputs = 2, .max_inputs = 2, .infer = infer, .gradient = gradient, .cost = cost};
const ppl_op_def ppl_def_mse_grad = {
    .name = "mse_grad", .min_inputs = 3, .max_inputs = 3, .flags = PPL_OP_BACKWARD, .infer = infer_grad, .cost = cost};
