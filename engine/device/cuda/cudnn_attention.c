// cudnn_attention.c - attention as graphs of operations of cuDNN, forward and backward, and the plans of a device by shape.
// Before it: attention_choice.c. After it: cudnn_graph.c, cudnn_plan.c.
//
//   s = scale q k^T, hidden where the key comes after the query     p = e^(s - lse)          o = p v
//   delta = sum over a head of dy o      ds = scale p (dy v^T - delta)
//   dv = p^T dy      dk = ds^T q      dq = ds k        dk, dv of a key head: summed over its query heads
//
// The library recognizes these graphs by their form: which operations in which order, which results are in bf16, which have
// an address (https://docs.nvidia.com/deeplearning/cudnn, "Attention"). By itself it sums dq over keys in any order, in f32
// memory of its own; without that memory in the graph it keeps ds instead, B H T T numbers, and sums in order.
#include "device/cuda/cudnn_graph.h"
#include "device/cuda/errors.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef ppl_cudnn_graph graph;
typedef ppl_cudnn_tensor tensor;
typedef ppl_cudnn_sheet sheet;
typedef ppl_cudnn_shape shape;

enum { Q = 1, K, V, O, LSE, DY, DQ, DK, DV, SCALE, HIDDEN, ONE, DELTA, DQ_SUMS, BOUND_END };

static const cudnnDataType_t F32 = CUDNN_DATA_FLOAT, BF16 = CUDNN_DATA_BFLOAT16;

// ---- how tensors lie ----

static sheet heads_of(const shape *s, int64_t heads, int64_t row) { // (B, heads, T, D)
    return (sheet){{s->batch, heads, s->time, s->size}, {s->time * row, s->size, row, 1}};
}

static sheet alone_of(const shape *s) { // (B, H, T, D) without gaps
    return (sheet){{s->batch, s->heads, s->time, s->size},
                   {s->heads * s->time * s->size, s->time * s->size, s->size, 1}};
}

static sheet scores_of(const shape *s) { // (B, H, T queries, T keys)
    return (sheet){{s->batch, s->heads, s->time, s->time},
                   {s->heads * s->time * s->time, s->time * s->time, s->time, 1}};
}

static sheet rows_of(const shape *s) { // (B, H, T, 1)
    return (sheet){{s->batch, s->heads, s->time, 1}, {s->heads * s->time, s->time, 1, 1}};
}

static sheet turned(sheet a) { // rows and columns exchanged, the same memory
    return (sheet){{a.dim[0], a.dim[1], a.dim[3], a.dim[2]}, {a.stride[0], a.stride[1], a.stride[3], a.stride[2]}};
}

// ---- the graphs ----

static tensor bound(graph *g, int64_t number, cudnnDataType_t type, sheet a) {
    return ppl_cudnn_bound(g, number, type, &a);
}

static tensor between(graph *g, cudnnDataType_t type, sheet a) {
    return ppl_cudnn_between(g, type, &a);
}

// mode(x, b) in f32.
static tensor each(graph *g, cudnnPointwiseMode_t mode, tensor x, tensor b, sheet a) {
    return ppl_cudnn_pointwise(g, mode, x, b, NULL, between(g, F32, a));
}

static tensor masked(graph *g, const shape *s, tensor x) {
    if (!s->causal) return x;
    sheet scores = scores_of(s);
    tensor hidden = ppl_cudnn_number(g, HIDDEN);
    tensor query = ppl_cudnn_index(g, x, 2, between(g, CUDNN_DATA_INT32, scores));
    tensor key = ppl_cudnn_index(g, x, 3, between(g, CUDNN_DATA_INT32, scores));
    tensor seen = between(g, CUDNN_DATA_BOOLEAN, scores);
    ppl_cudnn_pointwise(g, CUDNN_POINTWISE_CMP_GE, query, key, NULL, seen);
    return ppl_cudnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, x, hidden, seen, between(g, F32, scores));
}

