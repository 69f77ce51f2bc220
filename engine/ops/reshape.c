// reshape.c - RESHAPE: another name for the same bytes; nothing runs.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "reshape", {"x"}};
    PPL_TRY(ppl_rule_inputs(&r, 1, 1));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (ndim)", 0, PPL_MAX_DIMS));
    PPL_TRY(ppl_rule_output(&r, out, t->in[0]->dtype, (int32_t)t->attrs->i[0], t->attrs->i + 1));
    *outputs = 1;
    if (ppl_type_elements(out) != ppl_type_elements(t->in[0])) {
        char text[128];
        return ppl_rule_bad(&r, 0, "as many elements as the result %s", ppl_type_print(out, text));
    }
    return PPL_OK;
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 0)) return PPL_OK;
    const ppl_type *x = ppl_diff_type(d, n->in[0]);
    ppl_attrs attrs = {.i = {x->ndim}};
    for (int32_t i = 0; i < x->ndim; i++) attrs.i[1 + i] = x->dim[i];
    PPL_TRY(ppl_diff_apply(d, PPL_OP_RESHAPE, dy, 1, &attrs, &grad));
    return ppl_diff_contribute(d, 0, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    (void)t, (void)out;
    *c = (ppl_cost){0, 0};
}

const ppl_op_def ppl_def_reshape = {.name = "reshape",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .flags = PPL_OP_ALIAS,
                                    .infer = infer,
                                    .gradient = gradient,
                                    .cost = cost};
