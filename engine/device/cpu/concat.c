// concat.c - 1..8 inputs joined along dim i0. After it: copy.h.
#include "device/cpu/copy.h"

static void concat(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    for (int64_t o = first; o < last; o++) {
        copy_span y = copy_span_of(&spec->out[0], spec->attrs.i[0]);
        char *out = (char *)call->out[0] + (size_t)(o * y.size) * y.inner;
        for (int32_t k = 0; k < spec->inputs; k++) {
            size_t bytes = (size_t)spec->in[k].dim[spec->attrs.i[0]] * y.inner;
            memcpy(out, (const char *)call->in[k] + (size_t)o * bytes, bytes);
            out += bytes;
        }
    }
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t outer = copy_span_of(&spec->out[0], spec->attrs.i[0]).outer;
    plain_run(spec, call, outer, 1, ppl_type_elements(&spec->out[0]), concat);
    return PPL_OK;
}

PLAIN_KERNEL(concat, plain_prepare, run);