static void forward_describe(graph *g, const shape *s) {
    sheet scores = scores_of(s), rows = rows_of(s);
    tensor q = bound(g, Q, BF16, heads_of(s, s->heads, s->q_row));
    tensor k = bound(g, K, BF16, turned(heads_of(s, s->kv_heads, s->kv_row)));
    tensor v = bound(g, V, BF16, heads_of(s, s->kv_heads, s->kv_row));
    tensor o = bound(g, O, BF16, heads_of(s, s->heads, s->o_row));
    tensor lse = bound(g, LSE, F32, rows), scale = ppl_cudnn_number(g, SCALE);
    tensor x = ppl_cudnn_matmul(g, q, k, between(g, F32, scores));
    x = each(g, CUDNN_POINTWISE_MUL, x, scale, scores);
    x = masked(g, s, x);
    tensor max = ppl_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, between(g, F32, rows));
    x = each(g, CUDNN_POINTWISE_SUB, x, max, scores);
    x = each(g, CUDNN_POINTWISE_EXP, x, NULL, scores);
    tensor sum = ppl_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, between(g, F32, rows));
    tensor log = each(g, CUDNN_POINTWISE_LOG, sum, NULL, rows);
    ppl_cudnn_pointwise(g, CUDNN_POINTWISE_ADD, max, log, NULL, lse);
    tensor p = ppl_cudnn_pointwise(g, CUDNN_POINTWISE_DIV, x, sum, NULL, between(g, BF16, scores));
    ppl_cudnn_matmul(g, p, v, o);
}

// to (B, K, T, D) = the sum over each key head's query heads of x^T y, where x is (B, H, T, T).
static void keys_gradient(graph *g, const shape *s, tensor x, tensor y, tensor to) {
    tensor turn = ppl_cudnn_reshape(g, x, between(g, BF16, turned(scores_of(s))));
    if (s->heads == s->kv_heads) {
        ppl_cudnn_matmul(g, turn, y, to);
        return;
    }
    tensor all = ppl_cudnn_matmul(g, turn, y, between(g, BF16, alone_of(s)));
    ppl_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, all, to);
}

static void queries_gradient(graph *g, const shape *s, tensor ds, tensor k, tensor dq) {
    tensor keys = ppl_cudnn_reshape(g, k, between(g, F32, heads_of(s, s->kv_heads, s->kv_row)));
    if (!s->any_order) {
        ppl_cudnn_matmul(g, ds, keys, dq);
        return;
    }
    tensor sums = ppl_cudnn_matmul(g, ds, keys, bound(g, DQ_SUMS, F32, alone_of(s)));
    ppl_cudnn_pointwise(g, CUDNN_POINTWISE_IDENTITY, sums, NULL, NULL, dq);
}

static void backward_describe(graph *g, const shape *s) {
    sheet scores = scores_of(s), rows = rows_of(s), kv = heads_of(s, s->kv_heads, s->kv_row);
    tensor q = bound(g, Q, BF16, heads_of(s, s->heads, s->q_row));
    tensor k = bound(g, K, BF16, turned(kv)), v = bound(g, V, BF16, turned(kv));
    tensor o = bound(g, O, BF16, heads_of(s, s->heads, s->o_row)),
           dy = bound(g, DY, BF16, heads_of(s, s->heads, s->o_row));
    tensor lse = bound(g, LSE, F32, rows), scale = ppl_cudnn_number(g, SCALE), one = ppl_cudnn_number(g, ONE);
    tensor dq = bound(g, DQ, BF16, heads_of(s, s->heads, s->q_row)), dk = bound(g, DK, BF16, kv);
    tensor dv = bound(g, DV, BF16, kv), delta = bound(g, DELTA, F32, rows);

    tensor x = each(g, CUDNN_POINTWISE_MUL, dy, o, alone_of(s));
    x = ppl_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, between(g, F32, rows));
    ppl_cudnn_pointwise(g, CUDNN_POINTWISE_MUL, x, one, NULL, delta);

    x = ppl_cudnn_matmul(g, q, k, between(g, F32, scores));
    x = each(g, CUDNN_POINTWISE_MUL, x, scale, scores);
    x = each(g, CUDNN_POINTWISE_SUB, x, lse, scores);
    x = masked(g, s, x);
    tensor p = each(g, CUDNN_POINTWISE_EXP, x, NULL, scores);
    keys_gradient(g, s, p, dy, dv);

    x = ppl_cudnn_matmul(g, dy, v, between(g, F32, scores));
    x = each(g, CUDNN_POINTWISE_SUB, x, delta, scores);
    x = each(g, CUDNN_POINTWISE_MUL, x, p, scores);
    tensor ds = each(g, CUDNN_POINTWISE_MUL, x, scale, scores);
    keys_gradient(g, s, ds, q, dk);
    queries_gradient(g, s, ds, k, dq);
}

