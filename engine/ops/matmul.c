// matmul.c - MATMUL: batched a b with either stored transposed. Its gradient is made of itself.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "matmul", {"a", "b"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    PPL_TRY(ppl_rule_float(&r, 0, 2));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (a transposed)", 0, 1));
    PPL_TRY(ppl_rule_int(&r, 1, "i1 (b transposed)", 0, 1));
    const ppl_type *a = t->in[0], *b = t->in[1];
    int32_t n = a->ndim, ta = (int32_t)t->attrs->i[0], tb = (int32_t)t->attrs->i[1];
    int64_t dim[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) dim[i] = a->dim[i];
    dim[n - 2 + tb] = a->dim[n - 1 - ta]; // K
    dim[n - 1 - tb] = -1;                 // N
    PPL_TRY(ppl_rule_want(&r, 1, a->dtype, n, dim));
    dim[n - 2] = a->dim[n - 2 + ta];
    dim[n - 1] = b->dim[n - 1 - tb];
    *outputs = 1;
    return ppl_rule_output(&r, out, a->dtype, n, dim);
}

// With A, B the operands as used: dA = dC B^T, dB = A^T dC; where an operand is stored transposed, the transposed equation.
static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    int64_t ta = n->attrs.i[0], tb = n->attrs.i[1];
    ppl_value a = n->in[0], b = n->in[1], grad;
    if (ppl_diff_wants(d, 0)) {
        if (ta)
            PPL_TRY(ppl_diff_apply(d, PPL_OP_MATMUL, (ppl_value[]){b, dy[0]}, 2, &(ppl_attrs){.i = {tb, 1}}, &grad));
        else PPL_TRY(ppl_diff_apply(d, PPL_OP_MATMUL, (ppl_value[]){dy[0], b}, 2, &(ppl_attrs){.i = {0, !tb}}, &grad));
        PPL_TRY(ppl_diff_contribute(d, 0, grad));
    }
    if (ppl_diff_wants(d, 1)) {
        if (tb)
            PPL_TRY(ppl_diff_apply(d, PPL_OP_MATMUL, (ppl_value[]){dy[0], a}, 2, &(ppl_attrs){.i = {1, ta}}, &grad));
        else PPL_TRY(ppl_diff_apply(d, PPL_OP_MATMUL, (ppl_value[]){a, dy[0]}, 2, &(ppl_attrs){.i = {!ta, 0}}, &grad));
        PPL_TRY(ppl_diff_contribute(d, 1, grad));
    }
    return PPL_OK;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    const ppl_type *a = t->in[0];
    double k = (double)a->dim[a->ndim - 1 - (int32_t)t->attrs->i[0]];
    ppl_rule_cost(t, out, 1, 2.0 * k * ppl_rule_count(out), c);
}

const ppl_op_def ppl_def_matmul = {
    .name = "matmul", .min_inputs = 2, .max_inputs = 2, .infer = infer, .gradient = gradient, .cost = cost};
