src += engine/device/cpu/kernels.c
isa_src +=
