// slice.c - a range of indexes along one dim, and PAD, its gradient: zeros around what was sliced.
#include "device/reference/reference.h"

static ppl_status slice(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    span x = span_of(&spec->in[0], spec->attrs.i[0]), y = span_of(&spec->out[0], spec->attrs.i[0]);
    int64_t first = spec->attrs.i[1];
    for (int64_t o = 0; o < y.outer; o++)
        for (int64_t i = 0; i < y.size; i++)
            for (int64_t j = 0; j < y.inner; j++)
                put(spec, call, 0, (o * y.size + i) * y.inner + j,
                    get(spec, call, 0, (o * x.size + first + i) * x.inner + j));
    return PPL_OK;
}

static ppl_status pad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    span x = span_of(&spec->in[0], spec->attrs.i[0]), y = span_of(&spec->out[0], spec->attrs.i[0]);
    int64_t first = spec->attrs.i[1];
    for (int64_t o = 0; o < y.outer; o++) {
        for (int64_t i = 0; i < y.size; i++) {
            bool inside = i >= first && i < first + x.size;
            for (int64_t j = 0; j < y.inner; j++) {
                double value = inside ? get(spec, call, 0, (o * x.size + i - first) * x.inner + j) : 0;
                put(spec, call, 0, (o * y.size + i) * y.inner + j, value);
            }
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(slice, slice);
PPL_REFERENCE_KERNEL(pad, pad);
