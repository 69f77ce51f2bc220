// cudnn_graph.h - operation graphs of cuDNN's backend interface under construction, and the plans made of them: the border
// between cudnn_attention.c, which knows what attention is, and cudnn_graph.c and cudnn_plan.c, which know the library.
#ifndef PPL_DEVICE_CUDA_CUDNN_GRAPH_H
#define PPL_DEVICE_CUDA_CUDNN_GRAPH_H
#include "base/memory.h"
#include "device/cuda/cudnn.h"
#include <cudnn.h>

typedef cudnnBackendDescriptor_t ppl_cudnn_tensor; // NULL: none

typedef struct ppl_cudnn_sheet { // how a tensor of four dims lies: (batch, head, row, column), in numbers
    int64_t dim[4], stride[4];
} ppl_cudnn_sheet;

enum { PPL_CUDNN_OPS = 32, PPL_CUDNN_MADE = 128, PPL_CUDNN_BOUND = 16 };

// Calls add to the graph until the first that fails, whose status it keeps; after it they do nothing.
typedef struct ppl_cudnn_graph {
    cudnnBackendDescriptor_t made[PPL_CUDNN_MADE], ops[PPL_CUDNN_OPS]; // all descriptors; the operations among them
    int64_t bound[PPL_CUDNN_BOUND];                                    // tensors that have addresses when a plan runs
    int32_t n_made, n_ops, n_bound;
    int64_t last; // number of the last tensor without an address
    ppl_status status;
} ppl_cudnn_graph;

struct ppl_cudnn {
    cudnnHandle_t handle;               // NULL where the device is a description
    cudnnBackendDescriptor_t described; // NULL where it is there
    int32_t capability;                 // 90: Hopper
    size_t most;                        // bytes of workspace a plan
    ppl_cudnn_plan *plans;
};

struct ppl_cudnn_plan {
    ppl_cudnn_shape shape;
    cudnnBackendDescriptor_t plan; // NULL: there is none
    int64_t bound[PPL_CUDNN_BOUND];
    int32_t n_bound;
    size_t workspace, scratch;
    int64_t engine;
    char why[192]; // "" where it can be used
    ppl_cudnn_plan *next;
};

// A foreign failure in words: "device cuda: cudnnCreate: CUDNN_STATUS_...: the library's own".
ppl_status ppl_cudnn_check(const char *what, cudnnStatus_t status);
// The library says that it does not do this, which is no failure.
static inline bool ppl_cudnn_lacks(cudnnStatus_t status) {
    return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + 1000;
}

// ---- cudnn_graph.c ----

// A tensor with an address, 16-byte aligned; of one number: with an address of the host, read when a plan is enqueued.
ppl_cudnn_tensor ppl_cudnn_bound(ppl_cudnn_graph *g, int64_t number, cudnnDataType_t type,
                                 const ppl_cudnn_sheet *sheet);
ppl_cudnn_tensor ppl_cudnn_number(ppl_cudnn_graph *g, int64_t number);
// One that need not exist in memory. The bound ones' numbers are below 100.
ppl_cudnn_tensor ppl_cudnn_between(ppl_cudnn_graph *g, cudnnDataType_t type, const ppl_cudnn_sheet *sheet);
// y = a b over rows and columns; y = mode(x, b, t), rows or numbers repeated; y = op over what x has more of than y;
// y = x with rows and columns exchanged. Each gives y back. Sums and other results are computed in f32.
ppl_cudnn_tensor ppl_cudnn_matmul(ppl_cudnn_graph *g, ppl_cudnn_tensor a, ppl_cudnn_tensor b, ppl_cudnn_tensor y);
ppl_cudnn_tensor ppl_cudnn_pointwise(ppl_cudnn_graph *g, cudnnPointwiseMode_t mode, ppl_cudnn_tensor x,
                                     ppl_cudnn_tensor b, ppl_cudnn_tensor t, ppl_cudnn_tensor y);
// y = the index of each number along `axis` of x.
ppl_cudnn_tensor ppl_cudnn_index(ppl_cudnn_graph *g, ppl_cudnn_tensor x, int64_t axis, ppl_cudnn_tensor y);
ppl_cudnn_tensor ppl_cudnn_reduce(ppl_cudnn_graph *g, cudnnReduceTensorOp_t op, ppl_cudnn_tensor x, ppl_cudnn_tensor y);
ppl_cudnn_tensor ppl_cudnn_reshape(ppl_cudnn_graph *g, ppl_cudnn_tensor x, ppl_cudnn_tensor y);
void ppl_cudnn_graph_clear(ppl_cudnn_graph *g);

// ---- cudnn_plan.c ----

// The first plan among the library's proposals that is within the bound on workspaces and, where `ordered`, does not call
// itself of uncertain bits, into p; p->why where there is none.
ppl_status ppl_cudnn_plan_make(ppl_cudnn *c, ppl_cudnn_graph *g, bool ordered, ppl_cudnn_plan *p);
// addresses[i] of p->bound[i].
ppl_status ppl_cudnn_plan_enqueue(ppl_cudnn *c, const ppl_cudnn_plan *p, void *const *addresses, void *workspace,
                                  cudaStream_t stream);

#endif
