// cudnn_plan.c - from a graph of operations to something that runs: the library proposes configurations of its engines, best
// first, the same for the same shape and device; the first of them that becomes a plan within bounds is taken. Before it:
// cudnn_graph.c. After it: the library, which enqueues.
#include "device/cuda/cudnn_graph.h"
#include <stdio.h>
#include <string.h>

enum { PROPOSALS = 16, NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

static ppl_status made(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
    return ppl_cudnn_check("cudnnBackendCreateDescriptor", cudnnBackendCreateDescriptor(type, out));
}

static ppl_status set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void *values) {
    return ppl_cudnn_check("cudnnBackendSetAttribute", cudnnBackendSetAttribute(d, name, type, count, values));
}

static void destroy(cudnnBackendDescriptor_t d) {
    if (d) cudnnBackendDestroyDescriptor(d);
}

// The reason for which there is no plan, the first line of the library's last words in it where they are words.
static void unserved(ppl_cudnn_plan *p, const char *what) {
    char words[120] = "";
    cudnnGetLastErrorString(words, sizeof words);
    words[*words == '{' ? 0 : strcspn(words, "\n")] = 0;
    snprintf(p->why, sizeof p->why, "%s has no %s for it%s%s", ppl_cudnn_name(), what, *words ? ": " : "", words);
}

// ---- what a proposal is ----

// The engine behind a configuration: its number, and whether it says that its bits may differ from run to run.
static ppl_status engine_ask(cudnnBackendDescriptor_t configuration, int64_t *number, bool *uncertain) {
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0;
    ppl_status st;
    PPL_TRY(made(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    PPL_GOTO(ppl_cudnn_check("cudnnBackendGetAttribute",
                             cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine)));
    PPL_GOTO(
        ppl_cudnn_check("cudnnBackendGetAttribute", cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                                             CUDNN_TYPE_INT64, 1, &count, number)));
    PPL_GOTO(ppl_cudnn_check("cudnnBackendGetAttribute",
                             cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                      CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes)));
    *uncertain = false;
    for (int64_t i = 0; i < count && i < NOTES; i++) *uncertain |= notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
fail:
    destroy(engine);
    return st;
}

// Makes a plan of one proposal: *plan stays NULL where the library cannot.
static ppl_status proposal_try(ppl_cudnn *c, cudnnBackendDescriptor_t configuration, ppl_cudnn_plan *p,
                               cudnnBackendDescriptor_t *plan, size_t *workspace) {
    cudnnBackendDescriptor_t d = NULL;
    int64_t count = 0, bytes = 0;
    ppl_status st;
    PPL_TRY(made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &d));
    if (c->handle) {
        PPL_GOTO(set(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle));
    } else {
        PPL_GOTO(set(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->described));
    }
    PPL_GOTO(set(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration));
    cudnnStatus_t status = cudnnBackendFinalize(d);
    if (status >= CUDNN_STATUS_EXECUTION_FAILED) PPL_GOTO(ppl_cudnn_check("cudnnBackendFinalize", status)); // of CUDA
    if (status != CUDNN_STATUS_SUCCESS) { // the next one may do
        unserved(p, "plan");
        goto fail;
    }
    PPL_GOTO(ppl_cudnn_check(
        "cudnnBackendGetAttribute",
        cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes)));
    *workspace = bytes > 0 ? (size_t)bytes : 0;
    *plan = d;
    return PPL_OK;
fail:
    destroy(d);
    return st;
}

// Takes the proposal into p where it fits; else p->why says what is wrong with it.
static ppl_status proposal_take(ppl_cudnn *c, cudnnBackendDescriptor_t configuration, bool ordered, ppl_cudnn_plan *p) {
    bool uncertain = false;
    cudnnBackendDescriptor_t plan = NULL;
    PPL_TRY(engine_ask(configuration, &p->engine, &uncertain));
    if (ordered && uncertain) {
        snprintf(p->why, sizeof p->why, "%s has no plan for it whose bits are always the same", ppl_cudnn_name());
        return PPL_OK;
    }
    PPL_TRY(proposal_try(c, configuration, p, &plan, &p->workspace));
    if (!plan) return PPL_OK;
    if (p->workspace > c->most) {
        snprintf(p->why, sizeof p->why, "%s needs %.2f GiB of workspace for it, want %.2f at most, 1/%d of the GPU's",
                 ppl_cudnn_name(), (double)p->workspace / (1 << 30), (double)c->most / (1 << 30), PPL_CUDNN_SHARE);
        destroy(plan);
        return PPL_OK;
    }
    p->why[0] = 0;
    p->plan = plan;
    return PPL_OK;
}

