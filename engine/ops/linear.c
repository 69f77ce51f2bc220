// linear.c - LINEAR: y = act(x w^T + b), and the two products its gradient is made of.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "linear", {"x", "w", "b"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 3));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (act)", 0, PPL_ACTS - 1));
    const ppl_type *x = t->in[0], *w = t->in[1];
    PPL_TRY(ppl_rule_want(&r, 1, x->dtype, 2, (int64_t[]){-1, ppl_last_dim(x)}));
    if (t->inputs == 3) PPL_TRY(ppl_rule_want(&r, 2, x->dtype, 1, &w->dim[0]));
    int64_t dim[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) dim[i] = x->dim[i];
    dim[x->ndim - 1] = w->dim[0];
    PPL_TRY(ppl_rule_output(&r, &out[0], x->dtype, x->ndim, dim));
    out[1] = out[0];
    *outputs = t->attrs->i[0] == PPL_ACT_NONE ? 1 : 2;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value dpre = dy[0];
    if (n->attrs.i[0] != PPL_ACT_NONE) {
        if (dy[0] != -1)
            PPL_TRY(ppl_diff_apply(d, PPL_OP_ACT_GRAD, (ppl_value[]){dy[0], n->out[1]}, 2,
                                   &(ppl_attrs){.i = {n->attrs.i[0]}}, &dpre));
        if (dy[0] == -1) dpre = dy[1];
        else if (dy[1] != -1) PPL_TRY(ppl_diff_apply(d, PPL_OP_ADD, (ppl_value[]){dy[1], dpre}, 2, NULL, &dpre));
    }
    ppl_value grad;
    if (ppl_diff_wants(d, 0)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_LINEAR_DX, (ppl_value[]){dpre, n->in[1]}, 2, NULL, &grad));
        PPL_TRY(ppl_diff_contribute(d, 0, grad));
    }
    if (ppl_diff_wants(d, 1)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_LINEAR_DW, (ppl_value[]){dpre, n->in[0]}, 2, NULL, &grad));
        PPL_TRY(ppl_diff_contribute(d, 1, grad));
    }
    if (n->inputs == 3 && ppl_diff_wants(d, 2)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_REDUCE, &dpre, 1, &(ppl_attrs){.i = {1}}, &grad));
        PPL_TRY(ppl_diff_contribute(d, 2, grad));
    }
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    double y = ppl_rule_count(&out[0]);
    double flops = y * (2.0 * (double)ppl_last_dim(t->in[0]) + (t->inputs - 2) + ppl_rule_act_flops(t->attrs->i[0]));
    ppl_rule_cost(t, out, t->attrs->i[0] == PPL_ACT_NONE ? 1 : 2, flops, c);
}

const ppl_op_def ppl_def_linear = {
    .name = "linear", .min_inputs = 2, .max_inputs = 3, .infer = infer, .gradient = gradient, .cost = cost};

static ppl_status infer_dx(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "linear_dx", {"dy", "w"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_want(&r, 1, dy->dtype, 2, (int64_t[]){ppl_last_dim(dy), -1}));
    int64_t dim[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) dim[i] = dy->dim[i];
    dim[dy->ndim - 1] = t->in[1]->dim[1];
    *outputs = 1;
    return ppl_rule_output(&r, out, dy->dtype, dy->ndim, dim);
}

static void cost_dx(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 2.0 * ppl_rule_count(out) * (double)ppl_last_dim(t->in[0]), c);
}

const ppl_op_def ppl_def_linear_dx = {.name = "linear_dx",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .flags = PPL_OP_BACKWARD,
                                      .infer = infer_dx,
                                      .cost = cost_dx};

static ppl_status infer_dw(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "linear_dw", {"dy", "x"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0], *x = t->in[1];
    int64_t want[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) want[i] = dy->dim[i];
    want[dy->ndim - 1] = -1;
    PPL_TRY(ppl_rule_want(&r, 1, dy->dtype, dy->ndim, want));
    *outputs = 1;
    return ppl_rule_output(&r, out, t->accumulates ? t->acc_dtype : dy->dtype, 2,
                           (int64_t[]){ppl_last_dim(dy), ppl_last_dim(x)});
}

static void cost_dw(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 2.0 * ppl_rule_count(out) * (double)ppl_rows(t->in[0]), c);
}

const ppl_op_def ppl_def_linear_dw = {.name = "linear_dw",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                      .infer = infer_dw,
                                      .cost = cost_dw};
