// cudnn_graph.c - tensors and operations of cuDNN's backend interface: each is a descriptor that is made, given attributes
// and finalized, and stays until its graph is cleared. Before it: cudnn_attention.c says what is computed. After it:
// cudnn_plan.c makes a plan of the whole.
#include "device/cuda/cudnn_graph.h"
#include <assert.h>

enum { BETWEEN_FIRST = 100 }; // tensors without an address are numbered from here

ppl_status ppl_cudnn_check(const char *what, cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return PPL_OK;
    char words[160] = "";
    cudnnGetLastErrorString(words, sizeof words);
    return ppl_fail(PPL_ERR_DEVICE, "device cuda: %s: %s%s%s", what, cudnnGetErrorString(status), *words ? ": " : "",
                    words);
}

// Keeps the first failure; true while there is none.
static bool good(ppl_cudnn_graph *g, const char *what, cudnnStatus_t status) {
    if (g->status == PPL_OK) g->status = ppl_cudnn_check(what, status);
    return g->status == PPL_OK;
}

static cudnnBackendDescriptor_t make(ppl_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    if (g->status != PPL_OK) return NULL;
    assert(g->n_made < PPL_CUDNN_MADE);
    if (good(g, "cudnnBackendCreateDescriptor", cudnnBackendCreateDescriptor(type, &d))) g->made[g->n_made++] = d;
    return d;
}

static void set(ppl_cudnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (g->status == PPL_OK)
        good(g, "cudnnBackendSetAttribute", cudnnBackendSetAttribute(d, name, type, count, values));
}

static void set_descriptor(ppl_cudnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value) {
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(ppl_cudnn_graph *g, cudnnBackendDescriptor_t d) {
    if (g->status == PPL_OK) good(g, "cudnnBackendFinalize", cudnnBackendFinalize(d));
}

void ppl_cudnn_graph_clear(ppl_cudnn_graph *g) {
    while (g->n_made) cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
    *g = (ppl_cudnn_graph){0};
}

// ---- tensors ----

static ppl_cudnn_tensor tensor(ppl_cudnn_graph *g, int64_t number, cudnnDataType_t type, const ppl_cudnn_sheet *sheet,
                               bool between, bool by_value) {
    cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16; // bytes
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sheet->dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, sheet->stride);
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &between);
    set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finish(g, d);
    return d;
}

static void bind(ppl_cudnn_graph *g, int64_t number) {
    assert(g->n_bound < PPL_CUDNN_BOUND && number < BETWEEN_FIRST);
    g->bound[g->n_bound++] = number;
}

ppl_cudnn_tensor ppl_cudnn_bound(ppl_cudnn_graph *g, int64_t number, cudnnDataType_t type,
                                 const ppl_cudnn_sheet *sheet) {
    bind(g, number);
    return tensor(g, number, type, sheet, false, false);
}

ppl_cudnn_tensor ppl_cudnn_number(ppl_cudnn_graph *g, int64_t number) {
    static const ppl_cudnn_sheet one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    bind(g, number);
    return tensor(g, number, CUDNN_DATA_FLOAT, &one, false, true);
}

ppl_cudnn_tensor ppl_cudnn_between(ppl_cudnn_graph *g, cudnnDataType_t type, const ppl_cudnn_sheet *sheet) {
    if (!g->last) g->last = BETWEEN_FIRST - 1;
    return tensor(g, ++g->last, type, sheet, true, false);
}

// ---- operations ----

static cudnnBackendDescriptor_t operation(ppl_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = make(g, type);
    assert(g->n_ops < PPL_CUDNN_OPS);
    if (d) g->ops[g->n_ops++] = d;
    return d;
}

ppl_cudnn_tensor ppl_cudnn_matmul(ppl_cudnn_graph *g, ppl_cudnn_tensor a, ppl_cudnn_tensor b, ppl_cudnn_tensor y) {
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(g, how);
    cudnnBackendDescriptor_t op = operation(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    finish(g, op);
    return y;
}

static ppl_cudnn_tensor pointwise(ppl_cudnn_graph *g, cudnnPointwiseMode_t mode, const int64_t *axis,
                                  ppl_cudnn_tensor x, ppl_cudnn_tensor b, ppl_cudnn_tensor t, ppl_cudnn_tensor y) {
    cudnnDataType_t type = mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis);
    finish(g, how);
    cudnnBackendDescriptor_t op = operation(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t) set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finish(g, op);
    return y;
}

ppl_cudnn_tensor ppl_cudnn_pointwise(ppl_cudnn_graph *g, cudnnPointwiseMode_t mode, ppl_cudnn_tensor x,
                                     ppl_cudnn_tensor b, ppl_cudnn_tensor t, ppl_cudnn_tensor y) {
    return pointwise(g, mode, NULL, x, b, t, y);
}

ppl_cudnn_tensor ppl_cudnn_index(ppl_cudnn_graph *g, ppl_cudnn_tensor x, int64_t axis, ppl_cudnn_tensor y) {
    return pointwise(g, CUDNN_POINTWISE_GEN_INDEX, &axis, x, NULL, NULL, y);
}

ppl_cudnn_tensor ppl_cudnn_reduce(ppl_cudnn_graph *g, cudnnReduceTensorOp_t which, ppl_cudnn_tensor x,
                                  ppl_cudnn_tensor y) {
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &which);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(g, how);
    cudnnBackendDescriptor_t op = operation(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    finish(g, op);
    return y;
}

ppl_cudnn_tensor ppl_cudnn_reshape(ppl_cudnn_graph *g, ppl_cudnn_tensor x, ppl_cudnn_tensor y) {
    cudnnBackendDescriptor_t op = operation(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finish(g, op);
    return y;
}
