// transpose.c - two dims exchanged.
#include "device/reference/reference.h"

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

PPL_REFERENCE_KERNEL(transpose, transpose);
