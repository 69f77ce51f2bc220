src += engine/ops/ops.c engine/ops/rule.c
src += engine/ops/linear.c engine/ops/matmul.c engine/ops/elementwise.c engine/ops/embedding.c
src += engine/ops/layernorm.c engine/ops/rmsnorm.c engine/ops/rope.c engine/ops/act.c engine/ops/softmax.c
src += engine/ops/attention.c engine/ops/dropout.c engine/ops/reshape.c engine/ops/transpose.c engine/ops/slice.c
src += engine/ops/concat.c engine/ops/cross_entropy.c engine/ops/mse.c engine/ops/reduce.c
