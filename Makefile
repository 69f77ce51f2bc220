# ppl: build, test, lint, bench. V=1 shows commands; SAN=address|undefined|thread builds with a sanitizer.
CC ?= gcc
SAN ?=
CONFIG := $(if $(SAN),$(SAN),release)
B := build/$(CONFIG)
Q := $(if $(V),,@)

src :=
isa_src :=
tests :=
include $(wildcard engine/*/sources.mk) $(wildcard tests/*/tests.mk)

ISAS := avx2 avx512
isa_flags_avx2 := -mavx2 -mfma -mf16c
isa_flags_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512

warnings := -Wall -Wextra -Werror -Wswitch-enum -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
CFLAGS ?= -O2 -g
cflags := -std=c11 -D_GNU_SOURCE -Iengine $(warnings) -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-omit-frame-pointer \
          -fopenmp -pthread $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -DPPL_ARENA_MALLOC)
luajit_cflags := $(shell pkg-config --cflags luajit 2>/dev/null)
libs := $(shell pkg-config --libs luajit yaml-0.1 jansson libedit 2>/dev/null) -ldnnl -lm

objs := $(src:%.c=$(B)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(B)/%.$(i).o))
test_bins := $(tests:%.c=$(B)/%)

all: ppl
.PHONY: all unit clean

ppl: $(B)/ppl
	$(Q)ln -sf $< $@
$(B)/ppl: $(B)/engine/main.o $(B)/libppl.a
	@echo "link $@"
	$(Q)$(CC) $(cflags) -rdynamic -o $@ $< -Wl,--whole-archive $(B)/libppl.a -Wl,--no-whole-archive $(libs)
$(B)/libppl.a: $(objs)
	@echo "archive $@"
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/%.o: %.c
	@echo "cc $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) $(luajit_cflags) -MMD -c -o $@ $<
define isa_rule
$(B)/%.$(1).o: %.c
	@echo "cc $$< ($(1))"
	@mkdir -p $$(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) -O3 $(isa_flags_$(1)) -DPPL_ISA=$(1) -DPPL_ISA_$(1) -MMD -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
$(B)/tests/%: tests/%.c $(B)/libppl.a
	@echo "test $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) $(CFLAGS) -Itests -MMD -o $@ $< $(B)/libppl.a -lcmocka $(libs)

# Runs the unit tests; ONLY=ops picks a folder.
unit: $(test_bins)
	$(Q)for t in $(filter $(B)/tests/$(ONLY)%,$(test_bins)); do $$t || exit 1; done

clean:
	rm -rf build ppl
-include $(shell find build -name '*.d' 2>/dev/null)
