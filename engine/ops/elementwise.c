// elementwise.c - ADD, MUL and SCALE. Only the second input of ADD and MUL is broadcast, over leading dims.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer_pair(const ppl_op_types *t, const char *op, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, op, {"x", "y"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    const ppl_type *x = t->in[0], *y = t->in[1];
    bool fits = y->dtype == x->dtype && y->ndim <= x->ndim;
    for (int32_t i = 0; fits && i < y->ndim; i++) fits = y->dim[i] == x->dim[x->ndim - y->ndim + i];
    if (!fits) return ppl_rule_bad(&r, 1, "%s of x's shape or a suffix of it", ppl_dtype_name(x->dtype));
    *out = *x;
    *outputs = 1;
    return PPL_OK;
}

static ppl_status infer_add(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    return infer_pair(t, "add", out, outputs);
}

static ppl_status infer_mul(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    return infer_pair(t, "mul", out, outputs);
}

// Contributes g, of x's shape, to input 1: summed over the leading dims that it was broadcast over.
static ppl_status contribute_reduced(ppl_diff *d, const ppl_node *n, ppl_value g) {
    int32_t ndim = ppl_diff_type(d, n->in[1])->ndim;
    if (ndim != ppl_diff_type(d, n->in[0])->ndim)
        PPL_TRY(ppl_diff_apply(d, PPL_OP_REDUCE, &g, 1, &(ppl_attrs){.i = {ndim}}, &g));
    return ppl_diff_contribute(d, 1, g);
}

static ppl_status gradient_add(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    if (ppl_diff_wants(d, 0)) PPL_TRY(ppl_diff_contribute(d, 0, dy[0]));
    return ppl_diff_wants(d, 1) ? contribute_reduced(d, n, dy[0]) : PPL_OK;
}

static ppl_status gradient_mul(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (ppl_diff_wants(d, 0)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_MUL, (ppl_value[]){dy[0], n->in[1]}, 2, NULL, &grad));
        PPL_TRY(ppl_diff_contribute(d, 0, grad));
    }
    if (ppl_diff_wants(d, 1)) {
        PPL_TRY(ppl_diff_apply(d, PPL_OP_MUL, (ppl_value[]){dy[0], n->in[0]}, 2, NULL, &grad));
        PPL_TRY(contribute_reduced(d, n, grad));
    }
    return PPL_OK;
}

static ppl_status infer_scale(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "scale", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    double f = t->attrs->f[0];
    if (!(f - f == 0)) return ppl_rule_bad_number(&r, 0, "f0 (factor)", "a finite number");
    *out = *t->in[0];
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient_scale(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_SCALE, dy, 1, &n->attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 1, ppl_rule_count(out), c);
}

const ppl_op_def ppl_def_add = {
    .name = "add", .min_inputs = 2, .max_inputs = 2, .infer = infer_add, .gradient = gradient_add, .cost = cost};
const ppl_op_def ppl_def_mul = {
    .name = "mul", .min_inputs = 2, .max_inputs = 2, .infer = infer_mul, .gradient = gradient_mul, .cost = cost};
const ppl_op_def ppl_def_scale = {
    .name = "scale", .min_inputs = 1, .max_inputs = 1, .infer = infer_scale, .gradient = gradient_scale, .cost = cost};
