# CUDA=1 compiles the device with nvcc; CUDA=emulation with g++, over tests/cuda/emulation; without CUDA gpu_none.c stands in
# its place. CUDA_HOME says where the toolkit is, else the nvcc on the path does. CUDNN=1 adds cuDNN's attention, in which the
# emulation has it wherever the headers are.
cuda_c := engine/device/cuda/device.c engine/device/cuda/errors.c engine/device/cuda/probe.c engine/device/cuda/nvml.c \
          engine/device/cuda/activity.c \
          engine/device/cuda/measure.c engine/device/cuda/measure_nccl.c \
          engine/device/cuda/memory.c engine/device/cuda/label.c engine/device/cuda/program.c \
          engine/device/cuda/kernels.c engine/device/cuda/linear.c engine/device/cuda/matmul.c engine/device/cuda/gemm.c \
          engine/device/cuda/attention_choice.c
cudnn_c := engine/device/cuda/cudnn_attention.c engine/device/cuda/cudnn_graph.c engine/device/cuda/cudnn_plan.c
cuda_kernels := $(patsubst %,engine/device/cuda/%.cu,accumulate act act_grad add attention attention_grad concat cross_entropy \
                  cross_entropy_grad dropout embedding embedding_dw layernorm layernorm_dw layernorm_dx mse mse_grad mul pad probe \
                  reduce rmsnorm rmsnorm_dw rmsnorm_dx rope scale slice softmax softmax_grad transpose update)
ifneq ($(CUDA),)
cuda_include := $(shell scripts/cuda_include)
ifneq ($(CUDNN)$(filter emulation,$(CUDA)),)
cudnn_include := $(shell scripts/cudnn_include$(if $(CUDNN),, 2>/dev/null))
$(if $(cudnn_include),,$(if $(CUDNN),$(error CUDNN=1 wants the headers of cuDNN)))
endif
cuda_c += $(if $(cudnn_include),$(cudnn_c),engine/device/cuda/cudnn_none.c)
cudnn_flags := $(addprefix -isystem ,$(filter-out /usr/include,$(cudnn_include)))
$(cudnn_c:%.c=$(B)/%.o): cflags += $(cudnn_flags)
$(cuda_c:%.c=$(B)/%.o): cflags += -isystem $(cuda_include)
else ifneq ($(CUDNN),)
$(error CUDNN=1 is for builds with CUDA=1)
endif
src += $(if $(CUDA),$(cuda_c),engine/device/gpu_none.c)
cuda_objs := $(if $(CUDA),$(cuda_kernels:%.cu=$(B)/%.cu.o))

ifeq ($(CUDA),1)
# Hopper's own code, Ampere's, and PTX that later devices compile for themselves.
NVCC ?= $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc,nvcc)
nvcc_flags := -std=c++17 -O3 -lineinfo -Iengine -Werror all-warnings -Xcompiler -Wall,-Werror,-fno-omit-frame-pointer \
              -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=[sm_80,compute_80] -Xptxas -v
# cuDNN compiles some of its kernels when it makes a plan: it looks for libnvrtc, and without says that it has no engine.
libs_of = $(realpath $(firstword $(wildcard $(1)/../lib64 $(1)/../lib)))
cuda_libs := $(foreach d,$(if $(cudnn_include),$(call libs_of,$(cudnn_include))) $(call libs_of,$(cuda_include)), \
                 -L$(d) -Wl,-rpath,$(d)) \
             -lcublasLt -lnccl -lcudart -lstdc++ $(if $(cudnn_include),-l:libcudnn.so.9 -Wl$(comma)--no-as-needed -lnvrtc)
$(B)/engine/%.cu.o: engine/%.cu
	@echo "nvcc $<"
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(nvcc_flags) -MMD -c -o $@ $< 2>$@.ptxas || { cat $@.ptxas >&2; rm -f $@; exit 1; }
	$(Q)scripts/cuda_spills $@.ptxas || { rm -f $@; exit 1; }
endif
