// kernels.c - which kernel of the cpu device serves an operator, for the instruction set in use. Before it: the
// device's program_build asks for each node's kernel; after it: one kernel file per operator, compiled per instruction
// set.
#include "device/cpu/cpu.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef enum isa { AVX2 = 0, AVX512, ISAS } isa;

static const char *const isa_names[ISAS] = {[AVX2] = "avx2", [AVX512] = "avx512"};

#define BOTH(op)                                                                                                       \
    { [AVX2] = &ppl_cpu_##op##_avx2, [AVX512] = &ppl_cpu_##op##_avx512 }

// An operator without a line runs no kernel here (RESHAPE is an alias).
static const ppl_kernel *const kernels[PPL_OPS][ISAS] = {
    [PPL_OP_RESHAPE] = {NULL, NULL},
};

static atomic_int chosen = -1; // isa

static bool isa_available(isa i) {
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    switch (i) {
    case AVX2: return avx2;
    case AVX512:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case ISAS: break;
    }
    return false;
}

static isa isa_best(void) {
    return isa_available(AVX512) ? AVX512 : AVX2;
}

ppl_status ppl_cpu_isa_set(const char *name) {
    const char *where = "instruction set";
    if (!name) {
        if (atomic_load(&chosen) >= 0) return PPL_OK;
        name = getenv("PPL_ISA");
        where = "environment variable PPL_ISA";
        if (!name || !*name) name = isa_names[isa_best()];
    }
    for (isa i = 0; i < ISAS; i++) {
        if (strcmp(name, isa_names[i]) != 0) continue;
        if (!isa_available(i)) {
            return ppl_fail(PPL_ERR_DEVICE, "%s: this CPU lacks %s%s", where, name,
                            i == AVX2 ? " with fma and f16c, want a CPU that has it" : ", want avx2");
        }
        atomic_store(&chosen, (int)i);
        return PPL_OK;
    }
    return ppl_fail(PPL_ERR_ARG, "%s: \"%s\", want avx2 or avx512", where, name);
}

static isa isa_now(void) {
    int i = atomic_load(&chosen);
    if (i < 0 && ppl_cpu_isa_set(NULL) == PPL_OK) i = atomic_load(&chosen);
    return i < 0 ? isa_best() : (isa)i;
}

const char *ppl_cpu_isa(void) {
    return isa_names[isa_now()];
}

const ppl_kernel *ppl_cpu_kernel(int32_t op) {
    return op >= 0 && op < PPL_OPS ? kernels[op][isa_now()] : NULL;
}
