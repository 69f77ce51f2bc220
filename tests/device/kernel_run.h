// kernel_run.h - one kernel of the cpu device outside any program: prepared, packed and run as the device would. For
// the tests and the benchmark of this folder.
#ifndef TESTS_DEVICE_KERNEL_RUN_H
#define TESTS_DEVICE_KERNEL_RUN_H
#include "base/memory.h"
#include "base/random.h"
#include "device/cpu/cpu.h"

typedef struct kernel_run {
    ppl_kernel_spec spec; // op, inputs, outputs, attrs, in, out, accumulates, threads, param_input: set before opening
    const ppl_kernel *kernel;
    ppl_kernel_needs needs;
    void *state;
    ppl_call call; // in, out: memory of the types' sizes; the caller fills in
    ppl_call_env env;
} kernel_run;

static inline ppl_type type_of(int32_t dtype, int32_t ndim, int64_t a, int64_t b, int64_t c) {
    int64_t dim[3] = {a, b, c};
    return ppl_type_make(dtype, ndim, dim);
}

static inline ppl_status kernel_open(kernel_run *k) {
    k->kernel = ppl_cpu_kernel(k->spec.op);
    if (!k->kernel) return ppl_fail(PPL_ERR_DEVICE, "cpu: no kernel for operator %d", k->spec.op);
    PPL_TRY(k->kernel->prepare(&k->spec, &k->needs, &k->state));
    for (int32_t i = 0; i < k->spec.inputs; i++) k->call.in[i] = ppl_alloc(ppl_type_bytes(&k->spec.in[i]));
    for (int32_t i = 0; i < k->spec.outputs; i++) k->call.out[i] = ppl_alloc(ppl_type_bytes(&k->spec.out[i]));
    k->call.scratch = ppl_alloc(k->needs.scratch);
    k->call.packed = k->needs.pack ? ppl_alloc(k->needs.pack) : NULL;
    k->call.env = &k->env;
    return PPL_OK;
}

static inline ppl_status kernel_pack(kernel_run *k) {
    if (!k->needs.pack) return PPL_OK;
    return k->kernel->pack(&k->spec, k->state, k->call.in[k->spec.param_input], (void *)(uintptr_t)k->call.packed);
}

static inline ppl_status kernel_go(kernel_run *k) {
    return k->kernel->run(&k->spec, k->state, &k->call);
}

static inline void kernel_close(kernel_run *k) {
    for (int32_t i = 0; i < k->spec.inputs; i++) ppl_free((void *)(uintptr_t)k->call.in[i]);
    for (int32_t i = 0; i < k->spec.outputs; i++) ppl_free(k->call.out[i]);
    ppl_free(k->call.scratch);
    ppl_free((void *)(uintptr_t)k->call.packed);
    if (k->kernel) k->kernel->free(k->state);
}

// Numbers in [-scale, scale), rounded as dtype rounds; the same for the same seed.
static inline void random_fill(const void *data, const ppl_type *type, uint64_t seed, double scale) {
    for (int64_t i = 0; i < ppl_type_elements(type); i++) {
        uint32_t words[4];
        ppl_philox(seed, 0, (uint64_t)i, words);
        ppl_number_set((void *)(uintptr_t)data, type->dtype, i, scale * (2 * (double)ppl_unit(words[0]) - 1));
    }
}

static inline double input_at(const kernel_run *k, int32_t input, int64_t i) {
    return ppl_number_get(k->call.in[input], k->spec.in[input].dtype, i);
}
static inline double output_at(const kernel_run *k, int32_t output, int64_t i) {
    return ppl_number_get(k->call.out[output], k->spec.out[output].dtype, i);
}

#endif
