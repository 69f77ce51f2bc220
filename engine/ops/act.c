// act.c - ACT: an activation function of each element, and its gradient.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "act", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (act)", 0, PPL_ACTS - 1));
    *out = *t->in[0];
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_ACT_GRAD, (ppl_value[]){dy[0], n->in[0]}, 2, &n->attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static ppl_status infer_grad(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "act_grad", {"dy", "x"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (act)", 0, PPL_ACTS - 1));
    *out = *t->in[0];
    *outputs = 1;
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, ppl_rule_count(out) * ppl_rule_act_flops(t->attrs->i[0]), c);
}

static void cost_grad(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, ppl_rule_count(out) * (1 + ppl_rule_act_flops(t->attrs->i[0])), c);
}

const ppl_op_def ppl_def_act = {
    .name = "act", .min_inputs = 1, .max_inputs = 1, .infer = infer, .gradient = gradient, .cost = cost};
const ppl_op_def ppl_def_act_grad = {.name = "act_grad",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .flags = PPL_OP_BACKWARD,
                                     .infer = infer_grad,
                                     .cost = cost_grad};
