// cross_entropy.c - logits (rows, V), targets -> the sum over rows of lse - logits[target], lse (rows) = log sum e^logits.
// A target below 0 is left out. Rows' losses wait in scratch as f64 and are added in order. After it: exp_row.h;
// cross_entropy_grad.c reads lse.
#include "device/cpu/exp_row.h"
#include "device/cpu/ids.h"
#include <math.h>

PPL_VEC void rows_loss(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                       int32_t dtype) {
    (void)worker;
    int64_t v = ppl_last_dim(&spec->in[0]);
    const int32_t *targets = call->in[1];
    float *lse = call->out[1];
    double *loss = call->scratch;
    for (int64_t r = first; r < last; r++) {
        float max = exp_row_max(call->in[0], r * v, v, dtype);
        double sum = log((double)exp_row_sum(call->in[0], r * v, v, max, NULL, dtype)) + (double)max;
        lse[r] = (float)sum;
        int64_t at = r * v + targets[r];
        const ppl_bf16 *half = call->in[0];
        const float *full = call->in[0];
        loss[r] = targets[r] < 0 ? 0 : sum - (double)(dtype == PPL_BF16 ? ppl_bf16_to_f32(half[at]) : full[at]);
    }
}
PLAIN_DTYPES(rows_loss)

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    needs->scratch = (size_t)ppl_rows(&spec->in[0]) * sizeof(double);
    return plain_prepare(spec, needs, state);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    int64_t rows = ppl_rows(&spec->in[0]), v = ppl_last_dim(&spec->in[0]);
    PPL_TRY(ids_check("cross_entropy: target", call->in[1], rows, INT32_MIN, v));
    PLAIN_ROWS(spec, call, rows, v, spec->in[0].dtype, rows_loss);
    double loss = 0;
    for (int64_t r = 0; r < rows; r++) loss += ((const double *)call->scratch)[r];
    *(float *)call->out[0] = (float)loss;
    return PPL_OK;
}

PLAIN_KERNEL(cross_entropy, prepare, run);
