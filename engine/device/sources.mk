src += engine/device/device.c engine/device/network.c engine/device/measure.c engine/device/host.c engine/device/program.c engine/device/kernel_none.c engine/device/tensor.c engine/device/eager.c
isa_src +=
# Files in isa_src are compiled once for each instruction set, with PPL_ISA set to its name.
include engine/device/cpu/sources.mk engine/device/reference/sources.mk engine/device/emulated/sources.mk engine/device/cuda/sources.mk
