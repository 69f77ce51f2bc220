// graph.c - tracing: layers, inputs, parameters and operators become values and nodes. Before: a script's layers. After:
// differentiate.c. A failed call leaves the graph as it was.
#include "graph/graph.h"
#include "base/random.h"
#include "graph/names.h"
#include "graph/stages.h"
#include "ops/rule.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

ppl_status ppl_graph_open(int32_t dtype, ppl_graph **out) {
    if (dtype != PPL_F32 && dtype != PPL_BF16 && dtype != PPL_F64)
        return ppl_fail(PPL_ERR_ARG, "graph: dtype is %d, want f32, bf16 or f64", dtype);
    ppl_graph *g = ppl_alloc(sizeof *g);
    if (!g) return PPL_ERR_MEMORY;
    *g = (ppl_graph){.dtype = dtype, .loss = -1, .seed = -1};
    if (!(g->names = ppl_alloc(sizeof *g->names))) {
        ppl_free(g);
        return PPL_ERR_MEMORY;
    }
    *out = g;
    return PPL_OK;
}

void ppl_graph_close(ppl_graph *g) {
    if (!g) return;
    ppl_names_clear(g->names);
    ppl_free(g->names);
    free(g->values);
    free(g->nodes);
    free(g->params);
    free(g->layers);
    ppl_arena_clear(&g->arena);
    ppl_free(g);
}

// A name is a line's worth of text: it stands in listings, errors and checkpoints.
static ppl_status check_name(const char *what, const char *name) {
    if (!name || !*name) return ppl_fail(PPL_ERR_ARG, "%s: its name is empty, want a text", what);
    size_t length = 0;
    for (const char *c = name; *c; c++, length++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return ppl_fail(PPL_ERR_ARG, "%s: its name has the control character %d, want plain text", what, *c);
        if (length >= PPL_NAME_BYTES - 1)
            return ppl_fail(PPL_ERR_ARG, "%s: its name '%.20s...' is too long, want at most %d bytes", what, name,
                            PPL_NAME_BYTES - 1);
    }
    return PPL_OK;
}

static ppl_status check_tracing(const ppl_graph *g, const char *what, const char *name) {
    PPL_TRY(check_name(what, name));
    if (g->loss == -1) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "%s %s: the loss is named already, want it before", what, name);
}

// Room for one more of everything a call may add, and a copy of its name: what can fail, before anything changes.
static ppl_status make_room(ppl_graph *g, const char *name, char **copy) {
    PPL_TRY(ppl_grow((void **)&g->values, &g->room_values, g->n_values + PPL_MAX_OUTPUTS, sizeof *g->values));
    PPL_TRY(ppl_grow((void **)&g->nodes, &g->room_nodes, g->n_nodes + 1, sizeof *g->nodes));
    PPL_TRY(ppl_grow((void **)&g->params, &g->room_params, g->n_params + 1, sizeof *g->params));
    PPL_TRY(ppl_grow((void **)&g->layers, &g->room_layers, g->n_layers + 1, sizeof *g->layers));
    PPL_TRY(ppl_names_reserve(g->names));
    *copy = ppl_arena_text(&g->arena, name);
    return *copy ? PPL_OK : PPL_ERR_MEMORY;
}

ppl_status ppl_graph_layer(ppl_graph *g, const char *name, double weight) {
    char *copy;
    PPL_TRY(check_tracing(g, "layer", name));
    if (!(weight >= 0) || isinf(weight))
        return ppl_fail(PPL_ERR_ARG, "layer %s: its weight is %g, want a finite number, 0 or more", name, weight);
    if (ppl_names_find(g->names, PPL_NAMED_LAYER, name) != -1)
        return ppl_fail(PPL_ERR_ARG, "layer %s: there is one of this name already, want another name", name);
    PPL_TRY(make_room(g, name, &copy));
    ppl_names_add(g->names, PPL_NAMED_LAYER, copy, (int32_t)g->n_layers);
    g->layers[g->n_layers++] = (ppl_layer){.name = copy, .weight = weight};
    return PPL_OK;
}

