// transpose.c - TRANSPOSE: two dims exchanged; its own gradient.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "transpose", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    const ppl_type *x = t->in[0];
    if (x->ndim < 2) return ppl_rule_bad(&r, 0, "at least 2 dims");
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (dim)", 0, x->ndim - 1));
    PPL_TRY(ppl_rule_int(&r, 1, "i1 (dim)", 0, x->ndim - 1));
    int64_t a = t->attrs->i[0], b = t->attrs->i[1];
    if (a == b) return ppl_fail(PPL_ERR_ARG, "transpose: i0 and i1 are both %lld, want two dims", (long long)a);
    *out = *x;
    out->dim[a] = x->dim[b];
    out->dim[b] = x->dim[a];
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_TRANSPOSE, dy, 1, &n->attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 0, c);
}

const ppl_op_def ppl_def_transpose = {
    .name = "transpose", .min_inputs = 1, .max_inputs = 1, .infer = infer, .gradient = gradient, .cost = cost};
