// pad.c - zeros of length i2 along dim i0 with dy from index i1 on: the gradient of slice.c. After it: copy.h.
#include "device/cpu/copy.h"

static void pad(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    copy_span x = copy_span_of(&spec->in[0], spec->attrs.i[0]), y = copy_span_of(&spec->out[0], spec->attrs.i[0]);
    size_t bytes = (size_t)x.size * x.inner, before = (size_t)spec->attrs.i[1] * y.inner;
    size_t row = (size_t)y.size * y.inner;
    for (int64_t o = first; o < last; o++) {
        char *out = (char *)call->out[0] + (size_t)o * row;
        memset(out, 0, before);
        memcpy(out + before, (const char *)call->in[0] + (size_t)o * bytes, bytes);
        memset(out + before + bytes, 0, row - before - bytes);
    }
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t outer = copy_span_of(&spec->out[0], spec->attrs.i[0]).outer;
    plain_run(spec, call, outer, 1, ppl_type_elements(&spec->out[0]), pad);
    return PPL_OK;
}

PLAIN_KERNEL(pad, plain_prepare, run);