ppl_status ppl_graph_input(ppl_graph *g, const char *name, const ppl_type *type, ppl_value *out) {
    char *copy, what[PPL_NAME_BYTES + 16], is[128], want[128];
    PPL_TRY(check_tracing(g, "input", name));
    snprintf(what, sizeof what, "input %s", name);
    PPL_TRY(ppl_rule_type(what, type));
    if (type->ndim < 1) return ppl_fail(PPL_ERR_SHAPE, "%s: it is a scalar, want dim 0 to be the sample", what);
    if (type->dtype != PPL_I32 && type->dtype != g->dtype)
        return ppl_fail(PPL_ERR_SHAPE, "%s: it is %s, want i32 or the graph's %s", what, ppl_type_print(type, is),
                        ppl_dtype_name(g->dtype));
    int32_t found = ppl_names_find(g->names, PPL_NAMED_INPUT, name);
    if (found != -1) {
        if (!ppl_type_equal(type, &g->values[found].type))
            return ppl_fail(PPL_ERR_SHAPE, "%s: it is %s, want %s as where it was first used", what,
                            ppl_type_print(type, is), ppl_type_print(&g->values[found].type, want));
        *out = found;
        return PPL_OK;
    }
    PPL_TRY(make_room(g, name, &copy));
    *out = (ppl_value)g->n_values++;
    g->values[*out] = (ppl_value_info){.type = ppl_type_make(type->dtype, type->ndim, type->dim),
                                       .kind = PPL_VALUE_INPUT,
                                       .node = -1,
                                       .param = -1,
                                       .data = true,
                                       .name = copy};
    ppl_names_add(g->names, PPL_NAMED_INPUT, copy, *out);
    return PPL_OK;
}

static ppl_status check_spec(const char *what, const ppl_param_spec *s) {
    if (s->init < PPL_INIT_ZEROS || s->init > PPL_INIT_UNIFORM)
        return ppl_fail(PPL_ERR_ARG, "%s: init is %d, want 0..%d", what, s->init, PPL_INIT_UNIFORM);
    if (s->decay < 0 || s->decay > 1 || s->frozen < 0 || s->frozen > 1)
        return ppl_fail(PPL_ERR_ARG, "%s: decay is %d and frozen %d, want 0 or 1", what, s->decay, s->frozen);
    if (!(s->a >= 0) || isinf(s->a))
        return ppl_fail(PPL_ERR_ARG, "%s: a is %g, want a finite number, 0 or more", what, s->a);
    return PPL_OK;
}

// A parameter that is asked for again is tied, if it is the same.
static ppl_status tie(const ppl_graph *g, int32_t param, const char *what, const ppl_type *type,
                      const ppl_param_spec *spec, ppl_value *out) {
    const ppl_param *p = &g->params[param];
    char is[128], want[128];
    ppl_type master = *type;
    master.dtype = p->type.dtype;
    if (!ppl_type_equal(&master, &p->type))
        return ppl_fail(PPL_ERR_SHAPE, "%s: it is %s, want %s as where it was first used", what,
                        ppl_type_print(&master, is), ppl_type_print(&p->type, want));
    if (spec->init != p->spec.init || spec->decay != p->spec.decay || spec->frozen != p->spec.frozen ||
        spec->a != p->spec.a)
        return ppl_fail(PPL_ERR_SHAPE,
                        "%s: init %d, decay %d, frozen %d, a %g, want %d, %d, %d, %g as where it was first used", what,
                        spec->init, spec->decay, spec->frozen, spec->a, p->spec.init, p->spec.decay, p->spec.frozen,
                        p->spec.a);
    *out = p->value;
    return PPL_OK;
}

ppl_status ppl_graph_param(ppl_graph *g, const char *name, int32_t ndim, const int64_t *dim, const ppl_param_spec *spec,
                           ppl_value *out) {
    char *copy, what[PPL_NAME_BYTES + 16];
    PPL_TRY(check_tracing(g, "parameter", name));
    snprintf(what, sizeof what, "parameter %s", name);
    ppl_type type = {.dtype = g->dtype, .ndim = ndim, .dim = {1, 1, 1, 1, 1, 1}};
    for (int32_t i = 0; i < ndim && i < PPL_MAX_DIMS; i++) type.dim[i] = dim[i];
    PPL_TRY(ppl_rule_type(what, &type));
    PPL_TRY(check_spec(what, spec));
    int32_t found = ppl_names_find(g->names, PPL_NAMED_PARAM, name);
    if (found != -1) return tie(g, found, what, &type, spec, out);
    PPL_TRY(make_room(g, name, &copy));
    int32_t param = (int32_t)g->n_params++;
    *out = (ppl_value)g->n_values++;
    g->values[*out] = (ppl_value_info){.type = type, .kind = PPL_VALUE_PARAM, .node = -1, .param = param, .name = copy};
    g->params[param] = (ppl_param){.name = copy, .type = type, .spec = *spec, .value = *out};
    g->params[param].type.dtype = ppl_dtype_acc(g->dtype);
    ppl_names_add(g->names, PPL_NAMED_PARAM, copy, param);
    return PPL_OK;
}

