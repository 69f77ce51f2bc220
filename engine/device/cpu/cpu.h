// cpu.h - the cpu device's kernels and the instruction set they run on. Kernels that are written with vectors are
// compiled once for each instruction set (isa_src in sources.mk) and named by it; kernels.c picks at run time.
#ifndef PPL_DEVICE_CPU_H
#define PPL_DEVICE_CPU_H
#include "device/kernel.h"

// The name of a symbol in a file that is compiled per instruction set: PPL_ISA_NAME(ppl_cpu_linear) is
// ppl_cpu_linear_avx2 or ppl_cpu_linear_avx512. PPL_ISA comes from the Makefile.
#define PPL_ISA_JOIN_(name, isa) name##_##isa
#define PPL_ISA_JOIN(name, isa)  PPL_ISA_JOIN_(name, isa)
#define PPL_ISA_NAME(name)       PPL_ISA_JOIN(name, PPL_ISA)

// Chooses the instruction set, "avx2" or "avx512", for kernels looked up from now on: before devices are opened, as the
// choice is the process's. NULL keeps an earlier choice; without one it takes the environment's PPL_ISA, else the best
// of this CPU. PPL_ERR_DEVICE: this CPU lacks it (or lacks AVX2); PPL_ERR_ARG: no such name.
ppl_status ppl_cpu_isa_set(const char *name);
const char *ppl_cpu_isa(void); // the one in use: "avx2", "avx512"

// One kernel for every instruction set.
#define PPL_CPU_KERNEL(op) extern const ppl_kernel ppl_cpu_##op##_avx2, ppl_cpu_##op##_avx512

PPL_CPU_KERNEL(linear);
PPL_CPU_KERNEL(linear_dx);
PPL_CPU_KERNEL(linear_dw);
PPL_CPU_KERNEL(matmul);
PPL_CPU_KERNEL(attention);
PPL_CPU_KERNEL(attention_grad);
PPL_CPU_KERNEL(add);
PPL_CPU_KERNEL(mul);
PPL_CPU_KERNEL(scale);
PPL_CPU_KERNEL(embedding);
PPL_CPU_KERNEL(embedding_dw);
PPL_CPU_KERNEL(layernorm);
PPL_CPU_KERNEL(layernorm_dx);
PPL_CPU_KERNEL(layernorm_dw);
PPL_CPU_KERNEL(rmsnorm);
PPL_CPU_KERNEL(rmsnorm_dx);
PPL_CPU_KERNEL(rmsnorm_dw);
PPL_CPU_KERNEL(rope);
PPL_CPU_KERNEL(act);
PPL_CPU_KERNEL(act_grad);
PPL_CPU_KERNEL(softmax);
PPL_CPU_KERNEL(softmax_grad);
PPL_CPU_KERNEL(dropout);
PPL_CPU_KERNEL(reshape);
PPL_CPU_KERNEL(transpose);
PPL_CPU_KERNEL(slice);
PPL_CPU_KERNEL(concat);
PPL_CPU_KERNEL(pad);
PPL_CPU_KERNEL(cross_entropy);
PPL_CPU_KERNEL(cross_entropy_grad);
PPL_CPU_KERNEL(mse);
PPL_CPU_KERNEL(mse_grad);
PPL_CPU_KERNEL(reduce);
PPL_CPU_KERNEL(accumulate);

// The optimizer's step of u->n numbers, accumulators in f32; in place or into the *_out arrays. Bits do not depend on
// threads, nor on how the numbers are split into calls.
void ppl_cpu_update(const ppl_update *u, int32_t threads);
void ppl_cpu_update_avx2(const ppl_update *u, int32_t threads);
void ppl_cpu_update_avx512(const ppl_update *u, int32_t threads);
// The sum of squares of the sum of `uses` f32 arrays of n numbers: device.h's square_sum.
double ppl_cpu_square_sum(const void *const *grads, int32_t uses, int64_t n, int32_t threads);
double ppl_cpu_square_sum_avx2(const void *const *grads, int32_t uses, int64_t n, int32_t threads);
double ppl_cpu_square_sum_avx512(const void *const *grads, int32_t uses, int64_t n, int32_t threads);

#endif
