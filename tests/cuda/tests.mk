# The CUDA back end's tests run against the emulation of CUDA's libraries in emulation/, built with g++ and CUDA's headers:
# make CUDA=emulation, or make cuda-test. Tests of the emulation itself do without the engine.
emulation_tests := tests/cuda/test_kernels.c tests/cuda/test_runtime.c tests/cuda/test_products.c tests/cuda/test_nccl.c \
                   tests/cuda/test_layouts.c tests/cuda/test_processes.c
# Tests of the engine's device over the emulation.
cuda_slow := tests/cuda/test_device_kernels.c tests/cuda/test_device_train.c tests/cuda/test_train.c tests/cuda/test_flow.c \
             tests/cuda/test_labels.c tests/cuda/test_links.c tests/cuda/test_overlap.c
# Where cuDNN's headers are, its attention is tested too; where the library is, plans of its own making.
cudnn_found := $(if $(cudnn_include)$(filter %test %test-full,$(MAKECMDGOALS)),$(shell scripts/cudnn_include 2>/dev/null))
cudnn_lib := $(if $(cudnn_found),$(firstword $(wildcard $(addsuffix /libcudnn.so.9,$(cudnn_found)/../lib64 \
               $(cudnn_found)/../lib $(subst /include,/lib,$(cudnn_found))))))
cuda_tests := tests/cuda/test_device.c tests/cuda/test_probe.c tests/cuda/test_activity.c tests/cuda/test_measure.c \
              $(if $(cudnn_found),tests/cuda/test_cudnn.c) $(cuda_slow)
cudnn_plans := $(if $(cudnn_lib),build/release-emulation/tests/cuda/test_cudnn_plans)
# Of the whole program over the emulation.
cuda_scripts := tests/cuda/devices.sh tests/cuda/schedules.sh tests/cuda/delays.sh tests/cuda/mpi.sh \
                tests/cuda/gpu_check.sh tests/cuda/tensors.sh
cudnn_src := $(patsubst %,tests/cuda/emulation/%.cc,cudnn cudnn_rules operations)
emulation_src := $(filter-out $(if $(cudnn_include),,$(cudnn_src)),$(wildcard tests/cuda/emulation/*.cc))

ldflags_test_overlap := -Wl,--wrap=ppl_cuda_program_run
ldflags_test_activity := -Wl,--wrap=clock_gettime

# What scripts/gpu_check runs, on a GPU (make CUDA=1 gpu_bins) and on the emulation.
gpu_programs := tests/cuda/test_device_kernels.c tests/cuda/bench_gemm.c tests/cuda/bench_attention.c tests/cuda/check_nccl.c
ifneq ($(CUDA),)
benches += $(filter-out $(if $(filter emulation,$(CUDA)),$(cuda_tests)),$(gpu_programs))
$(gpu_programs:%.c=$(B)/%.o): cflags += -Itests/cuda -isystem $(cuda_include) $(if $(filter emulation,$(CUDA)),-DPPL_EMULATION)
endif

ifeq ($(CUDA),emulation)
CXX ?= g++
tests += $(cuda_tests)
cxxflags = -std=c++17 -D_GNU_SOURCE -Iengine -Itests/cuda -isystem $(cuda_include) -Wall -Wextra -Werror -Wshadow \
           -Wpointer-arith -Wno-unknown-pragmas -ffp-contract=off -fno-omit-frame-pointer -pthread \
           $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
emulation_bins := $(emulation_tests:%.c=$(B)/%)
emulation_lib := $(B)/libemulation.a
cuda_libs := $(emulation_lib) -lstdc++

$(cudnn_src:%.cc=$(B)/%.o): cxxflags += $(cudnn_flags)
$(B)/%.o: %.cc
	@echo "c++ $<"
	@mkdir -p $(@D)
	$(Q)$(CXX) $(cxxflags) $(CFLAGS) $(cxxflags_$(notdir $*)) -MMD -c -o $@ $<
$(B)/%.cu.o: %.cu
	@echo "c++ $<"
	@mkdir -p $(@D)
	$(Q)$(CXX) $(cxxflags) $(if $(SAN),-O1 -g1,$(CFLAGS)) -MMD -c -o $@ -x c++ $<
cxxflags_product := -O3 -mavx2 -mfma
$(patsubst %.c,$(B)/%.o,$(emulation_tests) $(filter-out $(gpu_programs),$(cuda_tests))): cflags += -Itests/cuda -isystem $(cuda_include)
$(emulation_lib): $(emulation_src:%.cc=$(B)/%.o)
	@echo "archive $@"
	$(Q)rm -f $@ && ar rcs $@ $^
# The driver's management library, for programs: PPL_NVML names it.
emulation_nvml := $(B)/tests/cuda/libnvml.so
$(emulation_nvml): tests/cuda/nvml.c
	@echo "link $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(warnings) $(CFLAGS) -shared -fPIC -o $@ $<
_all cuda_bins: $(emulation_nvml)
$(B)/tests/cuda/test_activity: | $(emulation_nvml)
# The library's calls come before the emulation's of the same names; of CUDA there is the emulation, of a driver driver.c.
driver := $(B)/tests/cuda/driver/libcuda.so.1
$(driver): tests/cuda/driver.c
	@echo "cc $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) -shared -fPIC -Wl,-soname,libcuda.so.1 -o $@ $<
$(B)/tests/cuda/test_cudnn_plans.o: cflags += -isystem $(cuda_include)
$(B)/tests/cuda/test_cudnn_plans: $(B)/tests/cuda/test_cudnn_plans.o $(B)/libppl.a $(driver) $(emulation_lib)
	@echo "link $@"
	$(Q)$(CC) $(cflags) -o $@ $< $(B)/libppl.a -Wl,--no-as-needed $(cudnn_lib) $(driver) -Wl,--as-needed \
	  -Wl,-rpath,$(realpath $(dir $(cudnn_lib))) -Wl,-rpath,$(abspath $(dir $(driver))) -lcmocka $(libs)
$(emulation_bins): $(B)/tests/%: $(B)/tests/%.o $(B)/tests/cuda/samples.cu.o $(emulation_lib)
	@echo "link $@"
	$(Q)$(CXX) $(cxxflags) -o $@ $^ -lcmocka
endif
