// test_products.c - the emulated cuBLASLt: the products that a layer needs against plain loops, with each epilogue, and
// what the library refuses. Before it: support.h.
#include "support.h"
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>

static cublasLtHandle_t handle;
static cudaStream_t stream;

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return (int)cublasLtCreate(&handle);
}
static int end(void **unused) {
    (void)unused;
    OK(cublasLtDestroy(handle));
    emu_reset();
    return 0;
}

// A product to try: shapes of op(A) m x k, op(B) k x n, both with `pad` unused rows, and what the result is made of.
typedef struct product {
    int m, n, k, batch, pad;
    bool ta, tb;
    cudaDataType in, out;
    float alpha, beta;
    cublasLtEpilogue_t epilogue;
    int algorithm;
} product;

static float value(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int)(*seed >> 24) / 64 - 2; // exact in bf16
}

static size_t bytes_of(cudaDataType t) {
    return t == CUDA_R_32F ? 4 : 2;
}
static float get(const void *p, cudaDataType t, long i) {
    if (t == CUDA_R_32F) return ((const float *)p)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static void put(void *p, cudaDataType t, long i, float f) {
    if (t == CUDA_R_32F) {
        ((float *)p)[i] = f;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
}

// A matrix in device memory, which is host memory here, filled; rows x columns, batch times.
typedef struct matrix {
    void *data;
    cudaDataType type;
    long rows, columns, ld, batch;
    cublasLtMatrixLayout_t layout;
} matrix;

static matrix matrix_open(long rows, long columns, long pad, long batch, cudaDataType type, uint32_t *seed) {
    matrix m = {NULL, type, rows, columns, rows + pad, batch, NULL};
    size_t n = (size_t)((rows + pad) * columns * batch);
    m.data = device_room(n * bytes_of(type));
    for (size_t i = 0; i < n; i++) put(m.data, type, (long)i, value(seed));
    OK(cublasLtMatrixLayoutCreate(&m.layout, type, (uint64_t)rows, (uint64_t)columns, m.ld));
    int32_t count = (int32_t)batch;
    int64_t stride = m.ld * columns;
    OK(cublasLtMatrixLayoutSetAttribute(m.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    OK(cublasLtMatrixLayoutSetAttribute(m.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return m;
}
static void matrix_close(matrix *m) {
    OK(cublasLtMatrixLayoutDestroy(m->layout));
    OK(cudaFree(m->data));
}
static float at(const matrix *m, long b, long row, long column) {
    return get(m->data, m->type, (b * m->columns + column) * m->ld + row);
}

static cublasLtMatmulDesc_t describe(const product *p, void *bias, void *aux, int64_t aux_ld) {
    cublasLtMatmulDesc_t d;
    int32_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, target = 120;
    int64_t aux_stride = aux_ld * p->n;
    OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld, sizeof aux_ld));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &aux_stride,
                                      sizeof aux_stride));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target));
    return d;
}

// The algorithm wanted, or the status of the search.
static cublasStatus_t search(cublasLtMatmulDesc_t d, const matrix *a, const matrix *b, const matrix *c, int which,
                             cublasLtMatmulHeuristicResult_t *found) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t results[4];
    uint64_t workspace = 1 << 20;
    int count = 0;
    OK(cublasLtMatmulPreferenceCreate(&preference));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace));
    cublasStatus_t e = cublasLtMatmulAlgoGetHeuristic(handle, d, a->layout, b->layout, c->layout, c->layout, preference,
                                                      4, results, &count);
    OK(cublasLtMatmulPreferenceDestroy(preference));
    if (e == CUBLAS_STATUS_SUCCESS) assert_int_equal(count, 2);
    if (e == CUBLAS_STATUS_SUCCESS) *found = results[which];
    return e;
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}
static double gelu_slope(double x) {
    return (gelu(x + 1e-4) - gelu(x - 1e-4)) / 2e-4;
}

static void near(double got, double want, cudaDataType type) {
    double slack = (type == CUDA_R_32F ? 2e-5 : 8e-3) * (fabs(want) + 1);
    if (!(fabs(got - want) <= slack)) fail_msg("%g, want %g", got, want);
}

