// layernorm.c - LAYERNORM over the last dim with gain and bias, and its gradients.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status stats_type(const ppl_rule *r, const ppl_type *x, ppl_type *out) {
    int64_t dim[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) dim[i] = x->dim[i];
    dim[x->ndim - 1] = 2;
    return ppl_rule_output(r, out, r->t->acc_dtype, x->ndim, dim);
}

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "layernorm", {"x", "w", "b"}};
    PPL_TRY(ppl_rule_inputs(&r, 3, 3));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *x = t->in[0];
    for (int32_t k = 1; k < 3; k++) PPL_TRY(ppl_rule_want(&r, k, x->dtype, 1, (int64_t[]){ppl_last_dim(x)}));
    double eps = t->attrs->f[0];
    if (!(eps >= 0 && eps - eps == 0)) return ppl_rule_bad_number(&r, 0, "f0 (epsilon)", "a finite number, 0 or more");
    out[0] = *x;
    *outputs = 2;
    return stats_type(&r, x, &out[1]);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    PPL_TRY(ppl_diff_first_only(n, dy));
    ppl_value grad[2], x = n->in[0], stats = n->out[1];
    if (ppl_diff_wants(d, 0)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_LAYERNORM_DX, (ppl_value[]){dy[0], x, n->in[1], stats}, 4, NULL, grad));
        PPL_TRY(ppl_diff_contribute(d, 0, grad[0]));
    }
    if (ppl_diff_wants(d, 1) || ppl_diff_wants(d, 2)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_LAYERNORM_DW, (ppl_value[]){dy[0], x, stats}, 3, NULL, grad));
        for (int32_t k = 1; k < 3; k++)
            if (ppl_diff_wants(d, k)) PPL_TRY(ppl_diff_contribute(d, k, grad[k - 1]));
    }
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 2, 8.0 * ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_layernorm = {
    .name = "layernorm", .min_inputs = 3, .max_inputs = 3, .infer = infer, .gradient = gradient, .cost = cost};

static ppl_status infer_dx(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "layernorm_dx", {"dy", "x", "w", "stats"}};
    PPL_TRY(ppl_rule_inputs(&r, 4, 4));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    PPL_TRY(ppl_rule_want(&r, 2, dy->dtype, 1, (int64_t[]){ppl_last_dim(dy)}));
    ppl_type stats;
    PPL_TRY(stats_type(&r, dy, &stats));
    PPL_TRY(ppl_rule_want(&r, 3, stats.dtype, stats.ndim, stats.dim));
    *out = *dy;
    *outputs = 1;
    return PPL_OK;
}

static void cost_dx(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 11.0 * ppl_rule_count(out), c);
}

const ppl_op_def ppl_def_layernorm_dx = {.name = "layernorm_dx",
                                         .min_inputs = 4,
                                         .max_inputs = 4,
                                         .flags = PPL_OP_BACKWARD,
                                         .infer = infer_dx,
                                         .cost = cost_dx};

static ppl_status infer_dw(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "layernorm_dw", {"dy", "x", "stats"}};
    PPL_TRY(ppl_rule_inputs(&r, 3, 3));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_same(&r, 1, 0));
    ppl_type stats;
    PPL_TRY(stats_type(&r, dy, &stats));
    PPL_TRY(ppl_rule_want(&r, 2, stats.dtype, stats.ndim, stats.dim));
    PPL_TRY(ppl_rule_output(&r, &out[0], t->accumulates ? t->acc_dtype : dy->dtype, 1, (int64_t[]){ppl_last_dim(dy)}));
    out[1] = out[0];
    *outputs = 2;
    return PPL_OK;
}

static void cost_dw(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 2, 5.0 * ppl_rule_count(t->in[0]), c);
}

const ppl_op_def ppl_def_layernorm_dw = {.name = "layernorm_dw",
                                         .min_inputs = 3,
                                         .max_inputs = 3,
                                         .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                         .infer = infer_dw,
                                         .cost = cost_dw};
