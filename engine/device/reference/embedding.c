// embedding.c - rows of a table picked by ids, and the table's gradient.
#include "device/reference/reference.h"
#include <inttypes.h>

static ppl_status id_check(const ppl_call *call, int64_t at, int64_t rows) {
    int32_t id = ((const int32_t *)call->in[0])[at];
    if (id >= 0 && id < rows) return PPL_OK;
    return ppl_fail(PPL_ERR_DATA, "embedding: id %d at position %" PRId64 ", want 0..%" PRId64, id, at, rows - 1);
}

// ids (...), w (V, C) -> y (..., C)
static ppl_status embedding(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), v = spec->in[1].dim[0], c = spec->in[1].dim[1];
    for (int64_t i = 0; i < n; i++) {
        PPL_TRY(id_check(call, i, v));
        int64_t id = ((const int32_t *)call->in[0])[i];
        for (int64_t j = 0; j < c; j++) put(spec, call, 0, i * c + j, get(spec, call, 1, id * c + j));
    }
    return PPL_OK;
}

// ids (...), dy (..., C) -> dw (V, C): rows that share an id add up, in order of position.
static ppl_status embedding_dw(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), v = spec->out[0].dim[0], c = spec->out[0].dim[1];
    const int32_t *ids = call->in[0];
    for (int64_t i = 0; i < n; i++) PPL_TRY(id_check(call, i, v));
    for (int64_t row = 0; row < v; row++) {
        for (int64_t j = 0; j < c; j++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++) sum += ids[i] == row ? get(spec, call, 1, i * c + j) : 0;
            put(spec, call, 0, row * c + j, sum);
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(embedding, embedding);
PPL_REFERENCE_KERNEL(embedding_dw, embedding_dw);