// The types of a node's outputs by its operator's rule.
static ppl_status infer(const ppl_graph *g, int32_t op, bool accumulates, const ppl_value *in, int32_t inputs,
                        const ppl_attrs *attrs, ppl_type *out, int32_t *outputs) {
    if (op < 0 || op >= PPL_OPS) return ppl_fail(PPL_ERR_ARG, "operator is %d, want 0..%d", op, PPL_OPS - 1);
    const ppl_op_def *def = ppl_op_get(op);
    if (inputs < def->min_inputs || inputs > def->max_inputs)
        return ppl_fail(PPL_ERR_SHAPE, "%s: it has %d inputs, want %d..%d", def->name, inputs, def->min_inputs,
                        def->max_inputs);
    if (accumulates && !(def->flags & PPL_OP_ACCUMULATES))
        return ppl_fail(PPL_ERR_ARG, "%s: it does not accumulate, want an operator that does", def->name);
    ppl_op_types t = {
        .inputs = inputs, .attrs = attrs, .acc_dtype = ppl_dtype_acc(g->dtype), .accumulates = accumulates};
    for (int32_t k = 0; k < inputs; k++) {
        if (in[k] < 0 || (size_t)in[k] >= g->n_values)
            return ppl_fail(PPL_ERR_ARG, "%s: input %d is value %d, want 0..%zu", def->name, k, in[k],
                            g->n_values ? g->n_values - 1 : 0);
        t.in[k] = &g->values[in[k]].type;
    }
    return def->infer(&t, out, outputs);
}

ppl_status ppl_graph_add_node(ppl_graph *g, int32_t op, const char *name, int32_t layer, int32_t phase,
                              bool accumulates, const ppl_value *in, int32_t inputs, const ppl_attrs *attrs,
                              ppl_value *out) {
    static const ppl_attrs none;
    ppl_type types[PPL_MAX_OUTPUTS];
    ppl_node n = {.op = op,
                  .layer = layer,
                  .phase = phase,
                  .inputs = inputs,
                  .attrs = attrs ? *attrs : none,
                  .accumulates = accumulates,
                  .name = name};
    ppl_status st = infer(g, op, accumulates, in, inputs, &n.attrs, types, &n.outputs);
    if (st != PPL_OK) return ppl_prefix(st, "layer %s, node %s: ", g->layers[layer].name, name);
    PPL_TRY(ppl_grow((void **)&g->values, &g->room_values, g->n_values + PPL_MAX_OUTPUTS, sizeof *g->values));
    PPL_TRY(ppl_grow((void **)&g->nodes, &g->room_nodes, g->n_nodes + 1, sizeof *g->nodes));
    if (g->n_values > INT32_MAX - 64 || g->n_nodes > INT32_MAX - 64)
        return ppl_fail(PPL_ERR_MEMORY, "graph: it has %zu nodes, want fewer", g->n_nodes);
    bool data = false;
    for (int32_t k = 0; k < inputs; k++) {
        n.in[k] = in[k];
        data = data || g->values[in[k]].data;
    }
    for (int32_t k = 0; k < n.outputs; k++) {
        out[k] = n.out[k] = (ppl_value)g->n_values++;
        g->values[out[k]] = (ppl_value_info){.type = types[k],
                                             .kind = accumulates ? PPL_VALUE_ACCUMULATOR : PPL_VALUE_NODE,
                                             .node = (int32_t)g->n_nodes,
                                             .output = k,
                                             .param = -1,
                                             .data = data,
                                             .name = name};
    }
    g->nodes[g->n_nodes++] = n;
    return PPL_OK;
}

