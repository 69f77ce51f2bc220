// rule.c - the checks that shape rules share, with one form of error. Before: graph.c and eager tensors ask an operator's
// rule; after: kernels rely on what passed here.
#include "ops/rule.h"
#include <stdarg.h>
#include <stdio.h>

ppl_status ppl_rule_type(const char *what, const ppl_type *type) {
    if (type->dtype < 0 || type->dtype >= PPL_DTYPES)
        return ppl_fail(PPL_ERR_SHAPE, "%s: dtype is %d, want f32, bf16, f64 or i32", what, type->dtype);
    if (type->ndim < 0 || type->ndim > PPL_MAX_DIMS)
        return ppl_fail(PPL_ERR_SHAPE, "%s: it has %d dims, want 0..%d", what, type->ndim, PPL_MAX_DIMS);
    int64_t elements = 1;
    for (int32_t i = 0; i < type->ndim; i++) {
        if (type->dim[i] < 1)
            return ppl_fail(PPL_ERR_SHAPE, "%s: dim %d is %lld, want at least 1", what, i, (long long)type->dim[i]);
        if (type->dim[i] > PPL_MAX_ELEMENTS / elements)
            return ppl_fail(PPL_ERR_SHAPE, "%s: it has more than 2^40 elements, want that at most", what);
        elements *= type->dim[i];
    }
    return PPL_OK;
}

ppl_status ppl_rule_inputs(const ppl_rule *r, int32_t min, int32_t max) {
    int32_t n = r->t->inputs;
    if (n < min || n > max) {
        if (min == max)
            return ppl_fail(PPL_ERR_SHAPE, "%s: it has %d input%s, want %d", r->op, n, n == 1 ? "" : "s", min);
        return ppl_fail(PPL_ERR_SHAPE, "%s: it has %d input%s, want %d..%d", r->op, n, n == 1 ? "" : "s", min, max);
    }
    for (int32_t k = 0; k < n; k++) {
        char what[96];
        snprintf(what, sizeof what, "%s: input %d", r->op, k);
        PPL_TRY(ppl_rule_type(what, r->t->in[k]));
    }
    return PPL_OK;
}

static const char *name_of(const ppl_rule *r, int32_t k, char text[16]) {
    if (r->input[k]) return r->input[k];
    snprintf(text, 16, "input %d", k);
    return text;
}

ppl_status ppl_rule_bad(const ppl_rule *r, int32_t k, const char *want, ...) {
    char is[128], wanted[256], beside[160] = "", first[128], name[16], name0[16];
    va_list args;
    va_start(args, want);
    vsnprintf(wanted, sizeof wanted, want, args);
    va_end(args);
    if (k > 0)
        snprintf(beside, sizeof beside, " beside %s %s", name_of(r, 0, name0), ppl_type_print(r->t->in[0], first));
    return ppl_fail(PPL_ERR_SHAPE, "%s: %s is %s, want %s%s", r->op, name_of(r, k, name),
                    ppl_type_print(r->t->in[k], is), wanted, beside);
}

ppl_status ppl_rule_float(const ppl_rule *r, int32_t k, int32_t min_ndim) {
    const ppl_type *t = r->t->in[k];
    if (t->dtype == PPL_I32) return ppl_rule_bad(r, k, "a floating dtype");
    if (t->ndim < min_ndim) return ppl_rule_bad(r, k, "at least %d dim%s", min_ndim, min_ndim == 1 ? "" : "s");
    return PPL_OK;
}

ppl_status ppl_rule_want(const ppl_rule *r, int32_t k, int32_t dtype, int32_t ndim, const int64_t *dim) {
    const ppl_type *t = r->t->in[k];
    bool fits = t->dtype == dtype && t->ndim == ndim;
    for (int32_t i = 0; fits && i < ndim; i++) fits = dim[i] == -1 || dim[i] == t->dim[i];
    if (fits) return PPL_OK;
    char want[192];
    int at = snprintf(want, sizeof want, "%s (", ppl_dtype_name(dtype));
    for (int32_t i = 0; i < ndim; i++) {
        const char *comma = i ? ", " : "";
        if (dim[i] == -1) at += snprintf(want + at, sizeof want - (size_t)at, "%sany", comma);
        else at += snprintf(want + at, sizeof want - (size_t)at, "%s%lld", comma, (long long)dim[i]);
    }
    snprintf(want + at, sizeof want - (size_t)at, ")");
    return ppl_rule_bad(r, k, "%s", want);
}

ppl_status ppl_rule_same(const ppl_rule *r, int32_t k, int32_t like) {
    const ppl_type *t = r->t->in[like];
    return ppl_rule_want(r, k, t->dtype, t->ndim, t->dim);
}

ppl_status ppl_rule_int(const ppl_rule *r, int32_t slot, const char *what, int64_t lo, int64_t hi) {
    int64_t is = r->t->attrs->i[slot];
    if (is >= lo && is <= hi) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "%s: %s is %lld, want %lld..%lld", r->op, what, (long long)is, (long long)lo,
                    (long long)hi);
}

ppl_status ppl_rule_bad_number(const ppl_rule *r, int32_t slot, const char *what, const char *want) {
    return ppl_fail(PPL_ERR_ARG, "%s: %s is %g, want %s", r->op, what, r->t->attrs->f[slot], want);
}

ppl_status ppl_rule_output(const ppl_rule *r, ppl_type *out, int32_t dtype, int32_t ndim, const int64_t *dim) {
    *out = (ppl_type){.dtype = dtype, .ndim = ndim, .dim = {1, 1, 1, 1, 1, 1}};
    for (int32_t i = 0; i < ndim && i < PPL_MAX_DIMS; i++) out->dim[i] = dim[i];
    char what[96];
    snprintf(what, sizeof what, "%s: the result", r->op);
    return ppl_rule_type(what, out);
}

void ppl_rule_cost(const ppl_op_types *t, const ppl_type *out, int32_t outputs, double flops, ppl_cost *cost) {
    cost->flops = flops;
    cost->bytes = 0;
    for (int32_t k = 0; k < t->inputs; k++) cost->bytes += (double)ppl_type_bytes(t->in[k]);
    for (int32_t k = 0; k < outputs; k++) cost->bytes += (double)ppl_type_bytes(&out[k]) * (t->accumulates ? 2 : 1);
}

double ppl_rule_act_flops(int64_t act) {
    return act == PPL_ACT_NONE ? 0 : act == PPL_ACT_RELU ? 1 : 12;
}
