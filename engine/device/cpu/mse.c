// mse.c - x, target -> the sum of (x - target)^2, targets that are NaN left out, in f64. After it: mse_grad.c.
#include "device/cpu/plain.h"

PPL_VEC d16 lanes(const ppl_call *call, int64_t i, int n, d16 sum, int32_t dtype) {
    v16 target = v16_get(call->in[1], dtype, i, n);
    v16 d = v16_sub(v16_get(call->in[0], dtype, i, n), target);
    d16 e = v16_widen(v16_select(v16_isnan(target), v16_set(0.0f), d));
    return d16_fma(e, e, sum);
}

// Numbers are summed in blocks of fixed size, whose sums (in scratch) are then added in order: for any number of threads.
enum { BLOCK = 16384 };

PPL_VEC void blocks(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                    int32_t dtype) {
    (void)worker;
    int64_t n = ppl_type_elements(&spec->in[0]);
    for (int64_t b = first; b < last; b++) {
        int64_t i = b * BLOCK, end = i + BLOCK < n ? i + BLOCK : n;
        d16 sum = d16_zero();
        for (; i + 16 <= end; i += 16) sum = lanes(call, i, 16, sum, dtype);
        if (i < end) sum = lanes(call, i, (int)(end - i), sum, dtype);
        ((double *)call->scratch)[b] = d16_sum(sum);
    }
}
PLAIN_DTYPES(blocks)

static int64_t count_blocks(const ppl_kernel_spec *spec) {
    return (ppl_type_elements(&spec->in[0]) + BLOCK - 1) / BLOCK;
}

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    needs->scratch = (size_t)count_blocks(spec) * sizeof(double);
    return plain_prepare(spec, needs, state);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t n = count_blocks(spec);
    PLAIN_ROWS(spec, call, n, BLOCK, spec->in[0].dtype, blocks);
    double loss = 0;
    for (int64_t b = 0; b < n; b++) loss += ((const double *)call->scratch)[b];
    *(float *)call->out[0] = (float)loss;
    return PPL_OK;
}

PLAIN_KERNEL(mse, prepare, run);
