// softmax.c - e^(x - max) / sum over the last dim. The exponentials of a row wait in scratch as f32, so that each is
// computed once and rounded once. After it: exp_row.h.
#include "device/cpu/exp_row.h"

static int64_t room(int64_t c) { // of a thread's row, whole cache lines
    return (c + 15) / 16 * 16;
}

PPL_VEC void softmax(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                     int32_t dtype) {
    int64_t c = ppl_last_dim(&spec->in[0]);
    float *e = (float *)call->scratch + worker * room(c);
    for (int64_t r = first; r < last; r++) {
        float max = exp_row_max(call->in[0], r * c, c, dtype);
        v16 share = v16_set(1 / exp_row_sum(call->in[0], r * c, c, max, e, dtype));
        int64_t i = 0;
        for (; i + 16 <= c; i += 16) v16_put(call->out[0], dtype, r * c + i, v16_mul(v16_load(e + i), share), 16);
        int n = (int)(c - i);
        if (n) v16_put(call->out[0], dtype, r * c + i, v16_mul(v16_load_part(e + i, n), share), n);
    }
}
PLAIN_DTYPES(softmax)

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    needs->scratch =
        (size_t)(room(ppl_last_dim(&spec->in[0])) * (spec->threads > 1 ? spec->threads : 1)) * sizeof(float);
    return plain_prepare(spec, needs, state);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    PLAIN_ROWS(spec, call, ppl_rows(x), ppl_last_dim(x), x->dtype, softmax);
    return PPL_OK;
}

PLAIN_KERNEL(softmax, prepare, run);
