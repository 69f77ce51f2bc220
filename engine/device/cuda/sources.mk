# CUDA=1 compiles the device with nvcc; CUDA=emulation with g++, over tests/cuda/emulation; without CUDA gpu_none.c stands in
# its place. CUDA_HOME says where the toolkit is, else the nvcc on the path does.
cuda_c := engine/device/cuda/device.c engine/device/cuda/errors.c engine/device/cuda/probe.c engine/device/cuda/nvml.c \
          engine/device/cuda/measure.c engine/device/cuda/measure_nccl.c \
          engine/device/cuda/memory.c engine/device/cuda/label.c engine/device/cuda/program.c \
          engine/device/cuda/kernels.c engine/device/cuda/linear.c engine/device/cuda/matmul.c engine/device/cuda/gemm.c
cuda_kernels := $(patsubst %,engine/device/cuda/%.cu,accumulate act act_grad add attention attention_grad concat cross_entropy \
                  cross_entropy_grad dropout embedding embedding_dw layernorm layernorm_dw layernorm_dx mse mse_grad mul pad probe \
                  reduce rmsnorm rmsnorm_dw rmsnorm_dx rope scale slice softmax softmax_grad transpose update)
src += $(if $(CUDA),$(cuda_c),engine/device/gpu_none.c)
cuda_objs := $(if $(CUDA),$(cuda_kernels:%.cu=$(B)/%.cu.o))

ifneq ($(CUDA),)
cuda_include := $(shell scripts/cuda_include)
$(cuda_c:%.c=$(B)/%.o): cflags += -isystem $(cuda_include)
endif

ifeq ($(CUDA),1)
# Hopper's own code, Ampere's, and PTX that later devices compile for themselves.
NVCC ?= $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc,nvcc)
nvcc_flags := -std=c++17 -O3 -lineinfo -Iengine -Werror all-warnings -Xcompiler -Wall,-Werror,-fno-omit-frame-pointer \
              -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=[sm_80,compute_80] -Xptxas -v
cuda_libs := -L$(firstword $(wildcard $(cuda_include)/../lib64 $(cuda_include)/../lib)) \
             -Wl,-rpath,$(realpath $(firstword $(wildcard $(cuda_include)/../lib64 $(cuda_include)/../lib))) \
             -lcublasLt -lnccl -lcudart -lstdc++
$(B)/engine/%.cu.o: engine/%.cu
	@echo "nvcc $<"
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(nvcc_flags) -MMD -c -o $@ $< 2>$@.ptxas || { cat $@.ptxas >&2; rm -f $@; exit 1; }
	$(Q)scripts/cuda_spills $@.ptxas || { rm -f $@; exit 1; }
endif
