// reference.h - the reference device: every operator in plain loops and f64, read straight from its definition. All
// other devices are judged by it; clarity goes before speed. Values are read and stored by dtype, so that each kernel
// serves every dtype: it computes in f64 and rounds where a value is stored.
#ifndef PPL_DEVICE_REFERENCE_H
#define PPL_DEVICE_REFERENCE_H
#include "device/kernel.h"
#include <math.h>

// Element `index` of an input.
static inline double get(const ppl_kernel_spec *spec, const ppl_call *call, int32_t input, int64_t index) {
    return ppl_number_get(call->in[input], spec->in[input].dtype, index);
}

// Stores an element of an output; an accumulator that already holds something adds to it.
static inline void put(const ppl_kernel_spec *spec, const ppl_call *call, int32_t output, int64_t index, double x) {
    int32_t dtype = spec->out[output].dtype;
    if (spec->accumulates && call->add) x += ppl_number_get(call->out[output], dtype, index);
    ppl_number_set(call->out[output], dtype, index, x);
}

// What put has stored, rounded as the dtype rounds.
static inline double stored(const ppl_kernel_spec *spec, const ppl_call *call, int32_t output, int64_t index) {
    return ppl_number_get(call->out[output], spec->out[output].dtype, index);
}

// Elements before, at and behind dimension `dim`: index = (outer * size + i) * inner + j.
typedef struct span {
    int64_t outer, size, inner;
} span;
static inline span span_of(const ppl_type *t, int64_t dim) {
    span s = {1, t->dim[dim], 1};
    for (int64_t i = 0; i < dim; i++) s.outer *= t->dim[i];
    for (int64_t i = dim + 1; i < t->ndim; i++) s.inner *= t->dim[i];
    return s;
}

double ppl_reference_act_value(int64_t act, double x); // act(x)
double ppl_reference_act_slope(int64_t act, double x); // act'(x)

// The table's slots for the optimizer; contracts in device.h and kernel.h.
struct ppl_device;
ppl_status ppl_reference_update(struct ppl_device *self, const ppl_update *u, int32_t stage);
ppl_status ppl_reference_square_sum(struct ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype,
                                    int64_t n, double *out);

// A kernel that only runs.
#define PPL_REFERENCE_KERNEL(op, function)                                                                             \
    const ppl_kernel ppl_reference_##op = {.name = #op,                                                                \
                                           .prepare = ppl_kernel_prepare_none,                                         \
                                           .pack = ppl_kernel_pack_none,                                               \
                                           .run = (function),                                                          \
                                           .free = ppl_kernel_free_none}

extern const ppl_kernel ppl_reference_linear, ppl_reference_linear_dx, ppl_reference_linear_dw, ppl_reference_matmul,
    ppl_reference_add, ppl_reference_mul, ppl_reference_scale, ppl_reference_embedding, ppl_reference_embedding_dw,
    ppl_reference_layernorm, ppl_reference_layernorm_dx, ppl_reference_layernorm_dw, ppl_reference_rmsnorm,
    ppl_reference_rmsnorm_dx, ppl_reference_rmsnorm_dw, ppl_reference_rope, ppl_reference_act, ppl_reference_act_grad,
    ppl_reference_softmax, ppl_reference_softmax_grad, ppl_reference_attention, ppl_reference_attention_grad,
    ppl_reference_dropout, ppl_reference_reshape, ppl_reference_transpose, ppl_reference_slice, ppl_reference_concat,
    ppl_reference_pad, ppl_reference_cross_entropy, ppl_reference_cross_entropy_grad, ppl_reference_mse,
    ppl_reference_mse_grad, ppl_reference_reduce, ppl_reference_accumulate;

#endif
