// differentiate.c - adds the backward nodes to a traced graph. Before: graph.c. After: stages.c cuts forward and backward
// nodes alike, so no cut changes what is added to what.
#include "graph/recompute.h"
#include "ops/op.h"
#include <assert.h>
#include <stdlib.h>

// One contribution to a parameter's gradient.
typedef struct use {
    int32_t param, node, input; // the forward node that reads it, and as which input
    ppl_value accumulator;
} use;

struct ppl_diff {
    ppl_graph *g;
    bool *needs;     // [forward values]: a trainable parameter feeds it
    ppl_value *grad; // [forward values]: the sum of the contributions so far; -1 none
    use *uses;       // found so far, from the last
    size_t n_uses, room_uses;
    ppl_node node;                   // the forward node at work: a copy, since nodes move when they are added
    int32_t index;                   // its index
    size_t first;                    // the first node that its rule emitted
    ppl_value given[PPL_MAX_INPUTS]; // its contributions
    ppl_recompute again;             // values of recomputed layers
};

bool ppl_diff_wants(const ppl_diff *d, int32_t input) {
    return d->needs[d->node.in[input]];
}

const ppl_type *ppl_diff_type(const ppl_diff *d, ppl_value v) {
    return &d->g->values[v].type;
}

ppl_status ppl_diff_apply(ppl_diff *d, int32_t op, const ppl_value *in, int32_t inputs, const ppl_attrs *attrs,
                          ppl_value *out) {
    ppl_value from[PPL_MAX_INPUTS];
    for (int32_t k = 0; k < inputs; k++) PPL_TRY(ppl_recompute_value(&d->again, in[k], d->node.layer, &from[k]));
    return ppl_graph_add_node(d->g, op, d->node.name, d->node.layer, PPL_PHASE_W, false, from, inputs, attrs, out);
}

ppl_status ppl_diff_contribute(ppl_diff *d, int32_t input, ppl_value grad) {
    assert(d->given[input] == -1 && "one contribution an input");
    assert(ppl_type_equal(ppl_diff_type(d, grad), ppl_diff_type(d, d->node.in[input])));
    if (ppl_diff_wants(d, input)) d->given[input] = grad;
    return PPL_OK;
}

ppl_status ppl_diff_first_only(const ppl_node *n, const ppl_value *dy) {
    for (int32_t k = 1; k < n->outputs; k++)
        if (dy[k] != -1)
            return ppl_fail(PPL_ERR_ARG,
                            "node %s: the loss depends on output %d of %s, which has no gradient, want output 0",
                            n->name, k, ppl_op_name(n->op));
    return PPL_OK;
}

// May the node that made `grad` write accumulators itself? Only if the rule at work emitted it, each of its outputs is
// the gradient of exactly one parameter, and nothing else reads them.
static bool may_accumulate(const ppl_diff *d, ppl_value grad) {
    const ppl_graph *g = d->g;
    int32_t at = g->values[grad].node;
    if (at < 0 || (size_t)at < d->first || !(ppl_op_get(g->nodes[at].op)->flags & PPL_OP_ACCUMULATES)) return false;
    for (int32_t o = 0; o < g->nodes[at].outputs; o++) {
        ppl_value v = g->nodes[at].out[o];
        int32_t parameters = 0, others = 0;
        for (int32_t k = 0; k < d->node.inputs; k++)
            if (d->given[k] == v) *(g->values[d->node.in[k]].kind == PPL_VALUE_PARAM ? &parameters : &others) += 1;
        for (size_t i = (size_t)at + 1; i < g->n_nodes; i++)
            for (int32_t k = 0; k < g->nodes[i].inputs; k++) others += g->nodes[i].in[k] == v;
        if (parameters != 1 || others) return false;
    }
    return true;
}

// The contribution of input k, a parameter, becomes an accumulator of its own.
static ppl_status give_parameter(ppl_diff *d, int32_t k) {
    ppl_graph *g = d->g;
    ppl_value acc = d->given[k];
    if (g->values[acc].kind == PPL_VALUE_ACCUMULATOR) {
        // another output of a node that was turned below
    } else if (may_accumulate(d, acc)) {
        ppl_node *n = &g->nodes[g->values[acc].node];
        n->accumulates = true;
        for (int32_t o = 0; o < n->outputs; o++) {
            g->values[n->out[o]].kind = PPL_VALUE_ACCUMULATOR;
            g->values[n->out[o]].type.dtype = ppl_dtype_acc(g->dtype);
        }
    } else {
        PPL_TRY(ppl_graph_add_node(g, PPL_OP_ACCUMULATE, d->node.name, d->node.layer, PPL_PHASE_W, true, &acc, 1, NULL,
                                   &acc));
    }
    int32_t param = g->values[d->node.in[k]].param;
    g->values[acc].param = param;
    PPL_TRY(ppl_grow((void **)&d->uses, &d->room_uses, d->n_uses + 1, sizeof *d->uses));
    d->uses[d->n_uses++] = (use){param, d->index, k, acc};
    return PPL_OK;
}

// The contribution of input k joins the chain of the value's gradient. An activation's gradient is I's work.
static ppl_status give_value(ppl_diff *d, int32_t k) {
    ppl_graph *g = d->g;
    ppl_value v = d->node.in[k], sum = d->given[k];
    if (d->grad[v] != -1)
        PPL_TRY(ppl_graph_add_node(g, PPL_OP_ADD, d->node.name, d->node.layer, PPL_PHASE_W, false,
                                   (ppl_value[]){d->grad[v], sum}, 2, NULL, &sum));
    d->grad[v] = sum;
    int32_t producer = g->values[sum].node;
    if (g->values[v].data && producer != -1) g->nodes[producer].phase = PPL_PHASE_I;
    return PPL_OK;
}