// ---- from graph to proposals ----

// *out stays NULL where the library does not do this; what: of graph or heuristics.
static ppl_status finished(cudnnBackendDescriptor_t d, const char *what, ppl_cudnn_plan *p, bool *served) {
    cudnnStatus_t status = cudnnBackendFinalize(d);
    *served = !ppl_cudnn_lacks(status);
    if (*served) return ppl_cudnn_check("cudnnBackendFinalize", status);
    unserved(p, what);
    return PPL_OK;
}

static ppl_status proposals_ask(ppl_cudnn *c, cudnnBackendDescriptor_t graph, ppl_cudnn_plan *p,
                                cudnnBackendDescriptor_t *heuristics, bool *served) {
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    PPL_TRY(made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristics));
    PPL_TRY(set(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph));
    PPL_TRY(set(*heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (!c->handle)
        PPL_TRY(set(*heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->described));
    return finished(*heuristics, "engine", p, served);
}

// Takes the first of the heuristics' proposals that fits.
static ppl_status proposals_walk(ppl_cudnn *c, cudnnBackendDescriptor_t heuristics, bool ordered, ppl_cudnn_plan *p) {
    cudnnBackendDescriptor_t configuration[PROPOSALS] = {NULL};
    int64_t count = 0;
    ppl_status st;
    for (int i = 0; i < PROPOSALS; i++) PPL_GOTO(made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration[i]));
    PPL_GOTO(
        ppl_cudnn_check("cudnnBackendGetAttribute",
                        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &count, configuration)));
    if (count < 1) unserved(p, "engine");
    for (int64_t i = 0; i < count && i < PROPOSALS && !p->plan; i++)
        PPL_GOTO(proposal_take(c, configuration[i], ordered, p));
fail:
    for (int i = 0; i < PROPOSALS; i++) destroy(configuration[i]);
    return st;
}

ppl_status ppl_cudnn_plan_make(ppl_cudnn *c, ppl_cudnn_graph *g, bool ordered, ppl_cudnn_plan *p) {
    cudnnBackendDescriptor_t graph = NULL, heuristics = NULL;
    bool served = true;
    PPL_TRY(g->status);
    ppl_status st;
    PPL_GOTO(made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph));
    PPL_GOTO(set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops));
    if (c->handle) PPL_GOTO(set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle));
    PPL_GOTO(finished(graph, "graph", p, &served));
    if (served) PPL_GOTO(proposals_ask(c, graph, p, &heuristics, &served));
    if (served) PPL_GOTO(proposals_walk(c, heuristics, ordered, p));
    memcpy(p->bound, g->bound, sizeof p->bound);
    p->n_bound = g->n_bound;
fail:
    destroy(heuristics);
    destroy(graph);
    return st;
}

// ---- running ----

ppl_status ppl_cudnn_plan_enqueue(ppl_cudnn *c, const ppl_cudnn_plan *p, void *const *addresses, void *workspace,
                                  cudaStream_t stream) {
    cudnnBackendDescriptor_t pack = NULL;
    ppl_status st;
    PPL_TRY(made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    PPL_GOTO(ppl_cudnn_check("cudnnSetStream", cudnnSetStream(c->handle, stream)));
    PPL_GOTO(set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, p->n_bound, addresses));
    PPL_GOTO(set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, p->n_bound, p->bound));
    PPL_GOTO(set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    PPL_GOTO(ppl_cudnn_check("cudnnBackendFinalize", cudnnBackendFinalize(pack)));
    PPL_GOTO(ppl_cudnn_check("cudnnBackendExecute", cudnnBackendExecute(c->handle, p->plan, pack)));
fail:
    destroy(pack);
    return st;
}
