src += engine/device/cpu/kernels.c engine/device/cpu/gemm.c
isa_src +=
