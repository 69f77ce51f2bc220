// kernels.c - which kernel of the reference device serves an operator: all of them have one.
#include "device/reference/reference.h"

static const ppl_kernel *const kernels[] = {
    [PPL_OP_LINEAR] = &ppl_reference_linear,
    [PPL_OP_MATMUL] = &ppl_reference_matmul,
    [PPL_OP_ADD] = &ppl_reference_add,
    [PPL_OP_MUL] = &ppl_reference_mul,
    [PPL_OP_SCALE] = &ppl_reference_scale,
    [PPL_OP_EMBEDDING] = &ppl_reference_embedding,
    [PPL_OP_LAYERNORM] = &ppl_reference_layernorm,
    [PPL_OP_RMSNORM] = &ppl_reference_rmsnorm,
    [PPL_OP_ROPE] = &ppl_reference_rope,
    [PPL_OP_ACT] = &ppl_reference_act,
    [PPL_OP_SOFTMAX] = &ppl_reference_softmax,
    [PPL_OP_ATTENTION] = &ppl_reference_attention,
    [PPL_OP_DROPOUT] = &ppl_reference_dropout,
    [PPL_OP_RESHAPE] = &ppl_reference_reshape,
    [PPL_OP_TRANSPOSE] = &ppl_reference_transpose,
    [PPL_OP_SLICE] = &ppl_reference_slice,
    [PPL_OP_CONCAT] = &ppl_reference_concat,
    [PPL_OP_CROSS_ENTROPY] = &ppl_reference_cross_entropy,
    [PPL_OP_MSE] = &ppl_reference_mse,
    [PPL_OP_LINEAR_DX] = &ppl_reference_linear_dx,
    [PPL_OP_LINEAR_DW] = &ppl_reference_linear_dw,
    [PPL_OP_REDUCE] = &ppl_reference_reduce,
    [PPL_OP_ACT_GRAD] = &ppl_reference_act_grad,
    [PPL_OP_EMBEDDING_DW] = &ppl_reference_embedding_dw,
    [PPL_OP_LAYERNORM_DX] = &ppl_reference_layernorm_dx,
    [PPL_OP_LAYERNORM_DW] = &ppl_reference_layernorm_dw,
    [PPL_OP_RMSNORM_DX] = &ppl_reference_rmsnorm_dx,
    [PPL_OP_RMSNORM_DW] = &ppl_reference_rmsnorm_dw,
    [PPL_OP_SOFTMAX_GRAD] = &ppl_reference_softmax_grad,
    [PPL_OP_ATTENTION_GRAD] = &ppl_reference_attention_grad,
    [PPL_OP_PAD] = &ppl_reference_pad,
    [PPL_OP_CROSS_ENTROPY_GRAD] = &ppl_reference_cross_entropy_grad,
    [PPL_OP_MSE_GRAD] = &ppl_reference_mse_grad,
    [PPL_OP_ACCUMULATE] = &ppl_reference_accumulate,
};
_Static_assert(sizeof kernels / sizeof *kernels == PPL_OPS, "a kernel for each operator");

const ppl_kernel *ppl_reference_kernel(int32_t op) {
    return op >= 0 && op < PPL_OPS ? kernels[op] : NULL;
}
