// gemm.c - the only file that knows cuBLASLt. A product is described and its algorithm chosen once, when a program is built:
// the library's first choice for the shape, which is the same wherever the shape is, so that bits do not depend on how a
// model is cut. Sums are f32, also of f32 inputs (no TF32). Before it: linear.c, matmul.c.
#include "device/cuda/cuda.h"

struct ppl_cuda_gemm {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    bool bias;
};

static cudaDataType type_of(int32_t dtype) {
    return dtype == PPL_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static ppl_status attribute_set(ppl_cuda_gemm *g, cublasLtMatmulDescAttributes_t which, const void *value,
                                size_t bytes) {
    return ppl_cublas_check("cublasLtMatmulDescSetAttribute",
                            cublasLtMatmulDescSetAttribute(g->what, which, value, bytes));
}

static ppl_status describe(ppl_cuda_gemm *g, const ppl_cuda_gemm_spec *s) {
    cublasOperation_t a = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    PPL_TRY(ppl_cublas_check("cublasLtMatmulDescCreate",
                             cublasLtMatmulDescCreate(&g->what, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    PPL_TRY(attribute_set(g, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
    PPL_TRY(attribute_set(g, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
    if (!s->bias) return PPL_OK;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cudaDataType bias = type_of(s->out_dtype);
    PPL_TRY(attribute_set(g, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return attribute_set(g, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias);
}

static ppl_status layout_make(cublasLtMatrixLayout_t *out, int32_t dtype, int64_t rows, int64_t columns,
                              int64_t batch) {
    PPL_TRY(ppl_cublas_check("cublasLtMatrixLayoutCreate",
                             cublasLtMatrixLayoutCreate(out, type_of(dtype), (uint64_t)rows, (uint64_t)columns, rows)));
    if (batch == 1) return PPL_OK;
    int32_t count = (int32_t)batch;
    int64_t stride = rows * columns;
    PPL_TRY(ppl_cublas_check(
        "cublasLtMatrixLayoutSetAttribute",
        cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count)));
    return ppl_cublas_check(
        "cublasLtMatrixLayoutSetAttribute",
        cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
}

static ppl_status preference_fill(cublasLtMatmulPreference_t p) {
    size_t workspace = PPL_CUDA_WORKSPACE;
    uint32_t alignment = 16; // bytes: what every buffer of a plan has at least
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    PPL_TRY(ppl_cublas_check("cublasLtMatmulPreferenceSetAttribute",
                             cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                  &workspace, sizeof workspace)));
    for (int i = 0; i < 4; i++) {
        PPL_TRY(ppl_cublas_check("cublasLtMatmulPreferenceSetAttribute",
                                 cublasLtMatmulPreferenceSetAttribute(p, which[i], &alignment, sizeof alignment)));
    }
    return PPL_OK;
}

static ppl_status algorithm_choose(ppl_cuda_device *d, ppl_cuda_gemm *g, const ppl_cuda_gemm_spec *s) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    PPL_TRY(ppl_cublas_check("cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&preference)));
    ppl_status st;
    PPL_GOTO(preference_fill(preference));
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(d->lt, g->what, g->a, g->b, g->d, g->d, preference, 1, &best, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found < 1) status = CUBLAS_STATUS_NOT_SUPPORTED;
    PPL_GOTO(ppl_cublas_check("cublasLtMatmulAlgoGetHeuristic", status));
    g->algorithm = best.algo;
fail:
    cublasLtMatmulPreferenceDestroy(preference);
    if (st == PPL_OK) return st;
    return ppl_prefix(st, "a product of %lld x %lld x %lld in %s: ", (long long)s->m, (long long)s->n, (long long)s->k,
                      ppl_dtype_name(s->dtype));
}

ppl_status ppl_cuda_gemm_build(ppl_cuda_device *d, const ppl_cuda_gemm_spec *s, ppl_cuda_gemm **out) {
    ppl_cuda_gemm *g = ppl_alloc(sizeof *g);
    if (!g) return PPL_ERR_MEMORY;
    ppl_status st;
    g->bias = s->bias;
    PPL_GOTO(describe(g, s));
    PPL_GOTO(layout_make(&g->a, s->dtype, s->a_transposed ? s->k : s->m, s->a_transposed ? s->m : s->k, s->batch));
    PPL_GOTO(layout_make(&g->b, s->dtype, s->b_transposed ? s->n : s->k, s->b_transposed ? s->k : s->n, s->batch));
    PPL_GOTO(layout_make(&g->d, s->out_dtype, s->m, s->n, s->batch));
    if (s->bias) { // the choice is made with a bias in place, wherever it will lie
        const void *none = d->partial;
        PPL_GOTO(attribute_set(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &none, sizeof none));
    }
    PPL_GOTO(algorithm_choose(d, g, s));
    *out = g;
    return PPL_OK;
fail:
    ppl_cuda_gemm_free(g);
    return st;
}

void ppl_cuda_gemm_free(ppl_cuda_gemm *g) {
    if (!g) return;
    if (g->what) cublasLtMatmulDescDestroy(g->what);
    if (g->a) cublasLtMatrixLayoutDestroy(g->a);
    if (g->b) cublasLtMatrixLayoutDestroy(g->b);
    if (g->d) cublasLtMatrixLayoutDestroy(g->d);
    ppl_free(g);
}

ppl_status ppl_cuda_gemm_run(ppl_cuda_device *d, ppl_cuda_gemm *g, const void *a, const void *b, void *out,
                             const void *bias, bool add, int32_t stream) {
    float alpha = 1, beta = add ? 1 : 0;
    if (g->bias) PPL_TRY(attribute_set(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    return ppl_cublas_check("cublasLtMatmul",
                            cublasLtMatmul(d->lt, g->what, &alpha, a, g->a, b, g->b, &beta, out, g->d, out, g->d,
                                           &g->algorithm, d->workspace[stream], PPL_CUDA_WORKSPACE, d->stream[stream]));
}
