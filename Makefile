# ppl: `make demo` and `make test` are complete from a bare checkout; both install what is missing through scripts/setup.
#
#   make            builds ./ppl                      make test       all tests; last line: N passed, N failed, N skipped
#   make demo       trains a small GPT on the CPU     make lint       formatting, file lengths, FFI-clean header, luacheck
#   make bench      measures; prints ratios           make format     clang-format over all C and JavaScript files
#   make bless      renews golden files               make install    PREFIX=/usr/local DESTDIR=
#   make clean      removes what was built            make unit ONLY=plan   one folder of unit tests
#   make test-full  make test, then the Lua tests over whole grids: every schedule at p 1..8, m 1..2p+3, chunks 1..3 trains to
#                   the bits of one stage; 1,000 seeds of delays; 10,000 mutants
#
#   make cuda-test  the CUDA back end over an emulation of CUDA's libraries; needs the headers that nvcc brings, no GPU
#
# V=1 shows commands; SAN=address,undefined or SAN=thread builds with sanitizers; MPI=1 builds ./ppl for several processes
# (mpirun -n 4 ./ppl train.lua). CUDA=1 builds with the cuda device, by nvcc (CUDA_HOME, or the one on the path), and with
# CUDNN=1 its attention by cuDNN (CUDNN_HOME, or beside CUDA); CUDA=emulation by g++, over tests/cuda/emulation.
CC ?= gcc
SAN ?=
MPI ?=
CUDA ?=
CUDNN ?=
PREFIX ?= /usr/local
DESTDIR ?=
comma := ,
CONFIG := $(if $(SAN),$(subst $(comma),+,$(SAN)),release)$(if $(CUDA),-$(if $(filter emulation,$(CUDA)),emulation,cuda$(if $(CUDNN),+cudnn)))
B := build/$(CONFIG)
Q := $(if $(V),,@)

src :=
isa_src :=
tests :=
benches :=
.DEFAULT_GOAL := all
include $(sort $(wildcard engine/*/sources.mk) $(wildcard tests/*/tests.mk))

ISAS := avx2 avx512
isa_flags_avx2 := -mavx2 -mfma -mf16c
isa_flags_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512

# Warnings are errors; contraction is off because results must not depend on how a kernel was fused or cut.
warnings := -Wall -Wextra -Werror -Wswitch-enum -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
CFLAGS ?= -O2 $(if $(SAN),-g1,-g)
cflags = -std=c11 -D_GNU_SOURCE -Iengine $(warnings) -ffp-contract=off -fno-math-errno -fno-trapping-math \
         -fno-omit-frame-pointer -fopenmp -pthread $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -DPPL_ARENA_MALLOC) \
         $(shell pkg-config --cflags luajit)
libs = $(shell pkg-config --libs luajit yaml-0.1 jansson libedit) -ldnnl $(cuda_libs) -lm

program := $(B)/ppl$(if $(MPI),-mpi)
objs := $(src:%.c=$(B)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(B)/%.$(i).o)) $(cuda_objs)
test_bins := $(tests:%.c=$(B)/%)
support := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))

.PHONY: all demo test test-full cuda-test lint bench bless install _all _demo _test _cuda-test _cuda_built _bench unit \
        unit_bins cuda_bins gpu_bins format clean
all demo test test-full cuda-test bench:
	$(Q)scripts/setup build $(if $(filter %test test-full,$@),test mpi,$(if $(MPI),mpi))
	$(Q)$(MAKE) --no-print-directory _$@

lint:
	$(Q)scripts/setup build lint
	$(Q)scripts/lint
format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cc' '*.hh' '*.js')

_all: $(program)
	$(Q)ln -sfn $(program) ppl
# The two programs differ in one object: with MPI and without.
$(B)/ppl: $(B)/engine/world/alone.o
$(B)/ppl-mpi: $(B)/engine/world/mpi.o
$(B)/engine/world/mpi.o: cflags += $(shell pkg-config --cflags ompi-c)
$(B)/ppl-mpi: libs += $(shell pkg-config --libs ompi-c)
$(B)/ppl $(B)/ppl-mpi: $(B)/engine/main.o $(B)/engine/line.o $(B)/libppl.a
	@echo "link $@"
	$(Q)$(CC) $(cflags) -rdynamic -o $@ $(filter %.o,$^) -Wl,--whole-archive $(B)/libppl.a -Wl,--no-whole-archive $(libs)
$(B)/libppl.a: $(objs)
	@echo "archive $@"
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/engine/%.o: engine/%.c
	@echo "cc $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) -MMD -c -o $@ $<
$(B)/tests/%.o: tests/%.c
	@echo "cc $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) -Itests -MMD -c -o $@ $<
