// slice.c - indexes i1 .. i1 + i2 - 1 of dim i0. After it: copy.h; its gradient is pad.c.
#include "device/cpu/copy.h"

static void slice(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    copy_span x = copy_span_of(&spec->in[0], spec->attrs.i[0]), y = copy_span_of(&spec->out[0], spec->attrs.i[0]);
    size_t bytes = (size_t)y.size * y.inner, from = (size_t)spec->attrs.i[1] * x.inner;
    const char *in = call->in[0];
    char *out = call->out[0];
    for (int64_t o = first; o < last; o++)
        memcpy(out + (size_t)o * bytes, in + (size_t)(o * x.size) * x.inner + from, bytes);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t outer = copy_span_of(&spec->out[0], spec->attrs.i[0]).outer;
    plain_run(spec, call, outer, 1, ppl_type_elements(&spec->out[0]), slice);
    return PPL_OK;
}

PLAIN_KERNEL(slice, plain_prepare, run);