// Runs the product and checks every element, aux and bias gradient.
static void check(product p) {
    uint32_t seed = (uint32_t)(p.m * 31 + p.n * 7 + p.k + (int)p.epilogue);
    matrix a = matrix_open(p.ta ? p.k : p.m, p.ta ? p.m : p.k, p.pad, p.batch, p.in, &seed);
    matrix b = matrix_open(p.tb ? p.n : p.k, p.tb ? p.k : p.n, p.pad, p.batch, p.in, &seed);
    matrix d = matrix_open(p.m, p.n, p.pad, p.batch, p.out, &seed);
    long aux_pad = (8 - p.m % 8) % 8;
    matrix aux = matrix_open(p.m, p.n, aux_pad, p.batch, p.out, &seed);
    matrix bias = matrix_open(p.m > p.n ? p.m : p.n, 1, 0, 1, p.out, &seed);
    size_t d_bytes = (size_t)(d.ld * d.columns * d.batch) * bytes_of(p.out);
    size_t aux_bytes = (size_t)(aux.ld * aux.columns * aux.batch) * bytes_of(p.out);
    matrix before = d, aux_before = aux;
    before.data = memcpy(malloc(d_bytes), d.data, d_bytes);
    aux_before.data = memcpy(malloc(aux_bytes), aux.data, aux_bytes);

    cublasLtMatmulDesc_t desc = describe(&p, bias.data, aux.data, aux.ld);
    cublasLtMatmulHeuristicResult_t found;
    OK(search(desc, &a, &b, &d, p.algorithm, &found));
    void *workspace = device_room(1 << 20);
    OK(cublasLtMatmul(handle, desc, &p.alpha, a.data, a.layout, b.data, b.layout, &p.beta, d.data, d.layout, d.data,
                      d.layout, &found.algo, workspace, 1 << 20, stream));
    OK(cudaStreamSynchronize(stream));
    int e = (int)p.epilogue;
    for (long i = 0; i < p.batch; i++)
        for (long r = 0; r < p.m; r++) {
            double row = 0;
            for (long c = 0; c < p.n; c++) {
                double v = 0;
                for (long k = 0; k < p.k; k++)
                    v += at(&a, i, p.ta ? k : r, p.ta ? r : k) * (double)at(&b, i, p.tb ? c : k, p.tb ? k : c);
                v = p.alpha * v + p.beta * at(&before, i, r, c);
                if (e & CUBLASLT_EPILOGUE_BIAS) v += at(&bias, 0, r, 0);
                if (e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX)
                    near(at(&aux, i, r, c), v, p.out);
                if (e & CUBLASLT_EPILOGUE_GELU) v = gelu(v);
                if (e & 64) v *= gelu_slope(at(&aux_before, i, r, c));
                near(at(&d, i, r, c), v, p.out);
                row += v;
            }
            if (e == CUBLASLT_EPILOGUE_DGELU_BGRAD && p.batch == 1) near(at(&bias, 0, r, 0), row, CUDA_R_16BF);
        }
    free(before.data);
    free(aux_before.data);
    OK(cudaFree(workspace));
    OK(cublasLtMatmulDescDestroy(desc));
    matrix *all[] = {&a, &b, &d, &aux, &bias};
    for (int i = 0; i < 5; i++) matrix_close(all[i]);
}

static void products_of_a_layer(void **unused) {
    (void)unused;
    const cudaDataType types[][2] = {{CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}, {CUDA_R_32F, CUDA_R_32F}};
    for (int t = 0; t < 3; t++)
        for (int turned = 0; turned < 4; turned++) {
            product p = {
                24, 10, 17, 1, 0, turned & 1, turned & 2, types[t][0], types[t][1], 1, 0, CUBLASLT_EPILOGUE_DEFAULT, 0};
            check(p);
            p.beta = 1; // as weight gradients are added
            p.pad = 8;
            p.alpha = 0.5f;
            check(p);
            p.batch = 3;
            p.algorithm = 1;
            check(p);
            p.m = 1;
            p.n = 33;
            check(p);
        }
    assert_string_equal(emu_report(), "");
}

static void epilogues(void **unused) {
    (void)unused;
    const cublasLtEpilogue_t all[] = {CUBLASLT_EPILOGUE_BIAS,         CUBLASLT_EPILOGUE_GELU,
                                      CUBLASLT_EPILOGUE_GELU_BIAS,    CUBLASLT_EPILOGUE_GELU_AUX,
                                      CUBLASLT_EPILOGUE_DGELU,        CUBLASLT_EPILOGUE_DGELU_BGRAD,
                                      CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int f32 = 0; f32 < 2; f32++) {
            cudaDataType t = f32 ? CUDA_R_32F : CUDA_R_16BF;
            check((product){16, 9, 12, 1, 0, true, false, t, t, 0.25f, 0, all[i], 0});
            check((product){19, 5, 12, 2, 1, true, false, t, t, 0.25f, 0, all[i], 0});
        }
}

