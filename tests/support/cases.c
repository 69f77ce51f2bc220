// cases.c - see cases.h.
#include "support/cases.h"
#include "base/random.h"
#include "train/store.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ppl_case_print(const ppl_case *c, char text[256]) {
    int at = snprintf(text, 256, "%s", ppl_op_name(c->op));
    for (int k = 0; k < 4 && c->in[k].kind != CASE_NONE; k++) {
        at += snprintf(text + at, 256 - (size_t)at, " %c(", " wxdtics"[c->in[k].kind]);
        for (int32_t i = 0; i < c->in[k].ndim; i++)
            at += snprintf(text + at, 256 - (size_t)at, "%s%" PRId64, i ? ", " : "", c->in[k].dim[i]);
        at += snprintf(text + at, 256 - (size_t)at, ")");
    }
    at += snprintf(text + at, 256 - (size_t)at, " i");
    for (int i = 0; i < 4; i++) at += snprintf(text + at, 256 - (size_t)at, " %" PRId64, c->attrs.i[i]);
    snprintf(text + at, 256 - (size_t)at, " f %g%s outputs %d", c->attrs.f[0], c->evaluating ? " evaluating" : "",
             c->outputs);
    return text;
}

// Names begin with the letter of what they hold, which ppl_case_fill reads.
static ppl_status input_build(ppl_graph *g, const ppl_case_input *in, int k, ppl_value *out) {
    char name[16], param[16], sum[16];
    bool whole = in->kind == CASE_IDS || in->kind == CASE_CLASSES;
    ppl_type type = ppl_type_make(whole ? PPL_I32 : g->dtype, in->ndim, in->dim);
    ppl_param_spec spec = {.init = PPL_INIT_UNIFORM, .a = 1};
    snprintf(name, sizeof name, "%c%d", " wddtic"[in->kind], k);
    snprintf(param, sizeof param, "p%d", k);
    snprintf(sum, sizeof sum, "x%d", k);
    ppl_value pair[2];
    switch ((ppl_case_kind)in->kind) {
    case CASE_PARAM: return ppl_graph_param(g, name, in->ndim, in->dim, &spec, out);
    case CASE_ACTIVE:
        PPL_TRY(ppl_graph_input(g, name, &type, &pair[0]));
        PPL_TRY(ppl_graph_param(g, param, in->ndim, in->dim, &spec, &pair[1]));
        return ppl_graph_apply(g, PPL_OP_ADD, sum, pair, 2, &(ppl_attrs){0}, out);
    case CASE_DATA:
    case CASE_TARGET:
    case CASE_IDS:
    case CASE_CLASSES: return ppl_graph_input(g, name, &type, out);
    case CASE_NONE:
    case CASE_AGAIN: break;
    }
    return ppl_fail(PPL_ERR_ARG, "case: input of kind %d", in->kind);
}

static ppl_status trace(const ppl_case *c, ppl_graph *g) {
    ppl_value in[4], y[PPL_MAX_OUTPUTS];
    int32_t inputs = 0;
    PPL_TRY(ppl_graph_layer(g, "layer", 1));
    for (; inputs < 4 && c->in[inputs].kind != CASE_NONE; inputs++) {
        if (c->in[inputs].kind == CASE_AGAIN) in[inputs] = in[0];
        else PPL_TRY(input_build(g, &c->in[inputs], inputs, &in[inputs]));
    }
    PPL_TRY(ppl_graph_apply(g, c->op, "tried", in, inputs, &c->attrs, y));
    if (c->outputs == 1) y[0] = y[1];
    if (c->outputs == 2) PPL_TRY(ppl_graph_apply(g, PPL_OP_ADD, "sum", y, 2, &(ppl_attrs){0}, y));
    if (c->op != PPL_OP_CROSS_ENTROPY && c->op != PPL_OP_MSE) {
        ppl_value pair[2] = {y[0], -1};
        PPL_TRY(ppl_graph_input(g, "target", ppl_graph_type_of(g, y[0]), &pair[1]));
        PPL_TRY(ppl_graph_apply(g, PPL_OP_MSE, "loss", pair, 2, &(ppl_attrs){0}, y));
    }
    PPL_TRY(ppl_graph_loss(g, y[0]));
    return ppl_graph_differentiate(g);
}

ppl_status ppl_case_build(const ppl_case *c, int32_t dtype, ppl_graph **out) {
    PPL_TRY(ppl_graph_open(dtype, out));
    ppl_status st = trace(c, *out);
    if (st != PPL_OK) ppl_graph_close(*out);
    return st;
}

// n numbers of an input or parameter, by the letter its name begins with.
static void input_fill(const ppl_case *c, char letter, double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) { // uniform in [-1, 1) so far
        double unit = (x[i] + 1) / 2;
        if (c->gain != 0) x[i] *= c->gain;
        if (letter == 'i') x[i] = floor(unit * c->limit);
        if (letter == 'c') x[i] = floor(unit * (c->limit + 1)) - 1;
        if (letter == 't' && i % 5 == 3) x[i] = NAN;
    }
}

void ppl_case_fill(const ppl_case *c, ppl_interpret *t, uint64_t seed) {
    const ppl_graph *g = t->graph;
    ppl_param_spec spec = {.init = PPL_INIT_UNIFORM, .a = 1};
    for (size_t v = 0; v < g->n_values; v++) {
        const ppl_value_info *info = &g->values[v];
        if (info->kind != PPL_VALUE_INPUT && info->kind != PPL_VALUE_PARAM) continue;
        int64_t n = ppl_type_elements(&info->type);
        double *x = ppl_alloc((size_t)n * sizeof *x);
        if (!x) continue; // values stay zero, and the test finds them so
        ppl_init_fill(x, PPL_F64, n, &spec, seed, info->name);
        input_fill(c, info->kind == PPL_VALUE_INPUT ? info->name[0] : 'p', x, n);
        ppl_interpret_write(t, (ppl_value)v, x);
        ppl_free(x);
    }
    t->env = (ppl_call_env){.seed = seed, .step = 3, .first_sample = 5, .training = !c->evaluating};
}
