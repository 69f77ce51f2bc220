// matmul.c - batched products of two activations: (..., M, K) (..., K, N) -> (..., M, N).
#include "device/reference/reference.h"

static ppl_status matmul(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *a = &spec->in[0], *y = &spec->out[0];
    bool a_transposed = spec->attrs.i[0], b_transposed = spec->attrs.i[1]; // stored (K, M), (N, K)
    int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1], k = a->dim[a->ndim - (a_transposed ? 2 : 1)];
    int64_t batch = 1;
    for (int32_t i = 0; i + 2 < y->ndim; i++) batch *= y->dim[i];
    for (int64_t s = 0; s < batch; s++) {
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++) {
                    sum += get(spec, call, 0, s * m * k + (a_transposed ? l * m + i : i * k + l)) *
                           get(spec, call, 1, s * k * n + (b_transposed ? j * k + l : l * n + j));
                }
                put(spec, call, 0, (s * m + i) * n + j, sum);
            }
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(matmul, matmul);
