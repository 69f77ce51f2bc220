// linear.c - products with a weight: forward, and the gradients towards input and weight.
#include "device/reference/reference.h"

// y (rows, OC) = act(pre), pre = x (rows, IC) w^T + b. The activation sees pre as it is stored, so that LINEAR with an
// activation gives the bits of LINEAR followed by ACT.
static ppl_status linear(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), ic = ppl_last_dim(&spec->in[0]), oc = spec->in[1].dim[0];
    int64_t act = spec->attrs.i[0];
    int32_t pre = act != PPL_ACT_NONE ? 1 : 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < oc; o++) {
            double sum = spec->inputs > 2 ? get(spec, call, 2, o) : 0;
            for (int64_t i = 0; i < ic; i++) sum += get(spec, call, 0, r * ic + i) * get(spec, call, 1, o * ic + i);
            put(spec, call, pre, r * oc + o, sum);
            if (pre) {
                double x = stored(spec, call, 1, r * oc + o);
                put(spec, call, 0, r * oc + o, ppl_reference_act_value(act, x));
            }
        }
    }
    return PPL_OK;
}

// dx (rows, IC) = dy (rows, OC) w (OC, IC)
static ppl_status linear_dx(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), oc = ppl_last_dim(&spec->in[0]), ic = ppl_last_dim(&spec->in[1]);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < ic; i++) {
            double sum = 0;
            for (int64_t o = 0; o < oc; o++) sum += get(spec, call, 0, r * oc + o) * get(spec, call, 1, o * ic + i);
            put(spec, call, 0, r * ic + i, sum);
        }
    }
    return PPL_OK;
}

// dw (OC, IC) = dy (rows, OC)^T x (rows, IC)
static ppl_status linear_dw(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), oc = ppl_last_dim(&spec->in[0]), ic = ppl_last_dim(&spec->in[1]);
    for (int64_t o = 0; o < oc; o++) {
        for (int64_t i = 0; i < ic; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += get(spec, call, 0, r * oc + o) * get(spec, call, 1, r * ic + i);
            put(spec, call, 0, o * ic + i, sum);
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(linear, linear);
PPL_REFERENCE_KERNEL(linear_dx, linear_dx);
PPL_REFERENCE_KERNEL(linear_dw, linear_dw);
