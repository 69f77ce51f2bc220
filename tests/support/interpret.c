// interpret.c - see interpret.h. The forward nodes are one program of the device, the backward nodes another.
#include "support/interpret.h"
#include "ops/op.h"
#include <stdlib.h>
#include <string.h>

void ppl_interpret_spec(const ppl_graph *g, const ppl_node *n, ppl_kernel_spec *spec) {
    *spec = (ppl_kernel_spec){.op = n->op,
                              .inputs = n->inputs,
                              .outputs = n->outputs,
                              .attrs = n->attrs,
                              .accumulates = n->accumulates,
                              .threads = 1,
                              .param_input = -1};
    for (int32_t i = 0; i < n->inputs; i++) {
        spec->in[i] = g->values[n->in[i]].type;
        if (spec->param_input < 0 && g->values[n->in[i]].kind == PPL_VALUE_PARAM) spec->param_input = i;
    }
    for (int32_t i = 0; i < n->outputs; i++) spec->out[i] = g->values[n->out[i]].type;
}

static bool is_alias(const ppl_node *n) {
    return ppl_op_get(n->op)->flags & PPL_OP_ALIAS;
}

static ppl_status values_open(ppl_interpret *t) {
    const ppl_graph *g = t->graph;
    t->data = ppl_alloc(g->n_values * sizeof *t->data);
    t->owned = ppl_alloc(g->n_values * sizeof *t->owned);
    if (!t->data || !t->owned) return PPL_ERR_MEMORY;
    for (size_t v = 0; v < g->n_values; v++) {
        const ppl_value_info *info = &g->values[v];
        if (info->kind == PPL_VALUE_NODE && is_alias(&g->nodes[info->node])) continue;
        PPL_TRY(t->ops->memory_get(t->device, ppl_type_bytes(&info->type), &t->data[v]));
        t->owned[v] = true;
    }
    for (size_t i = 0; i < g->n_nodes; i++) // in order of execution: an alias's input is there before it
        if (is_alias(&g->nodes[i])) t->data[g->nodes[i].out[0]] = t->data[g->nodes[i].in[0]];
    return PPL_OK;
}

// nodes first .. end - 1 as program `which`
static ppl_status program_open(ppl_interpret *t, int which, size_t first, size_t end, size_t *scratch, size_t *pack) {
    const ppl_graph *g = t->graph;
    ppl_status st = PPL_ERR_MEMORY;
    ppl_device_node *nodes = ppl_alloc((end - first) * sizeof *nodes);
    ppl_call *calls = t->calls[which] = ppl_alloc((end - first) * sizeof *calls);
    int32_t count = 0;
    if (!nodes || !calls) goto fail;
    for (size_t i = first; i < end; i++) {
        const ppl_node *n = &g->nodes[i];
        if (is_alias(n)) continue;
        ppl_device_node *d = &nodes[count];
        ppl_interpret_spec(g, n, &d->spec);
        d->node = (int32_t)i;
        d->name = n->name;
        d->param = d->spec.param_input < 0 ? -1 : g->values[n->in[d->spec.param_input]].param;
        for (int32_t k = 0; k < n->inputs; k++) calls[count].in[k] = t->data[n->in[k]];
        for (int32_t k = 0; k < n->outputs; k++) calls[count].out[k] = t->data[n->out[k]];
        count++;
    }
    ppl_program_needs needs;
    PPL_GOTO(t->ops->program_build(t->device, 0, which, nodes, count, &needs, &t->program[which]));
    if (needs.scratch > *scratch) *scratch = needs.scratch;
    *pack += needs.pack;
fail:
    ppl_free(nodes);
    return st;
}

ppl_status ppl_interpret_open(ppl_interpret *t, const ppl_graph *g, const char *device, int32_t threads) {
    ppl_status st;
    size_t scratch = 0, pack = 0;
    ppl_device_options options = {.threads = threads, .fail_task = -1, .stall_task = -1};
    *t = (ppl_interpret){.graph = g, .packed_stale = true};
    PPL_GOTO(ppl_device_find(device, &t->ops));
    PPL_GOTO(t->ops->open(&options, &t->device));
    PPL_GOTO(values_open(t));
    PPL_GOTO(program_open(t, 0, 0, g->n_forward, &scratch, &pack));
    PPL_GOTO(program_open(t, 1, g->n_forward, g->n_nodes, &scratch, &pack));
    PPL_GOTO(t->ops->memory_get(t->device, scratch, &t->scratch));
    PPL_GOTO(t->ops->memory_get(t->device, pack, &t->packed));
    PPL_GOTO(t->ops->pack_bind(t->device, t->packed, pack));
    return PPL_OK;
fail:
    ppl_interpret_close(t);
    return st;
}