// ---- plans by shape ----

static size_t delta_bytes(const shape *s) {
    return s->backward ? (size_t)(s->batch * s->heads * s->time) * sizeof(float) : 0;
}

static size_t sums_bytes(const shape *s) {
    return s->backward && s->any_order ? (size_t)(s->batch * s->heads * s->time * s->size) * sizeof(float) : 0;
}

// What is known without asking: how the library's backward sums on later devices is not known to be in order.
static bool known_unserved(const ppl_cudnn *c, const shape *s, ppl_cudnn_plan *p) {
    if (s->size % 8) {
        snprintf(p->why, sizeof p->why, "%s takes heads of a multiple of 8 numbers", ppl_cudnn_name());
    } else if (s->backward && !s->any_order && c->capability >= 100) {
        snprintf(p->why, sizeof p->why, "%s is not known to sum in order on devices of compute capability %d.%d",
                 ppl_cudnn_name(), c->capability / 10, c->capability % 10);
    } else {
        return false;
    }
    return true;
}

static ppl_status plan_fill(ppl_cudnn *c, ppl_cudnn_plan *p) {
    graph g = {0};
    if (known_unserved(c, &p->shape, p)) return PPL_OK;
    if (p->shape.backward) {
        backward_describe(&g, &p->shape);
    } else {
        forward_describe(&g, &p->shape);
    }
    ppl_status st = ppl_cudnn_plan_make(c, &g, p->shape.backward && !p->shape.any_order, p);
    ppl_cudnn_graph_clear(&g);
    p->scratch = ppl_align(p->workspace, 256) + ppl_align(delta_bytes(&p->shape), 256) + sums_bytes(&p->shape);
    return st;
}

static bool same(const shape *a, const shape *b) {
    return a->batch == b->batch && a->time == b->time && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->size == b->size && a->q_row == b->q_row && a->kv_row == b->kv_row && a->o_row == b->o_row &&
           a->causal == b->causal && a->backward == b->backward && a->any_order == b->any_order;
}

ppl_status ppl_cudnn_plan_get(ppl_cudnn *c, const shape *s, ppl_cudnn_plan **out) {
    ppl_cudnn_plan *p = c->plans;
    while (p && !same(&p->shape, s)) p = p->next;
    if (!p) {
        p = ppl_alloc(sizeof *p);
        if (!p) return PPL_ERR_MEMORY;
        p->shape = *s;
        ppl_status st = plan_fill(c, p);
        if (st != PPL_OK) {
            ppl_free(p);
            return st;
        }
        p->next = c->plans;
        c->plans = p;
    }
    *out = p;
    return PPL_OK;
}

const char *ppl_cudnn_plan_why(const ppl_cudnn_plan *p) {
    return p->plan ? NULL : p->why;
}

size_t ppl_cudnn_plan_scratch(const ppl_cudnn_plan *p) {
    return p->scratch;
}

size_t ppl_cudnn_plan_workspace(const ppl_cudnn_plan *p) {
    return p->workspace;
}

int64_t ppl_cudnn_plan_engine(const ppl_cudnn_plan *p) {
    return p->engine;
}

