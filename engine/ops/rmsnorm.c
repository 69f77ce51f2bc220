// rmsnorm.c - RMSNORM over the last dim with gain, and its gradients.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "rmsnorm", {"x", "w"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *x = t->in[0];
    PPL_TRY(ppl_rule_want(&r, 1, x->dtype, 1, (int64_t[]){ppl_last_dim(x)}));
    double eps = t->attrs->f[0];
    if (!(eps >= 0 && eps - eps == 0)) return ppl_rule_bad_number(&r, 0, "f0 (epsilon)", "a finite number, 0 or more");
    out[0] = *x;
    *outputs = 2;
    return ppl_rule_output(&r, &out[1], t->acc_dtype, x->ndim - 1, x->dim);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    PPL_TRY(ppl_diff_first_only(n, dy));
    ppl_value grad, x = n->in[0], stats = n->out[1];
    if (ppl_diff_wants(d, 0)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_RMSNORM_DX, (ppl_value[]){dy[0], x, n->in[1], stats}, 4, NULL, &grad));
        PPL_TRY(ppl_diff_contribute(d, 0, grad));
    }
    if (ppl_diff_wants(d, 1)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_RMSNORM_DW, (ppl_value[]){dy[0], x, stats}, 3, NULL, &grad));
        PPL_TRY(ppl_diff_contribute(d, 1, grad));
    }
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 2, 4.0 * ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_rmsnorm = {
    .name = "rmsnorm", .min_inputs = 2, .max_inputs = 2, .infer = infer, .gradient = gradient, .cost = cost};

static ppl_status infer_dx(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "rmsnorm_dx", {"dy", "x", "w", "stats"}};
    PPL_TRY(ppl_rule_inputs(&r, 4, 4));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    PPL_TRY(ppl_rule_want(&r, 2, dy->dtype, 1, (int64_t[]){ppl_last_dim(dy)}));
    PPL_TRY(ppl_rule_want(&r, 3, t->acc_dtype, dy->ndim - 1, dy->dim));
    *out = *dy;
    *outputs = 1;
    return PPL_OK;
}

static void cost_dx(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 8.0 * ppl_rule_count(out), c);
}

const ppl_op_def ppl_def_rmsnorm_dx = {.name = "rmsnorm_dx",
                                       .min_inputs = 4,
                                       .max_inputs = 4,
                                       .flags = PPL_OP_BACKWARD,
                                       .infer = infer_dx,
                                       .cost = cost_dx};

static ppl_status infer_dw(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "rmsnorm_dw", {"dy", "x", "stats"}};
    PPL_TRY(ppl_rule_inputs(&r, 3, 3));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    PPL_TRY(ppl_rule_want(&r, 2, t->acc_dtype, dy->ndim - 1, dy->dim));
    *outputs = 1;
    return ppl_rule_output(&r, out, t->accumulates ? t->acc_dtype : dy->dtype, 1, (int64_t[]){ppl_last_dim(dy)});
}

static void cost_dw(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 3.0 * ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_rmsnorm_dw = {.name = "rmsnorm_dw",
                                       .min_inputs = 3,
                                       .max_inputs = 3,
                                       .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                       .infer = infer_dw,
                                       .cost = cost_dw};
