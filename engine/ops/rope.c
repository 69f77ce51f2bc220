// rope.c - ROPE: rotary position embedding (Su et al., "RoFormer", 2021), pairs (j, j + D/2). Its gradient is the inverse
// rotation.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "rope", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_float(&r, 0, 0));
    const ppl_type *x = t->in[0];
    if (x->ndim != 3) return ppl_rule_bad(&r, 0, "3 dims: (B, T, H D)");
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (D)", 2, PPL_MAX_ELEMENTS));
    int64_t head = t->attrs->i[0];
    if (head % 2 || x->dim[2] % head)
        return ppl_rule_bad(&r, 0, "a last dim that is a multiple of i0 (D) = %lld, and D even", (long long)head);
    PPL_TRY(ppl_rule_int(&r, 1, "i1 (rotated heads)", 0, x->dim[2] / head));
    PPL_TRY(ppl_rule_int(&r, 2, "i2 (inverse)", 0, 1));
    double theta = t->attrs->f[0];
    if (!(theta > 0 && theta - theta == 0)) return ppl_rule_bad_number(&r, 0, "f0 (theta)", "a finite number above 0");
    *out = *x;
    *outputs = 1;
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    ppl_attrs attrs = n->attrs;
    attrs.i[2] = !attrs.i[2];
    PPL_TRY(ppl_diff_apply(d, PPL_OP_ROPE, dy, 1, &attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    double rotated = (double)(t->attrs->i[0] * t->attrs->i[1]) * (double)ppl_rows(out);
    ppl_rule_cost(t, out, 1, 3.0 * rotated, c);
}

const ppl_op_def ppl_def_rope = {
    .name = "rope", .min_inputs = 1, .max_inputs = 1, .infer = infer, .gradient = gradient, .cost = cost};
