// embedding.c - ids (...), w (V, C) -> rows of w (..., C); all ids are checked before anything is written.
#include "device/cpu/ids.h"
#include "device/cpu/plain.h"

static void gather(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    size_t bytes = (size_t)spec->in[1].dim[1] * ppl_dtype_size(spec->in[1].dtype);
    const int32_t *ids = call->in[0];
    const char *w = call->in[1];
    char *y = call->out[0];
    for (int64_t i = first; i < last; i++) memcpy(y + (size_t)i * bytes, w + (size_t)ids[i] * bytes, bytes);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]);
    PPL_TRY(ids_check("embedding: id", call->in[0], n, 0, spec->in[1].dim[0]));
    plain_run(spec, call, n, 1, n * spec->in[1].dim[1], gather);
    return PPL_OK;
}

PLAIN_KERNEL(embedding, plain_prepare, run);
