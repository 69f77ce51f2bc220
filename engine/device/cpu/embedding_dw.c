// embedding_dw.c - ids (...), dy (..., C) -> dw (V, C): each row of dy is added to the row of its id, in order of
// position. Threads take columns, so that the order never changes.
#include "device/cpu/ids.h"
#include "device/cpu/plain.h"

PPL_VEC void add_row(const void *dy, float *dw, int64_t first, int64_t last, int32_t dtype) {
    for (int64_t i = first; i < last; i += 16) {
        int n = lanes_left(i, last);
        v16_put(dw, PPL_F32, i, v16_add(v16_get(dw, PPL_F32, i, n), v16_get(dy, dtype, i, n)), n);
    }
}

// Sums are f32: in the output, or in scratch where the output is bf16 and takes them at the end.
PPL_VEC void scatter(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                     int32_t dtype) {
    (void)worker;
    int64_t n = ppl_type_elements(&spec->in[0]), v = spec->out[0].dim[0], c = spec->out[0].dim[1];
    bool rounds = spec->out[0].dtype == PPL_BF16;
    float *dw = rounds ? call->scratch : call->out[0];
    const int32_t *ids = call->in[0];
    if (rounds || !(spec->accumulates && call->add))
        for (int64_t r = 0; r < v; r++) memset(dw + r * c + first, 0, (size_t)(last - first) * sizeof(float));
    size_t row = (size_t)c * ppl_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        add_row((const char *)call->in[1] + (size_t)i * row, dw + (int64_t)ids[i] * c, first, last, dtype);
    if (!rounds) return;
    for (int64_t r = 0; r < v; r++) {
        for (int64_t i = first; i < last; i += 16) {
            int lanes = lanes_left(i, last);
            v16_put(call->out[0], PPL_BF16, r * c + i, v16_get(dw, PPL_F32, r * c + i, lanes), lanes);
        }
    }
}
PLAIN_DTYPES(scatter)

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    if (spec->out[0].dtype == PPL_BF16) needs->scratch = (size_t)ppl_type_elements(&spec->out[0]) * sizeof(float);
    return plain_prepare(spec, needs, state);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = ppl_type_elements(&spec->in[0]), c = spec->out[0].dim[1];
    PPL_TRY(ids_check("embedding: id", call->in[0], n, 0, spec->out[0].dim[0]));
    plain_run(spec, call, c, 64, n * c, spec->in[1].dtype == PPL_BF16 ? scatter_bf16 : scatter_f32);
    return PPL_OK;
}

PLAIN_KERNEL(embedding_dw, prepare, run);
