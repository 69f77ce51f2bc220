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

static const ppl_kernel *const kernels[PPL_OPS][ISAS] = {
    [PPL_OP_LINEAR] = BOTH(linear),
    [PPL_OP_MATMUL] = BOTH(matmul),
    [PPL_OP_ADD] = BOTH(add),
    [PPL_OP_MUL] = BOTH(mul),
    [PPL_OP_SCALE] = BOTH(scale),
    [PPL_OP_EMBEDDING] = BOTH(embedding),
    [PPL_OP_LAYERNORM] = BOTH(layernorm),
    [PPL_OP_RMSNORM] = BOTH(rmsnorm),
    [PPL_OP_ROPE] = BOTH(rope),
    [PPL_OP_ACT] = BOTH(act),
    [PPL_OP_SOFTMAX] = BOTH(softmax),
    [PPL_OP_ATTENTION] = BOTH(attention),
    [PPL_OP_DROPOUT] = BOTH(dropout),
    [PPL_OP_RESHAPE] = BOTH(reshape),
    [PPL_OP_TRANSPOSE] = BOTH(transpose),
    [PPL_OP_SLICE] = BOTH(slice),
    [PPL_OP_CONCAT] = BOTH(concat),
    [PPL_OP_CROSS_ENTROPY] = BOTH(cross_entropy),
    [PPL_OP_MSE] = BOTH(mse),
    [PPL_OP_LINEAR_DX] = BOTH(linear_dx),
    [PPL_OP_LINEAR_DW] = BOTH(linear_dw),
    [PPL_OP_REDUCE] = BOTH(reduce),
    [PPL_OP_ACT_GRAD] = BOTH(act_grad),
    [PPL_OP_EMBEDDING_DW] = BOTH(embedding_dw),
    [PPL_OP_LAYERNORM_DX] = BOTH(layernorm_dx),
    [PPL_OP_LAYERNORM_DW] = BOTH(layernorm_dw),
    [PPL_OP_RMSNORM_DX] = BOTH(rmsnorm_dx),
    [PPL_OP_RMSNORM_DW] = BOTH(rmsnorm_dw),
    [PPL_OP_SOFTMAX_GRAD] = BOTH(softmax_grad),
    [PPL_OP_ATTENTION_GRAD] = BOTH(attention_grad),
    [PPL_OP_PAD] = BOTH(pad),
    [PPL_OP_CROSS_ENTROPY_GRAD] = BOTH(cross_entropy_grad),
    [PPL_OP_MSE_GRAD] = BOTH(mse_grad),
    [PPL_OP_ACCUMULATE] = BOTH(accumulate),
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

void ppl_cpu_update(const ppl_update *u, int32_t threads) {
    if (isa_now() == AVX512) ppl_cpu_update_avx512(u, threads);
    else ppl_cpu_update_avx2(u, threads);
}

double ppl_cpu_square_sum(const void *const *grads, int32_t uses, int64_t n, int32_t threads) {
    return isa_now() == AVX512 ? ppl_cpu_square_sum_avx512(grads, uses, n, threads)
                               : ppl_cpu_square_sum_avx2(grads, uses, n, threads);
}
