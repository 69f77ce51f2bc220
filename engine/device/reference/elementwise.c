// elementwise.c - ADD and MUL of two tensors, the second repeated over leading dims where its shape is a suffix of the
// first's; SCALE by a constant.
#include "device/reference/reference.h"

static ppl_status add(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), period = ppl_type_elements(&spec->in[1]);
    for (int64_t i = 0; i < n; i++) put(spec, call, 0, i, get(spec, call, 0, i) + get(spec, call, 1, i % period));
    return PPL_OK;
}

static ppl_status mul(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), period = ppl_type_elements(&spec->in[1]);
    for (int64_t i = 0; i < n; i++) put(spec, call, 0, i, get(spec, call, 0, i) * get(spec, call, 1, i % period));
    return PPL_OK;
}

static ppl_status scale(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t i = 0; i < n; i++) put(spec, call, 0, i, spec->attrs.f[0] * get(spec, call, 0, i));
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(add, add);
PPL_REFERENCE_KERNEL(mul, mul);
PPL_REFERENCE_KERNEL(scale, scale);
