// slice.c - SLICE: a range of one dim, and PAD, its gradient.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "slice", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    const ppl_type *x = t->in[0];
    if (x->ndim < 1) return ppl_rule_bad(&r, 0, "at least 1 dim");
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (dim)", 0, x->ndim - 1));
    int64_t dim = t->attrs->i[0], first = t->attrs->i[1];
    PPL_TRY(ppl_rule_int(&r, 1, "i1 (first)", 0, x->dim[dim] - 1));
    PPL_TRY(ppl_rule_int(&r, 2, "i2 (length)", 1, x->dim[dim] - first));
    *out = *x;
    out->dim[dim] = t->attrs->i[2];
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    int64_t dim = n->attrs.i[0];
    ppl_attrs attrs = {.i = {dim, n->attrs.i[1], ppl_diff_type(d, n->in[0])->dim[dim]}};
    PPL_TRY(ppl_diff_apply(d, PPL_OP_PAD, dy, 1, &attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    (void)t;
    *c = (ppl_cost){0, 2.0 * (double)ppl_type_bytes(out)};
}

const ppl_op_def ppl_def_slice = {
    .name = "slice", .min_inputs = 1, .max_inputs = 1, .infer = infer, .gradient = gradient, .cost = cost};

static ppl_status infer_pad(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "pad", {"dy"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 1));
    const ppl_type *dy = t->in[0];
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (dim)", 0, dy->ndim - 1));
    int64_t dim = t->attrs->i[0];
    PPL_TRY(ppl_rule_int(&r, 2, "i2 (length)", dy->dim[dim], PPL_MAX_ELEMENTS));
    PPL_TRY(ppl_rule_int(&r, 1, "i1 (first)", 0, t->attrs->i[2] - dy->dim[dim]));
    int64_t wide[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) wide[i] = dy->dim[i];
    wide[dim] = t->attrs->i[2];
    *outputs = 1;
    return ppl_rule_output(&r, out, dy->dtype, dy->ndim, wide);
}

static void cost_pad(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, 0, c);
}

const ppl_op_def ppl_def_pad = {
    .name = "pad", .min_inputs = 1, .max_inputs = 1, .flags = PPL_OP_BACKWARD, .infer = infer_pad, .cost = cost_pad};