ppl_status ppl_cudnn_plan_run(ppl_cudnn *c, ppl_cudnn_plan *p, const ppl_cudnn_call *a, cudaStream_t stream) {
    char *delta = (char *)a->scratch + ppl_align(p->workspace, 256);
    float hidden = -INFINITY, one = 1, scale = a->scale; // read before the call returns
    void *const by_number[BOUND_END] = {[Q] = (void *)a->q, [K] = (void *)a->k,
                                        [V] = (void *)a->v, [O] = a->o,
                                        [LSE] = a->lse,     [DY] = (void *)a->dy,
                                        [DQ] = a->dq,       [DK] = a->dk,
                                        [DV] = a->dv,       [SCALE] = &scale,
                                        [HIDDEN] = &hidden, [ONE] = &one,
                                        [DELTA] = delta,    [DQ_SUMS] = delta + ppl_align(delta_bytes(&p->shape), 256)};
    void *addresses[PPL_CUDNN_BOUND];
    assert(p->plan);
    for (int32_t i = 0; i < p->n_bound; i++) addresses[i] = by_number[p->bound[i]];
    return ppl_cudnn_plan_enqueue(c, p, addresses, a->scratch, stream);
}

// ---- the library ----

const char *ppl_cudnn_name(void) {
    static _Thread_local char name[32];
    size_t version = cudnnGetVersion();
    snprintf(name, sizeof name, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return name;
}

// A number of a description.
static ppl_status described_get(const char *description, const char *name, long long *out) {
    const char *at = strstr(description, name);
    if (at && sscanf(at + strlen(name), "\": %lld", out) == 1) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "cuDNN: the description of a device has no %s, want one", name);
}

static ppl_status describe(ppl_cudnn *c, const char *description) {
    long long version, memory;
    PPL_TRY(described_get(description, "deviceVer", &version));
    PPL_TRY(described_get(description, "totalGlobalMem", &memory));
    c->capability = (int32_t)(version / 10);
    c->most = (size_t)memory / PPL_CUDNN_SHARE;
    PPL_TRY(ppl_cudnn_check("cudnnBackendCreateDescriptor",
                            cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &c->described)));
    PPL_TRY(ppl_cudnn_check("cudnnBackendSetAttribute",
                            cudnnBackendSetAttribute(c->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                     CUDNN_TYPE_CHAR, (int64_t)strlen(description) + 1, description)));
    return ppl_cudnn_check("cudnnBackendFinalize", cudnnBackendFinalize(c->described));
}

static ppl_status attach(ppl_cudnn *c) {
    int device = 0, major = 0, minor = 0;
    size_t unused = 0, memory = 0;
    PPL_TRY(ppl_cuda_check("cudaGetDevice", cudaGetDevice(&device)));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetAttribute",
                           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetAttribute",
                           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)));
    PPL_TRY(ppl_cuda_check("cudaMemGetInfo", cudaMemGetInfo(&unused, &memory)));
    c->capability = major * 10 + minor;
    c->most = memory / PPL_CUDNN_SHARE;
    return ppl_cudnn_check("cudnnCreate", cudnnCreate(&c->handle));
}

ppl_status ppl_cudnn_open(const char *description, ppl_cudnn **out) {
    if (cudnnGetVersion() < PPL_CUDNN_LEAST) {
        return ppl_fail(PPL_ERR_DEVICE,
                        "device cuda: attention is to be by %s, want cuDNN %d.%d or later, or PPL_CUDA_ATTENTION=own",
                        ppl_cudnn_name(), PPL_CUDNN_LEAST / 10000, PPL_CUDNN_LEAST / 100 % 100);
    }
    ppl_cudnn *c = ppl_alloc(sizeof *c);
    if (!c) return PPL_ERR_MEMORY;
    ppl_status st = description ? describe(c, description) : attach(c);
    if (st != PPL_OK) {
        ppl_cudnn_close(c);
        return st;
    }
    *out = c;
    return PPL_OK;
}

void ppl_cudnn_close(ppl_cudnn *c) {
    if (!c) return;
    for (ppl_cudnn_plan *p = c->plans, *next; p; p = next) {
        next = p->next;
        if (p->plan) cudnnBackendDestroyDescriptor(p->plan);
        ppl_free(p);
    }
    if (c->described) cudnnBackendDestroyDescriptor(c->described);
    if (c->handle) cudnnDestroy(c->handle);
    ppl_free(c);
}
