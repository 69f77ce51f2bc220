// embedding.c - EMBEDDING: rows of a table by id, and the gradient of the table.
#include "ops/rule.h"
#include "ops/table.h"

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "embedding", {"ids", "w"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    const ppl_type *ids = t->in[0], *w = t->in[1];
    if (ids->dtype != PPL_I32 || ids->ndim >= PPL_MAX_DIMS)
        return ppl_rule_bad(&r, 0, "i32 of at most %d dims", PPL_MAX_DIMS - 1);
    PPL_TRY(ppl_rule_float(&r, 1, 0));
    PPL_TRY(ppl_rule_want(&r, 1, w->dtype, 2, (int64_t[]){-1, -1}));
    int64_t dim[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) dim[i] = ids->dim[i];
    dim[ids->ndim] = w->dim[1];
    *outputs = 1;
    return ppl_rule_output(&r, out, w->dtype, ids->ndim + 1, dim);
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    ppl_value grad;
    if (!ppl_diff_wants(d, 1)) return PPL_OK;
    PPL_TRY(ppl_diff_apply(d, PPL_OP_EMBEDDING_DW, (ppl_value[]){n->in[0], dy[0]}, 2,
                           &(ppl_attrs){.i = {ppl_diff_type(d, n->in[1])->dim[0]}}, &grad));
    return ppl_diff_contribute(d, 1, grad);
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    c->flops = 0; // of the table only the rows that are read count
    c->bytes = (double)ppl_type_bytes(t->in[0]) + 2.0 * (double)ppl_type_bytes(out);
}

const ppl_op_def ppl_def_embedding = {
    .name = "embedding", .min_inputs = 2, .max_inputs = 2, .infer = infer, .gradient = gradient, .cost = cost};

static ppl_status infer_dw(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const ppl_rule r = {t, "embedding_dw", {"ids", "dy"}};
    PPL_TRY(ppl_rule_inputs(&r, 2, 2));
    const ppl_type *ids = t->in[0], *dy = t->in[1];
    if (ids->dtype != PPL_I32 || ids->ndim >= PPL_MAX_DIMS)
        return ppl_rule_bad(&r, 0, "i32 of at most %d dims", PPL_MAX_DIMS - 1);
    PPL_TRY(ppl_rule_float(&r, 1, 1));
    int64_t want[PPL_MAX_DIMS];
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) want[i] = ids->dim[i];
    want[ids->ndim] = -1;
    PPL_TRY(ppl_rule_want(&r, 1, dy->dtype, ids->ndim + 1, want));
    PPL_TRY(ppl_rule_int(&r, 0, "i0 (V)", 1, PPL_MAX_ELEMENTS));
    *outputs = 1;
    return ppl_rule_output(&r, out, t->accumulates ? t->acc_dtype : dy->dtype, 2,
                           (int64_t[]){t->attrs->i[0], ppl_last_dim(dy)});
}

static void cost_dw(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    ppl_rule_cost(t, out, 0, ppl_rule_count(t->in[1]), c);
    c->bytes += 2.0 * ppl_rule_count(t->in[1]) * (double)ppl_dtype_size(out->dtype); // the rows that are added to
    if (!t->accumulates) c->bytes += (double)ppl_type_bytes(out);                    // zeroed first
}

const ppl_op_def ppl_def_embedding_dw = {.name = "embedding_dw",
                                         .min_inputs = 2,
                                         .max_inputs = 2,
                                         .flags = PPL_OP_BACKWARD | PPL_OP_ACCUMULATES,
                                         .infer = infer_dw,
                                         .cost = cost_dw};
