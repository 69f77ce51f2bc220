// layers.c - what is asked of a graph's layers: names, sizes, and the most even cut. Before: graph.c; after: stages.c cuts
// where this says.
#include "graph/graph.h"
#include <math.h>

int32_t ppl_graph_layers(const ppl_graph *g) {
    return (int32_t)g->n_layers;
}

const char *ppl_graph_layer_name(const ppl_graph *g, int32_t layer) {
    return layer >= 0 && (size_t)layer < g->n_layers ? g->layers[layer].name : "?";
}

int64_t ppl_graph_layer_parameters(const ppl_graph *g, int32_t layer) {
    int64_t numbers = 0;
    for (size_t p = 0; p < g->n_params; p++) {
        int32_t first = -1; // layer of the first use
        for (size_t i = 0; i < g->n_forward && first == -1; i++)
            for (int32_t k = 0; k < g->nodes[i].inputs; k++)
                if (g->nodes[i].in[k] == g->params[p].value) first = g->nodes[i].layer;
        if (first == layer && first != -1) numbers += ppl_type_elements(&g->params[p].type);
    }
    return numbers;
}

// How good a cut of the first layers into stages is; compared field by field.
typedef struct cut {
    double worst;   // weight of the heaviest stage
    double squares; // of the stages' weights
    double layers;  // squares of the stages' numbers of layers: decides where weights of 0 go
    int32_t from;   // first layer of the last stage
} cut;

static bool better(const cut *a, const cut *b) {
    if (a->worst != b->worst) return a->worst < b->worst;
    if (a->squares != b->squares) return a->squares < b->squares;
    return a->layers < b->layers;
}

// table[s * (n + 1) + i]: the best cut of layers 0 .. i-1 into s + 1 stages. The heaviest stage is settled first
// (bound infinite: only `worst` counts), then the rest among cuts that keep to it: the best by (worst, squares) of a
// whole need not be made of the best of its parts.
static void fill(cut *table, const double *sum, int32_t n, int32_t stages, double bound) {
    const bool first_pass = bound == INFINITY;
    for (int32_t s = 0; s < stages; s++)
        for (int32_t i = s + 1; i <= n; i++) {
            cut *best = &table[(size_t)s * (size_t)(n + 1) + (size_t)i];
            *best = (cut){.worst = INFINITY, .from = -1};
            for (int32_t j = i - 1; j >= s; j--) { // the last stage is layers j .. i-1
                if (s == 0 && j != 0) continue;
                double weight = sum[i] - sum[j];
                if (weight > bound || (first_pass && weight > best->worst)) break;
                const cut *head = s ? &table[(size_t)(s - 1) * (size_t)(n + 1) + (size_t)j] : &(cut){0};
                if (s && head->from == -1) continue;
                double count = i - j;
                cut now = {.from = j};
                if (first_pass) now.worst = weight > head->worst ? weight : head->worst;
                else {
                    now.squares = head->squares + weight * weight;
                    now.layers = head->layers + count * count;
                }
                if (best->from == -1 || better(&now, best)) *best = now;
            }
        }
}

ppl_status ppl_graph_cut_even(const ppl_graph *g, int32_t stages, int32_t *first_layer) {
    int32_t n = (int32_t)g->n_layers;
    if (stages < 1) return ppl_fail(PPL_ERR_ARG, "cut: %d stages, want at least 1", stages);
    if (stages > n) return ppl_fail(PPL_ERR_ARG, "cut: %d stages of %d layers, want a layer for each", stages, n);
    double *sum = ppl_alloc(((size_t)n + 1) * sizeof *sum);
    cut *table = ppl_alloc((size_t)stages * ((size_t)n + 1) * sizeof *table);
    if (!sum || !table) {
        ppl_free(sum);
        ppl_free(table);
        return PPL_ERR_MEMORY;
    }
    bool weighed = false;
    for (int32_t i = 0; i < n; i++) weighed = weighed || g->layers[i].weight > 0;
    for (int32_t i = 0; i < n; i++) sum[i + 1] = sum[i] + (weighed ? g->layers[i].weight : 1);
    const cut *whole = &table[(size_t)stages * ((size_t)n + 1) - 1];
    fill(table, sum, n, stages, INFINITY);
    fill(table, sum, n, stages, whole->worst * (1 + 1e-12)); // sums of weights are rounded
    for (int32_t s = stages - 1, i = n; s >= 0; s--)
        i = first_layer[s] = table[(size_t)s * ((size_t)n + 1) + (size_t)i].from;
    ppl_free(sum);
    ppl_free(table);
    return PPL_OK;
}