// Calls the rule of a forward node and passes its contributions on, in the order of its inputs.
static ppl_status differentiate_node(ppl_diff *d, int32_t index) {
    ppl_graph *g = d->g;
    ppl_value dy[PPL_MAX_OUTPUTS];
    bool any = false;
    d->node = g->nodes[index];
    d->index = index;
    d->first = g->n_nodes;
    for (int32_t k = 0; k < PPL_MAX_INPUTS; k++) d->given[k] = -1;
    for (int32_t o = 0; o < d->node.outputs; o++) {
        dy[o] = d->grad[d->node.out[o]];
        any = any || dy[o] != -1;
    }
    if (!any || !d->needs[d->node.out[0]]) return PPL_OK;
    PPL_TRY(ppl_op_get(d->node.op)->gradient(d, &d->node, dy));
    for (int32_t k = 0; k < d->node.inputs; k++) {
        if (d->given[k] == -1) continue;
        PPL_TRY(g->values[d->node.in[k]].kind == PPL_VALUE_PARAM ? give_parameter(d, k) : give_value(d, k));
    }
    return PPL_OK;
}

static void find_needs(ppl_diff *d) {
    const ppl_graph *g = d->g;
    for (size_t p = 0; p < g->n_params; p++) d->needs[g->params[p].value] = !g->params[p].spec.frozen;
    for (size_t i = 0; i < g->n_forward; i++) {
        const ppl_node *n = &g->nodes[i];
        bool needs = false;
        for (int32_t k = 0; k < n->inputs; k++) needs = needs || d->needs[n->in[k]];
        for (int32_t o = 0; o < n->outputs; o++) d->needs[n->out[o]] = needs;
    }
}

// What I's nodes read is I's work too.
static void settle_phases(ppl_graph *g) {
    for (size_t i = g->n_nodes; i-- > g->n_forward;) {
        const ppl_node *n = &g->nodes[i];
        for (int32_t k = 0; n->phase == PPL_PHASE_I && k < n->inputs; k++) {
            int32_t producer = g->values[n->in[k]].node;
            if (producer != -1 && (size_t)producer >= g->n_forward) g->nodes[producer].phase = PPL_PHASE_I;
        }
    }
}

static int compare_uses(const void *a, const void *b) {
    const use *x = a, *y = b;
    if (x->param != y->param) return x->param < y->param ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->input < y->input ? -1 : x->input > y->input;
}

// Lists each parameter's accumulators in graph order.
static ppl_status list_uses(ppl_diff *d) {
    ppl_graph *g = d->g;
    if (!d->n_uses) return PPL_OK;
    ppl_value *all = ppl_arena_get(&g->arena, d->n_uses * sizeof *all);
    if (!all) return PPL_ERR_MEMORY;
    qsort(d->uses, d->n_uses, sizeof *d->uses, compare_uses);
    for (size_t i = 0; i < d->n_uses; i++) {
        ppl_param *p = &g->params[d->uses[i].param];
        if (!p->n_uses++) p->uses = &all[i];
        all[i] = d->uses[i].accumulator;
    }
    return PPL_OK;
}

static ppl_status add_seed(ppl_graph *g) {
    PPL_TRY(ppl_grow((void **)&g->values, &g->room_values, g->n_values + 1, sizeof *g->values));
    g->seed = (ppl_value)g->n_values++;
    g->values[g->seed] = (ppl_value_info){.type = ppl_type_make(ppl_dtype_acc(g->dtype), 0, NULL),
                                          .kind = PPL_VALUE_SEED,
                                          .node = -1,
                                          .param = -1,
                                          .data = true,
                                          .name = "seed"};
    return PPL_OK;
}

static ppl_status differentiate(ppl_diff *d) {
    ppl_graph *g = d->g;
    PPL_TRY(add_seed(g));
    find_needs(d);
    d->grad[g->loss] = g->seed;
    for (size_t i = g->n_forward; i-- > 0;) PPL_TRY(differentiate_node(d, (int32_t)i));
    settle_phases(g);
    return list_uses(d);
}

ppl_status ppl_graph_differentiate(ppl_graph *g) {
    if (g->differentiated) return PPL_OK;
    if (g->loss == -1) return ppl_fail(PPL_ERR_ARG, "graph: no loss is named, want one");
    const size_t n_values = g->n_values;
    ppl_diff d = {.g = g, .needs = ppl_alloc(n_values * sizeof *d.needs), .grad = ppl_alloc(n_values * sizeof *d.grad)};
    ppl_status st = d.needs && d.grad ? PPL_OK : PPL_ERR_MEMORY;
    if (st == PPL_OK) {
        for (size_t v = 0; v < n_values; v++) d.grad[v] = -1;
        st = ppl_recompute_init(&d.again, g);
        if (st == PPL_OK) st = differentiate(&d);
        ppl_recompute_clear(&d.again);
    }
    g->differentiated = st == PPL_OK;
    if (st != PPL_OK) { // as it was traced
        g->n_nodes = g->n_forward;
        g->n_values = n_values;
        g->seed = -1;
        for (size_t p = 0; p < g->n_params; p++) g->params[p].n_uses = 0;
    }
    free(d.uses);
    ppl_free(d.needs);
    ppl_free(d.grad);
    return st;
}
