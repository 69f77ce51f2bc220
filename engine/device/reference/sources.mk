src += engine/device/reference/act.c engine/device/reference/attention.c engine/device/reference/concat.c \
       engine/device/reference/cross_entropy.c engine/device/reference/device.c engine/device/reference/dropout.c \
       engine/device/reference/elementwise.c engine/device/reference/embedding.c engine/device/reference/kernels.c \
       engine/device/reference/layernorm.c engine/device/reference/linear.c engine/device/reference/matmul.c \
       engine/device/reference/mse.c engine/device/reference/reduce.c engine/device/reference/reshape.c \
       engine/device/reference/rmsnorm.c engine/device/reference/rope.c engine/device/reference/slice.c \
       engine/device/reference/softmax.c engine/device/reference/transpose.c engine/device/reference/update.c
