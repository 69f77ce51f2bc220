src += engine/device/reference/act.c engine/device/reference/attention.c engine/device/reference/device.c \
       engine/device/reference/dropout.c engine/device/reference/elementwise.c engine/device/reference/embedding.c \
       engine/device/reference/kernels.c engine/device/reference/layernorm.c engine/device/reference/linear.c \
       engine/device/reference/loss.c engine/device/reference/matmul.c engine/device/reference/reduce.c \
       engine/device/reference/rmsnorm.c engine/device/reference/rope.c engine/device/reference/shape.c \
       engine/device/reference/softmax.c engine/device/reference/update.c
