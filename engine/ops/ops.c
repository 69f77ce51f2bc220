// ops.c - the table of operators. To add one: a file in this folder, a value in ppl_op, a line here.
#include "ops/table.h"
#include <string.h>

static const ppl_op_def *const table[] = {
    [PPL_OP_LINEAR] = &ppl_def_linear,
    [PPL_OP_MATMUL] = &ppl_def_matmul,
    [PPL_OP_ADD] = &ppl_def_add,
    [PPL_OP_MUL] = &ppl_def_mul,
    [PPL_OP_SCALE] = &ppl_def_scale,
    [PPL_OP_EMBEDDING] = &ppl_def_embedding,
    [PPL_OP_LAYERNORM] = &ppl_def_layernorm,
    [PPL_OP_RMSNORM] = &ppl_def_rmsnorm,
    [PPL_OP_ROPE] = &ppl_def_rope,
    [PPL_OP_ACT] = &ppl_def_act,
    [PPL_OP_SOFTMAX] = &ppl_def_softmax,
    [PPL_OP_ATTENTION] = &ppl_def_attention,
    [PPL_OP_DROPOUT] = &ppl_def_dropout,
    [PPL_OP_RESHAPE] = &ppl_def_reshape,
    [PPL_OP_TRANSPOSE] = &ppl_def_transpose,
    [PPL_OP_SLICE] = &ppl_def_slice,
    [PPL_OP_CONCAT] = &ppl_def_concat,
    [PPL_OP_CROSS_ENTROPY] = &ppl_def_cross_entropy,
    [PPL_OP_MSE] = &ppl_def_mse,
    [PPL_OP_LINEAR_DX] = &ppl_def_linear_dx,
    [PPL_OP_LINEAR_DW] = &ppl_def_linear_dw,
    [PPL_OP_REDUCE] = &ppl_def_reduce,
    [PPL_OP_ACT_GRAD] = &ppl_def_act_grad,
    [PPL_OP_EMBEDDING_DW] = &ppl_def_embedding_dw,
    [PPL_OP_LAYERNORM_DX] = &ppl_def_layernorm_dx,
    [PPL_OP_LAYERNORM_DW] = &ppl_def_layernorm_dw,
    [PPL_OP_RMSNORM_DX] = &ppl_def_rmsnorm_dx,
    [PPL_OP_RMSNORM_DW] = &ppl_def_rmsnorm_dw,
    [PPL_OP_SOFTMAX_GRAD] = &ppl_def_softmax_grad,
    [PPL_OP_ATTENTION_GRAD] = &ppl_def_attention_grad,
    [PPL_OP_PAD] = &ppl_def_pad,
    [PPL_OP_CROSS_ENTROPY_GRAD] = &ppl_def_cross_entropy_grad,
    [PPL_OP_MSE_GRAD] = &ppl_def_mse_grad,
    [PPL_OP_ACCUMULATE] = &ppl_def_accumulate,
};
_Static_assert(sizeof table / sizeof *table == PPL_OPS, "every operator has a line");

const ppl_op_def *ppl_op_get(int32_t op) {
    return table[op];
}

const char *ppl_op_name(int32_t op) {
    return op >= 0 && op < PPL_OPS ? table[op]->name : "?";
}

int32_t ppl_op_find(const char *name) {
    for (int32_t op = 0; name && op < PPL_OPS; op++)
        if (strcmp(table[op]->name, name) == 0) return op;
    return -1;
}