# What tests judge by runs on one thread: watching it would take most of the thread sanitizer's time.
ifneq ($(findstring thread,$(SAN)),)
$(filter $(B)/engine/device/reference/%,$(objs)) $(patsubst %,$(B)/tests/support/%.o,interpret sequential): CFLAGS += -fno-sanitize=thread
endif
define isa_rule
$(B)/%.$(1).o: %.c
	@echo "cc $$< ($(1))"
	@mkdir -p $$(@D)
	$(Q)$(CC) $$(cflags) $(CFLAGS) -O3 $(isa_flags_$(1)) -DPPL_ISA=$(1) -DPPL_ISA_$(1) -MMD -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
$(test_bins) $(benches:%.c=$(B)/%): $(B)/tests/%: $(B)/tests/%.o $(support) $(B)/libppl.a
	@echo "link $@"
	$(Q)$(CC) $(cflags) -o $@ $< $(support) $(B)/libppl.a -lcmocka $(libs) $(ldflags_$(notdir $@))

_demo: _all
	$(Q)./ppl scripts/train_gpt.lua $(ARGS)

# Each test binary and script prints its own summary; tests/run adds them up.
san_env := ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0 LSAN_OPTIONS=suppressions=tests/lsan.supp \
           TSAN_OPTIONS=allocator_may_return_null=1:suppressions=tests/tsan.supp UBSAN_OPTIONS=print_stacktrace=1
unit_bins: $(test_bins)
unit: $(filter $(B)/tests/$(ONLY)%,$(test_bins))
	$(Q)$(san_env) tests/run $(filter $(B)/tests/$(ONLY)%,$(test_bins))
# With CUDA's headers the tests against the emulation run, and must pass; without, tests/cuda/skipped.sh says so.
cuda_run := $(if $(filter %test %test-full,$(MAKECMDGOALS)),$(if $(shell scripts/cuda_include 2>/dev/null),found))
cuda_programs = $(if $(cuda_run),$(foreach c,release address+undefined,$(patsubst %.c,build/$(c)-emulation/%,$(emulation_tests) $(cuda_tests))) $(cuda_scripts) \
                  $(or $(cudnn_plans),tests/cuda/skipped.sh),tests/cuda/skipped.sh)
# The slow ones take minutes with fibers under sanitizers: make cuda-test runs them all, make test the others.
cuda_quick = $(filter-out $(cuda_slow:%.c=build/address+undefined-emulation/%),$(cuda_programs))
cuda_bins: $(emulation_bins) $(cuda_tests:%.c=$(B)/%) $(if $(SAN),,$(B)/ppl $(B)/ppl-mpi gpu_bins $(cudnn_plans))
# What scripts/gpu_check runs: with CUDA=1 on a GPU, with CUDA=emulation without.
gpu_bins: $(gpu_programs:%.c=$(B)/%) $(program)
$(if $(emulation_lib),$(test_bins) $(benches:%.c=$(B)/%) $(B)/ppl $(B)/ppl-mpi: $(emulation_lib))
_cuda_built:
	$(Q)$(if $(cuda_run),$(MAKE) --no-print-directory CUDA=emulation cuda_bins)
	$(Q)$(if $(cuda_run),$(MAKE) --no-print-directory CUDA=emulation SAN=address$(comma)undefined cuda_bins)
_cuda-test: _cuda_built
	$(Q)$(san_env) PPL_TEST_FULL=1 tests/run $(cuda_programs)
_test: _all unit_bins $(B)/ppl-mpi _cuda_built
	$(Q)$(MAKE) --no-print-directory SAN=address$(comma)undefined unit_bins
	$(Q)$(MAKE) --no-print-directory SAN=thread unit_bins
	$(Q)$(san_env) tests/run $(test_bins) \
	  $(test_bins:build/release/%=build/address+undefined/%) $(test_bins:build/release/%=build/thread/%) \
	  $(cuda_quick) $(wildcard tests/lua/run.lua) $(sort $(wildcard tests/e2e/*.sh))
_test-full: _test
	$(Q)PPL_TEST_FULL=1 TEST_SECONDS=14400 tests/run $(wildcard tests/lua/run.lua) $(cudnn_plans)

bless: all
	$(Q)PPL_BLESS=1 ./ppl tests/lua/run.lua

_bench: _all $(benches:%.c=$(B)/%)
	$(Q)scripts/bench/run

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/ppl
	install -m 755 $(program) $(DESTDIR)$(PREFIX)/bin/ppl
	cp -R lua $(DESTDIR)$(PREFIX)/share/ppl/
	install -d $(DESTDIR)$(PREFIX)/share/ppl/engine $(DESTDIR)$(PREFIX)/share/ppl/scripts
	install -m 644 engine/types.h engine/ppl.h $(DESTDIR)$(PREFIX)/share/ppl/engine/
	install -m 644 scripts/*.lua $(DESTDIR)$(PREFIX)/share/ppl/scripts/
	install -D -m 644 doc/ppl.1 $(DESTDIR)$(PREFIX)/share/man/man1/ppl.1
	install -D -m 644 doc/completion/ppl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ppl
	install -D -m 644 doc/completion/_ppl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ppl
clean:
	rm -rf build ppl
-include $(shell [ -d build/$(CONFIG) ] && find build/$(CONFIG) -name '*.d')