// A random operator draws for each sample apart, so that its numbers do not depend on how a batch is cut into
// microbatches: dim 0 of what it takes must be the samples, as in every input.
static ppl_status check_samples(const ppl_graph *g, const char *name, ppl_value x) {
    char text[128];
    if (x < 0 || (size_t)x >= g->n_values || !g->values[x].data) return PPL_OK; // the operator's own rule judges it
    const ppl_type *t = &g->values[x].type;
    for (size_t v = 0; v < g->n_values; v++) { // the first input tells how many samples there are
        const ppl_value_info *input = &g->values[v];
        if (input->kind != PPL_VALUE_INPUT) continue;
        if (t->ndim && t->dim[0] == input->type.dim[0]) break;
        return ppl_fail(PPL_ERR_SHAPE, "node %s: its input is %s, want dim 0 to be the %lld samples of input %s", name,
                        ppl_type_print(t, text), (long long)input->type.dim[0], input->name);
    }
    return PPL_OK;
}

ppl_status ppl_graph_apply(ppl_graph *g, int32_t op, const char *name, const ppl_value *in, int32_t inputs,
                           const ppl_attrs *attrs, ppl_value *out) {
    char *copy;
    PPL_TRY(check_tracing(g, "node", name));
    if (!g->n_layers) return ppl_fail(PPL_ERR_ARG, "node %s: there is no layer yet, want one begun before", name);
    if (op < 0 || op >= PPL_OPS)
        return ppl_fail(PPL_ERR_ARG, "node %s: operator is %d, want 0..%d", name, op, PPL_OPS - 1);
    const ppl_op_def *def = ppl_op_get(op);
    if (def->flags & PPL_OP_BACKWARD)
        return ppl_fail(PPL_ERR_ARG, "node %s: %s is a gradient's own operator, want a forward one", name, def->name);
    if (ppl_names_find(g->names, PPL_NAMED_NODE, name) != -1)
        return ppl_fail(PPL_ERR_ARG, "node %s: there is one of this name already, want another name", name);
    ppl_attrs own = attrs ? *attrs : (ppl_attrs){0};
    if (def->flags & PPL_OP_RANDOM && inputs > 0) PPL_TRY(check_samples(g, name, in[0]));
    if (def->flags & PPL_OP_RANDOM) own.i[7] = (int64_t)ppl_name_key(name);
    PPL_TRY(make_room(g, name, &copy));
    int32_t layer = (int32_t)g->n_layers - 1;
    PPL_TRY(ppl_graph_add_node(g, op, copy, layer, PPL_PHASE_F, false, in, inputs, &own, out));
    ppl_names_add(g->names, PPL_NAMED_NODE, copy, (int32_t)g->n_nodes - 1);
    g->n_forward = g->n_nodes;
    return PPL_OK;
}

ppl_status ppl_graph_loss(ppl_graph *g, ppl_value loss) {
    char text[128];
    if (g->loss != -1) return ppl_fail(PPL_ERR_ARG, "loss: it is named already, want it once");
    if (loss < 0 || (size_t)loss >= g->n_values)
        return ppl_fail(PPL_ERR_ARG, "loss: it is value %d, want 0..%zu", loss, g->n_values ? g->n_values - 1 : 0);
    const ppl_value_info *v = &g->values[loss];
    int32_t acc = ppl_dtype_acc(g->dtype);
    if (v->type.ndim != 0 || v->type.dtype != acc)
        return ppl_fail(PPL_ERR_SHAPE, "loss: %s is %s, want a scalar %s", v->name, ppl_type_print(&v->type, text),
                        ppl_dtype_name(acc));
    if (g->values[ppl_graph_root(g, loss)].kind != PPL_VALUE_NODE)
        return ppl_fail(PPL_ERR_ARG, "loss: %s is no operator's result, want one", v->name);
    g->loss = loss;
    return PPL_OK;
}

ppl_status ppl_graph_type(const ppl_graph *g, ppl_value v, ppl_type *out) {
    if (v < 0 || (size_t)v >= g->n_values)
        return ppl_fail(PPL_ERR_ARG, "graph: value is %d, want 0..%zu", v, g->n_values ? g->n_values - 1 : 0);
    *out = g->values[v].type;
    return PPL_OK;
}