// The same bits again; the algorithm that splits k has others.
static void bits_belong_to_the_algorithm(void **unused) {
    (void)unused;
    product p = {40, 40, 300, 1, 0, true, false, CUDA_R_32F, CUDA_R_32F, 0.3f, 0, CUBLASLT_EPILOGUE_DEFAULT, 0};
    uint32_t seed = 3;
    matrix a = matrix_open(p.k, p.m, 0, 1, p.in, &seed), b = matrix_open(p.k, p.n, 0, 1, p.in, &seed);
    for (long i = 0; i < 300 * 40; i++) ((float *)a.data)[i] /= 3;
    matrix d[3];
    void *workspace = device_room(1 << 20);
    cublasLtMatmulDesc_t desc = describe(&p, NULL, NULL, 0);
    for (int i = 0; i < 3; i++) {
        d[i] = matrix_open(p.m, p.n, 0, 1, p.out, &seed);
        cublasLtMatmulHeuristicResult_t found;
        OK(search(desc, &a, &b, &d[i], i == 2, &found));
        OK(cublasLtMatmul(handle, desc, &p.alpha, a.data, a.layout, b.data, b.layout, &p.beta, d[i].data, d[i].layout,
                          d[i].data, d[i].layout, &found.algo, workspace, 1 << 20, stream));
    }
    OK(cudaStreamSynchronize(stream));
    size_t bytes = (size_t)(p.m * p.n) * 4;
    assert_memory_equal(d[0].data, d[1].data, bytes);
    assert_true(memcmp(d[0].data, d[2].data, bytes) != 0);
    OK(cublasLtMatmulDescDestroy(desc));
    matrix *all[] = {&a, &b, &d[0], &d[1], &d[2]};
    for (int i = 0; i < 5; i++) matrix_close(all[i]);
}

static void what_the_library_has_not_is_refused(void **unused) {
    (void)unused;
    product p = {16, 8, 8, 1, 0, false, false, CUDA_R_16BF, CUDA_R_16BF, 1, 0, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 0};
    uint32_t seed = 1;
    matrix a = matrix_open(16, 8, 0, 1, p.in, &seed), b = matrix_open(8, 8, 0, 1, p.in, &seed);
    matrix d = matrix_open(16, 8, 0, 1, p.out, &seed), f = matrix_open(16, 8, 0, 1, CUDA_R_32F, &seed);
    void *bias = device_room(64), *aux = device_room(256);
    cublasLtMatmulHeuristicResult_t found, other;
    cublasLtMatmulDesc_t desc = describe(&p, bias, aux, 12); // no multiple of 8
    assert_int_equal(search(desc, &a, &b, &d, 0, &found), CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescDestroy(desc));
    desc = describe(&p, bias, NULL, 16);
    assert_int_equal(search(desc, &a, &b, &d, 0, &found), CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescDestroy(desc));
    desc = describe(&p, bias, aux, 16);
    OK(search(desc, &a, &b, &d, 0, &found));
    assert_int_equal(search(desc, &b, &a, &d, 0, &other), CUBLAS_STATUS_INVALID_VALUE); // shapes
    assert_int_equal(search(desc, &a, &f, &d, 0, &other), CUBLAS_STATUS_INVALID_VALUE);
    int32_t odd = CUDA_R_16F;
    OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &odd, sizeof odd));
    assert_int_equal(search(desc, &a, &b, &d, 0, &other), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &odd, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescDestroy(desc));

    desc = describe(&p, bias, aux, 16);
#define TRY(A, AUX, ALGO)                                                                                              \
    cublasLtMatmul(handle, desc, &p.alpha, A, a.layout, b.data, b.layout, &p.beta, d.data, d.layout, d.data, d.layout, \
                   ALGO, NULL, 0, stream)
    OK(TRY(a.data, aux, &found.algo));
    OK(TRY(a.data, aux, NULL));
    assert_int_equal(TRY((char *)a.data + 2, aux, &found.algo), CUBLAS_STATUS_INVALID_VALUE);  // not aligned
    assert_int_equal(TRY((char *)a.data + 16, aux, &found.algo), CUBLAS_STATUS_INVALID_VALUE); // over the end
    float host[128];
    assert_int_equal(TRY(host, aux, &found.algo), CUBLAS_STATUS_INVALID_VALUE); // no device memory
    cublasLtMatmulAlgo_t stale;
    memset(&stale, 0, sizeof stale);
    assert_int_equal(TRY(a.data, aux, &stale), CUBLAS_STATUS_INVALID_VALUE);
    emu_fail(EMU_FAULT_MATMUL, 1);
    assert_int_equal(TRY(a.data, aux, &found.algo), CUBLAS_STATUS_INTERNAL_ERROR);
    assert_int_equal(emu_counted().matmuls, 2);
    OK(cudaStreamSynchronize(stream));
    OK(cublasLtMatmulDescDestroy(desc));
    cublasLtMatrixLayout_t layout;
    assert_int_equal(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 8, 8, 7), CUBLAS_STATUS_INVALID_VALUE);
    emu_set_probe(cudaErrorNoDevice);
    cublasLtHandle_t none;
    assert_int_equal(cublasLtCreate(&none), CUBLAS_STATUS_NOT_INITIALIZED);
    emu_set_probe(0);
    matrix *all[] = {&a, &b, &d, &f};
    for (int i = 0; i < 4; i++) matrix_close(all[i]);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(products_of_a_layer),
        TEST(epilogues),
        TEST(bits_belong_to_the_algorithm),
        TEST(what_the_library_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
