// table.h - the definitions that the files of this folder give and ops.c collects, in the order of ppl_op.
#ifndef PPL_OPS_TABLE_H
#define PPL_OPS_TABLE_H
#include "ops/op.h"

extern const ppl_op_def ppl_def_linear, ppl_def_matmul, ppl_def_add, ppl_def_mul, ppl_def_scale, ppl_def_embedding,
    ppl_def_layernorm, ppl_def_rmsnorm, ppl_def_rope, ppl_def_act, ppl_def_softmax, ppl_def_attention, ppl_def_dropout,
    ppl_def_reshape, ppl_def_transpose, ppl_def_slice, ppl_def_concat, ppl_def_cross_entropy, ppl_def_mse;
extern const ppl_op_def ppl_def_linear_dx, ppl_def_linear_dw, ppl_def_reduce, ppl_def_act_grad, ppl_def_embedding_dw,
    ppl_def_layernorm_dx, ppl_def_layernorm_dw, ppl_def_rmsnorm_dx, ppl_def_rmsnorm_dw, ppl_def_softmax_grad,
    ppl_def_attention_grad, ppl_def_pad, ppl_def_cross_entropy_grad, ppl_def_mse_grad, ppl_def_accumulate;

#endif
