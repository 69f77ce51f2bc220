// matmul.c - batched products of two activations, (..., M, K) (..., K, N) -> (..., M, N), each possibly stored transposed:
// one call of cuBLASLt for the whole batch. Row-major C = A B is column-major C^T = B^T A^T, so the factors change places.
// Before it: program.c. After it: gemm.c.
#include "device/cuda/cuda.h"

static void matmul_free(void *state) {
    ppl_cuda_gemm_free(state);
}

static ppl_status matmul_prepare(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs,
                                 void **state) {
    (void)needs;
    const ppl_type *a = &spec->in[0], *c = &spec->out[0];
    bool a_transposed = spec->attrs.i[0] != 0, b_transposed = spec->attrs.i[1] != 0;
    ppl_cuda_gemm_spec s = {.m = c->dim[c->ndim - 1],
                            .n = c->dim[c->ndim - 2],
                            .k = a->dim[a->ndim - (a_transposed ? 2 : 1)],
                            .batch = 1,
                            .a_transposed = b_transposed,
                            .b_transposed = a_transposed,
                            .dtype = a->dtype,
                            .out_dtype = c->dtype};
    for (int32_t i = 0; i + 2 < c->ndim; i++) s.batch *= c->dim[i];
    if (s.batch > INT32_MAX)
        return ppl_fail(PPL_ERR_DEVICE, "matmul: a batch of %lld products, want 2^31 - 1 at most", (long long)s.batch);
    ppl_cuda_gemm *g = NULL;
    PPL_TRY(ppl_cuda_gemm_build(d, &s, &g));
    *state = g;
    return PPL_OK;
}

static ppl_status matmul_run(const ppl_cuda_run *r) {
    const ppl_call *c = r->call;
    return ppl_cuda_gemm_run(r->device, r->state, c->in[1], c->in[0], c->out[0], NULL, false, r->stream);
}

const ppl_cuda_kernel ppl_cuda_matmul = {.prepare = matmul_prepare, .run = matmul_run, .free = matmul_free};