void ppl_interpret_close(ppl_interpret *t) {
    for (int which = 0; which < 2; which++) {
        if (t->program[which]) t->ops->program_free(t->device, t->program[which]);
        ppl_free(t->calls[which]);
    }
    for (size_t v = 0; t->data && t->owned && v < t->graph->n_values; v++)
        if (t->owned[v]) t->ops->memory_free(t->device, t->data[v]);
    if (t->scratch) t->ops->memory_free(t->device, t->scratch);
    if (t->packed) t->ops->memory_free(t->device, t->packed);
    ppl_free(t->data);
    ppl_free(t->owned);
    if (t->device) t->ops->close(t->device);
    *t = (ppl_interpret){0};
}

// The bytes of a value on the host: where the device has memory of its own, a copy that the caller gives back.
static void *host_get(const ppl_interpret *t, ppl_value v) {
    if (t->ops->flags & PPL_DEVICE_HOST) return t->data[v];
    return calloc(1, ppl_type_bytes(&t->graph->values[v].type));
}
static void host_free(const ppl_interpret *t, void *p) {
    if (!(t->ops->flags & PPL_DEVICE_HOST)) free(p);
}

void ppl_interpret_write(ppl_interpret *t, ppl_value v, const double *x) {
    const ppl_type *type = &t->graph->values[v].type;
    void *host = host_get(t, v);
    ppl_convert(host, type->dtype, x, PPL_F64, ppl_type_elements(type));
    if (host != t->data[v]) {
        t->ops->copy_in(t->device, t->data[v], host, ppl_type_bytes(type), 0);
        t->ops->synchronize(t->device);
    }
    host_free(t, host);
    if (t->graph->values[v].kind == PPL_VALUE_PARAM) t->packed_stale = true;
}

void ppl_interpret_read(const ppl_interpret *t, ppl_value v, double *x) {
    const ppl_type *type = &t->graph->values[v].type;
    void *host = host_get(t, v);
    if (host != t->data[v]) t->ops->copy_out(t->device, host, t->data[v], ppl_type_bytes(type), 0);
    ppl_convert(x, PPL_F64, host, type->dtype, ppl_type_elements(type));
    host_free(t, host);
}

static ppl_status program_run(ppl_interpret *t, int which, bool add) {
    for (size_t i = 0; i < t->graph->n_params && t->packed_stale; i++)
        PPL_TRY(t->ops->pack(t->device, (int32_t)i, t->data[t->graph->params[i].value]));
    t->packed_stale = false;
    size_t first = which ? t->graph->n_forward : 0, end = which ? t->graph->n_nodes : t->graph->n_forward;
    for (size_t i = 0; i < end - first; i++) t->calls[which][i].add = add;
    ppl_program_run run = {.kind = which, .calls = t->calls[which], .scratch = t->scratch, .env = &t->env};
    PPL_TRY(t->ops->program_run(t->device, t->program[which], &run));
    return t->ops->synchronize(t->device);
}

ppl_status ppl_interpret_forward(ppl_interpret *t) {
    return program_run(t, 0, false);
}

ppl_status ppl_interpret_backward(ppl_interpret *t, double seed, bool add) {
    if (t->graph->seed >= 0) ppl_interpret_write(t, t->graph->seed, &seed);
    return program_run(t, 1, add);
}

void ppl_interpret_gradient(const ppl_interpret *t, int32_t param, double *x) {
    const ppl_param *p = &t->graph->params[param];
    int64_t n = ppl_type_elements(&p->type);
    double *use = calloc((size_t)n, sizeof *use);
    memset(x, 0, (size_t)n * sizeof *x);
    for (int32_t k = 0; use && k < p->n_uses; k++) {
        ppl_interpret_read(t, p->uses[k], use);
        for (int64_t i = 0; i < n; i++) x[i] += use[i];
    }
    free(use);
}
