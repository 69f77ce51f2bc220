// cross_entropy_grad.c - seed, logits (rows, V), targets, lse -> dlogits = seed (e^(logits - lse) - onehot), 0 in rows
// whose target is below 0. Before it: cross_entropy.c's lse.
#include "device/cpu/ids.h"
#include "device/cpu/plain.h"

PPL_VEC v16 share(const ppl_call *call, int64_t i, int n, v16 lse, int32_t dtype) {
    return v16_exp(v16_sub(v16_get(call->in[1], dtype, i, n), lse));
}

PPL_VEC void grad(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                  int32_t dtype) {
    (void)worker;
    int64_t v = ppl_last_dim(&spec->in[1]);
    v16 seed = v16_set(*(const float *)call->in[0]), one = v16_set(1.0f);
    const int32_t *targets = call->in[2];
    const float *lse = call->in[3];
    size_t size = ppl_dtype_size(dtype);
    for (int64_t r = first; r < last; r++) {
        int64_t i = r * v, end = i + v;
        if (targets[r] < 0) {
            memset((char *)call->out[0] + (size_t)i * size, 0, (size_t)v * size);
            continue;
        }
        v16 l = v16_set(lse[r]);
        for (; i + 16 <= end; i += 16) v16_put(call->out[0], dtype, i, v16_mul(seed, share(call, i, 16, l, dtype)), 16);
        int n = (int)(end - i);
        if (n) v16_put(call->out[0], dtype, i, v16_mul(seed, share(call, i, n, l, dtype)), n);
        i = r * v + targets[r];
        v16_put(call->out[0], dtype, i, v16_mul(seed, v16_sub(share(call, i, 1, l, dtype), one)), 1);
    }
}
PLAIN_DTYPES(grad)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[1]), v = ppl_last_dim(&spec->in[1]);
    PPL_TRY(ids_check("cross_entropy: target", call->in[2], rows, INT32_MIN, v));
    PLAIN_ROWS(spec, call, rows, v, spec->in[1].dtype, grad);
    return PPL_OK;
}

PLAIN_KERNEL(cross_entropy_grad, plain_prepare, run);
