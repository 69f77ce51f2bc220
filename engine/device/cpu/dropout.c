// dropout.c - x (B, ...) -> x mask / (1 - p). The mask is a function of seed, node, step, sample in the step's batch and
// element (base/random.h), so that the gradient is the same operator again. After it: philox.h.
#include "base/random.h"
#include "device/cpu/philox.h"
#include "device/cpu/plain.h"

// Numbers at .. at + n - 1 that go with a vector of words.
PPL_VEC void drop(const ppl_call *call, int64_t at, int n, w16 words, w16 threshold, v16 scale, int32_t dtype) {
    v16 x = v16_mul(v16_get(call->in[0], dtype, at, n), scale);
    v16_put(call->out[0], dtype, at, v16_select(w16_less(words, threshold), v16_set(0.0f), x), n);
}

// Items are stretches of PLAIN_GROUP numbers within a sample.
PPL_VEC void dropout(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                     int32_t dtype) {
    (void)worker;
    const ppl_type *x = &spec->in[0];
    double p = spec->attrs.f[0];
    int64_t size = ppl_type_elements(x) / x->dim[0], stretches = (size + PLAIN_GROUP - 1) / PLAIN_GROUP;
    philox random = philox_make(ppl_mix_key(call->env->seed, (uint64_t)spec->attrs.i[7]), (uint64_t)call->env->step);
    w16 threshold = w16_set((uint32_t)(p * 0x1p32));
    v16 scale = v16_set((float)(1 / (1 - p)));
    for (int64_t k = first; k < last; k++) {
        int64_t sample = k / stretches, e = k % stretches * PLAIN_GROUP, at = sample * size;
        int64_t end = e + PLAIN_GROUP < size ? e + PLAIN_GROUP : size;
        uint64_t lo = (uint64_t)(call->env->first_sample + sample) << 40;
        for (; e < end; e += PHILOX_WORDS) {
            w16 words[PHILOX_WORDS / 16];
            philox_words(&random, lo | (uint64_t)e >> 2, words);
            for (int q = 0; q < PHILOX_WORDS / 16; q++) {
                int64_t i = e + 16 * q;
                if (i + 16 <= end) drop(call, at + i, 16, words[q], threshold, scale, dtype);
                else if (i < end) drop(call, at + i, (int)(end - i), words[q], threshold, scale, dtype);
            }
        }
    }
}
PLAIN_DTYPES(dropout)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    if (!call->env->training || spec->attrs.f[0] == 0) {
        memcpy(call->out[0], call->in[0], ppl_type_bytes(x));
        return PPL_OK;
    }
    int64_t size = ppl_type_elements(x) / x->dim[0], stretches = (size + PLAIN_GROUP - 1) / PLAIN_GROUP;
    plain_run(spec, call, x->dim[0] * stretches, 1, ppl_type_elements(x),
              x->dtype == PPL_BF16 ? dropout_bf16 : dropout_f32);
    return PPL_OK;
}

PLAIN_KERNEL(dropout, plain_prepare, run);
