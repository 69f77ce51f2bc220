// cudnn.h - attention by cuDNN's operation graphs, in builds made with CUDNN=1: a graph says what is computed, the library
// picks an engine and makes a plan of it, a plan is enqueued with the addresses of the day. Plans are made while programs are
// built, and kept by shape. Before it: attention_choice.c. After it: cudnn_attention.c, cudnn_graph.c, cudnn_plan.c; without
// CUDNN=1 cudnn_none.c.
#ifndef PPL_DEVICE_CUDA_CUDNN_H
#define PPL_DEVICE_CUDA_CUDNN_H
#include "base/status.h"
#include <cuda_runtime_api.h>

// Attention in bf16: head h of sample b at position t begins (b * time + t) * row + h * size numbers behind its address.
typedef struct ppl_cudnn_shape {
    int64_t batch, time, heads, kv_heads, size; // size: numbers of a head
    int64_t q_row, kv_row, o_row;               // numbers from one position to the next: q, dq; k, v, dk, dv; o, dy
    bool causal, backward;
    bool any_order; // of the sums of dq: less workspace, but other bits from run to run
} ppl_cudnn_shape;

typedef struct ppl_cudnn ppl_cudnn; // of one rank's device
typedef struct ppl_cudnn_plan ppl_cudnn_plan;

enum {
    PPL_CUDNN_LEAST = 91600, // before, a backward with T % 128 != 0 goes wrong
    PPL_CUDNN_SHARE = 16     // a plan's workspace takes at most one in so many bytes of the GPU's memory
};

// "cuDNN 9.19.0" of the library that is loaded; NULL in builds without it.
const char *ppl_cudnn_name(void);
// For the calling thread's current device; or, where description is not NULL, for one that need not be there, as JSON in the
// library's words: plans are made and cannot run.
ppl_status ppl_cudnn_open(const char *description, ppl_cudnn **out);
void ppl_cudnn_close(ppl_cudnn *c); // and its plans

// The plan for a shape, made at its first call. Where the library has none, or none that fits, ppl_cudnn_plan_why says so.
ppl_status ppl_cudnn_plan_get(ppl_cudnn *c, const ppl_cudnn_shape *shape, ppl_cudnn_plan **out);
const char *ppl_cudnn_plan_why(const ppl_cudnn_plan *p);  // it cannot be used; NULL: it can
size_t ppl_cudnn_plan_scratch(const ppl_cudnn_plan *p);   // bytes, 256-byte aligned
size_t ppl_cudnn_plan_workspace(const ppl_cudnn_plan *p); // of them the library's
int64_t ppl_cudnn_plan_engine(const ppl_cudnn_plan *p);   // the library's number for what serves it

// Addresses on the device; lse (B, H, T) is the natural logarithm of the sum of e^(scale q.k).
typedef struct ppl_cudnn_call {
    const void *q, *k, *v;
    void *o, *lse;  // written by the forward, read by the backward
    const void *dy; // backward, as what follows
    void *dq, *dk, *dv;
    void *scratch;
    float scale;
} ppl_cudnn_call;
ppl_status ppl_cudnn_plan_run(ppl_cudnn *c, ppl_cudnn_plan *p, const ppl_cudnn_call *call, cudaStream_t stream);

#endif
