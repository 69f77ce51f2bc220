src +=
isa_src +=
# Files in isa_src are compiled once for each instruction set, with PPL_ISA set to its name.
include engine/device/cpu/sources.mk
