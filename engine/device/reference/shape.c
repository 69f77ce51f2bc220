// shape.c - operators that only move elements: RESHAPE, TRANSPOSE, SLICE and its gradient PAD, CONCAT.
#include "device/reference/reference.h"

static ppl_status reshape(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t i = 0; i < n; i++) put(spec, call, 0, i, get(spec, call, 0, i));
    return PPL_OK;
}

static ppl_status transpose(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *y = &spec->out[0];
    int64_t a = spec->attrs.i[0], b = spec->attrs.i[1];
    int64_t stride[PPL_MAX_DIMS]; // of the input, by the output's dims
    int64_t step = 1;
    for (int32_t i = y->ndim - 1; i >= 0; i--) {
        int64_t dim = i == a ? b : i == b ? a : i; // of the output that input dim i becomes
        stride[dim] = step;
        step *= spec->in[0].dim[i];
    }
    int64_t n = ppl_type_elements(y);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = 0, rest = i;
        for (int32_t dim = y->ndim - 1; dim >= 0; dim--) {
            from += rest % y->dim[dim] * stride[dim];
            rest /= y->dim[dim];
        }
        put(spec, call, 0, i, get(spec, call, 0, from));
    }
    return PPL_OK;
}

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

static ppl_status concat(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    span y = span_of(&spec->out[0], spec->attrs.i[0]);
    int64_t first = 0;
    for (int32_t input = 0; input < spec->inputs; input++) {
        span x = span_of(&spec->in[input], spec->attrs.i[0]);
        for (int64_t o = 0; o < x.outer; o++)
            for (int64_t i = 0; i < x.size; i++)
                for (int64_t j = 0; j < x.inner; j++)
                    put(spec, call, 0, (o * y.size + first + i) * y.inner + j,
                        get(spec, call, input, (o * x.size + i) * x.inner + j));
        first += x.size;
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(reshape, reshape);
PPL_REFERENCE_KERNEL(transpose, transpose);
PPL_REFERENCE_KERNEL(slice, slice);
PPL_REFERENCE_KERNEL(pad, pad);
PPL_REFERENCE_KERNEL(concat, concat);
