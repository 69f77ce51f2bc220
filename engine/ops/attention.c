// attention.c - ATTENTION: scaled dot-product attention with H query heads that share K key and value heads, from one
// packed input or from three; the scores are never stored. Gradient from the result and its log-sum-exp (Dao et al.,
// "FlashAttention", 2022).
#include "ops/rule.h"
#include "ops/table.h"

typedef struct dims {
    int64_t batch, time, heads, kv, size; // size: of a head
} dims;

// Attributes, and the inputs from `first` on (the packed one, or q, k, v): what both directions check.
static ppl_status check(const ppl_rule *r, int32_t first, bool packed, dims *d) {
    const ppl_type *x = r->t->in[first];
    PPL_TRY(ppl_rule_float(r, first, 0));
    if (x->ndim != 3) return ppl_rule_bad(r, first, packed ? "(B, T, (H + 2 K) D)" : "(B, T, H D)");
    PPL_TRY(ppl_rule_int(r, 0, "i0 (H)", 1, INT32_MAX));
    d->heads = r->t->attrs->i[0];
    PPL_TRY(ppl_rule_int(r, 1, "i1 (K)", 1, d->heads));
    d->kv = r->t->attrs->i[1];
    if (d->heads % d->kv)
        return ppl_fail(PPL_ERR_ARG, "%s: i1 (K) is %lld, want a divisor of i0 (H) = %lld", r->op, (long long)d->kv,
                        (long long)d->heads);
    PPL_TRY(ppl_rule_int(r, 2, "i2 (causal)", 0, 1));
    double scale = r->t->attrs->f[0];
    if (!(scale >= 0 && scale - scale == 0))
        return ppl_rule_bad_number(r, 0, "f0 (scale)", "a finite number, 0 or more");
    d->batch = x->dim[0];
    d->time = x->dim[1];
    int64_t parts = packed ? d->heads + 2 * d->kv : d->heads;
    if (x->dim[2] % parts)
        return ppl_rule_bad(r, first, "a last dim that is a multiple of %s = %lld", packed ? "H + 2 K" : "H",
                            (long long)parts);
    d->size = x->dim[2] / parts;
    for (int32_t k = 1; !packed && k < 3; k++)
        PPL_TRY(ppl_rule_want(r, first + k, x->dtype, 3, (int64_t[]){d->batch, d->time, d->kv * d->size}));
    return PPL_OK;
}

static ppl_status infer(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const bool packed = t->inputs == 1;
    const ppl_rule r = {t, "attention", {packed ? "qkv" : "q", "k", "v"}};
    dims d;
    if (t->inputs == 2) return ppl_fail(PPL_ERR_SHAPE, "attention: it has 2 inputs, want 1 (qkv) or 3 (q, k, v)");
    PPL_TRY(ppl_rule_inputs(&r, 1, 3));
    PPL_TRY(check(&r, 0, packed, &d));
    PPL_TRY(ppl_rule_output(&r, &out[0], t->in[0]->dtype, 3, (int64_t[]){d.batch, d.time, d.heads * d.size}));
    *outputs = 2;
    return ppl_rule_output(&r, &out[1], t->acc_dtype, 3, (int64_t[]){d.batch, d.heads, d.time});
}

static ppl_status gradient(ppl_diff *d, const ppl_node *n, const ppl_value *dy) {
    PPL_TRY(ppl_diff_first_only(n, dy));
    ppl_value grad[3], in[6] = {dy[0], n->out[0], n->out[1]};
    for (int32_t k = 0; k < n->inputs; k++) in[3 + k] = n->in[k];
    PPL_TRY(ppl_diff_apply(d, PPL_OP_ATTENTION_GRAD, in, 3 + n->inputs, &n->attrs, grad));
    for (int32_t k = 0; k < n->inputs; k++)
        if (ppl_diff_wants(d, k)) PPL_TRY(ppl_diff_contribute(d, k, grad[k]));
    return PPL_OK;
}

static ppl_status infer_grad(const ppl_op_types *t, ppl_type *out, int32_t *outputs) {
    const bool packed = t->inputs == 4;
    const ppl_rule r = {t, "attention_grad", {"dy", "o", "lse", packed ? "qkv" : "q", "k", "v"}};
    dims d;
    if (t->inputs == 5)
        return ppl_fail(PPL_ERR_SHAPE,
                        "attention_grad: it has 5 inputs, want 4 (dy, o, lse, qkv) or 6 (dy, o, lse, q, k, v)");
    PPL_TRY(ppl_rule_inputs(&r, 4, 6));
    PPL_TRY(check(&r, 3, packed, &d));
    for (int32_t k = 0; k < 2; k++)
        PPL_TRY(ppl_rule_want(&r, k, t->in[3]->dtype, 3, (int64_t[]){d.batch, d.time, d.heads * d.size}));
    PPL_TRY(ppl_rule_want(&r, 2, t->acc_dtype, 3, (int64_t[]){d.batch, d.heads, d.time}));
    *outputs = t->inputs - 3;
    for (int32_t k = 0; k < *outputs; k++) out[k] = *t->in[3 + k];
    return PPL_OK;
}

// Scores that are computed, times the size of a head, and scores alone.
static double products(const ppl_op_types *t, const ppl_type *lse, int32_t q, int32_t packed_parts, double *scores) {
    double time = (double)lse->dim[2], heads = (double)lse->dim[1];
    double pairs = t->attrs->i[2] ? time * (time + 1) / 2 : time * time;
    *scores = (double)lse->dim[0] * heads * pairs;
    double parts = packed_parts ? heads + 2.0 * (double)t->attrs->i[1] : heads;
    return *scores * (double)t->in[q]->dim[2] / parts;
}

static void cost(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    double scores, wide = products(t, &out[1], 0, t->inputs == 1, &scores);
    ppl_rule_cost(t, out, 2, 4.0 * wide + 14.0 * scores, c); // two products, a softmax
}

static void cost_grad(const ppl_op_types *t, const ppl_type *out, ppl_cost *c) {
    double scores, wide = products(t, t->in[2], 3, t->inputs == 4, &scores);
    ppl_rule_cost(t, out, t->inputs - 3, 10.0 * wide + 16.0 * scores, c); // the scores again, then four products
}

const ppl_op_def ppl_def_attention = {
    .name = "attention", .min_inputs = 1, .max_inputs = 3, .infer = infer, .gradient = gradient, .cost = cost};
const ppl_op_def ppl_def_attention_grad = {.name = "attention_grad",
                                           .min_inputs = 4,
                                           .max_inputs = 6,
                                           .flags = PPL_OP_BACKWARD,
                                           .infer = infer_grad,
                                           .cost = cost_grad};
