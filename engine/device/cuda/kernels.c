// kernels.c - which code of the cuda device serves an operator, and what it needs. Before it: program.c asks for each node.
// After it: a launcher of a .cu file named as the operator, or linear.c, matmul.c and attention_choice.c.
#include "device/cuda/cuda.h"
#include "ops/op.h"

static size_t scratch_none(const ppl_kernel_spec *spec) {
    (void)spec;
    return 0;
}

static size_t scratch_reduce(const ppl_kernel_spec *spec) {
    int64_t columns = ppl_type_elements(&spec->out[0]);
    return ppl_cuda_columns_scratch(ppl_type_elements(&spec->in[0]) / columns, columns, 1);
}

static size_t scratch_norm_dw(const ppl_kernel_spec *spec) {
    return ppl_cuda_columns_scratch(ppl_rows(&spec->in[0]), ppl_last_dim(&spec->in[0]), spec->outputs);
}

#define PLAIN(op)                                                                                                      \
    { .launch = ppl_cuda_##op, .scratch = scratch_none }
#define WITH(op, bytes)                                                                                                \
    { .launch = ppl_cuda_##op, .scratch = (bytes) }

static const ppl_cuda_kernel kernels[PPL_OPS] = {
    [PPL_OP_ADD] = PLAIN(add),
    [PPL_OP_MUL] = PLAIN(mul),
    [PPL_OP_SCALE] = PLAIN(scale),
    [PPL_OP_EMBEDDING] = PLAIN(embedding),
    [PPL_OP_LAYERNORM] = PLAIN(layernorm),
    [PPL_OP_RMSNORM] = PLAIN(rmsnorm),
    [PPL_OP_ROPE] = PLAIN(rope),
    [PPL_OP_ACT] = PLAIN(act),
    [PPL_OP_SOFTMAX] = PLAIN(softmax),
    [PPL_OP_DROPOUT] = PLAIN(dropout),
    [PPL_OP_RESHAPE] = PLAIN(copy),
    [PPL_OP_TRANSPOSE] = PLAIN(transpose),
    [PPL_OP_SLICE] = PLAIN(slice),
    [PPL_OP_CONCAT] = PLAIN(concat),
    [PPL_OP_CROSS_ENTROPY] = WITH(cross_entropy, ppl_cuda_cross_entropy_scratch),
    [PPL_OP_MSE] = WITH(mse, ppl_cuda_mse_scratch),
    [PPL_OP_REDUCE] = WITH(reduce, scratch_reduce),
    [PPL_OP_ACT_GRAD] = PLAIN(act_grad),
    [PPL_OP_EMBEDDING_DW] = WITH(embedding_dw, ppl_cuda_embedding_dw_scratch),
    [PPL_OP_LAYERNORM_DX] = PLAIN(layernorm_dx),
    [PPL_OP_LAYERNORM_DW] = WITH(layernorm_dw, scratch_norm_dw),
    [PPL_OP_RMSNORM_DX] = PLAIN(rmsnorm_dx),
    [PPL_OP_RMSNORM_DW] = WITH(rmsnorm_dw, scratch_norm_dw),
    [PPL_OP_SOFTMAX_GRAD] = PLAIN(softmax_grad),
    [PPL_OP_PAD] = PLAIN(pad),
    [PPL_OP_CROSS_ENTROPY_GRAD] = PLAIN(cross_entropy_grad),
    [PPL_OP_MSE_GRAD] = PLAIN(mse_grad),
    [PPL_OP_ACCUMULATE] = PLAIN(accumulate),
};

const ppl_cuda_kernel *ppl_cuda_kernel_of(int32_t op) {
    switch (op) {
    case PPL_OP_LINEAR: return &ppl_cuda_linear;
    case PPL_OP_LINEAR_DX: return &ppl_cuda_linear_dx;
    case PPL_OP_LINEAR_DW: return &ppl_cuda_linear_dw;
    case PPL_OP_MATMUL: return &ppl_cuda_matmul;
    case PPL_OP_ATTENTION:
    case PPL_OP_ATTENTION_GRAD: return &ppl_cuda_attention_kernel;
    default: return op >= 0 && op < PPL_OPS && kernels[op].launch ? &kernels[op] : NULL;
    }
}
