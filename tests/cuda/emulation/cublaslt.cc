// cublaslt.cc - cuBLASLt: descriptors, heuristics, products put into streams. Refuses what the library's table of types
// and epilogues does not have, and what it would read wrongly. Before it: the program; after it: product.cc.
#include "emulation/product.hh"
#include "emulation/state.hh"
#include <cublasLt.h>

using namespace emu;

struct cublasLtContext {
    int device;
};

namespace {

struct Descriptor {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST, transa = CUBLAS_OP_N, transb = CUBLAS_OP_N, sm_target = 0;
    int32_t bias_type = -1, aux_type = -1; // -1: D's
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr, *aux = nullptr;
    int64_t bias_stride = 0, aux_ld = 0, aux_stride = 0;
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C, D
};

// What cublasLtMatmulAlgo_t holds: an algorithm is for the product that it was asked for.
struct Algorithm {
    uint64_t halves, product, alignment, workspace;
};

Descriptor *of(cublasLtMatmulDesc_t d) {
    return reinterpret_cast<Descriptor *>(d);
}
Matrix *of(cublasLtMatrixLayout_t m) {
    return reinterpret_cast<Matrix *>(m);
}
Preference *of(cublasLtMatmulPreference_t p) {
    return reinterpret_cast<Preference *>(p);
}

// Copies an attribute in or out; the size must be its own.
template <class T> cublasStatus_t set(T &to, const void *from, size_t bytes) {
    if (!from || bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&to, from, sizeof to);
    return CUBLAS_STATUS_SUCCESS;
}

bool known(uint32_t epilogue) {
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: return true;
    default: return false;
    }
}

bool has_bias(uint32_t e) {
    return (e & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0;
}
bool has_aux(uint32_t e) {
    return (e & 128) != 0;
}

// The library's table of types: f32 all through, or bf16 into bf16 or f32, summed in f32.
bool types_supported(const Descriptor &d, const Product &p) {
    if (d.compute != CUBLAS_COMPUTE_32F && d.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return false;
    if (d.scale != CUDA_R_32F || p.a.type != p.b.type || p.c.type != p.d.type) return false;
    if (d.bias_type >= 0 && d.bias_type != static_cast<int32_t>(p.d.type)) return false;
    if (d.aux_type >= 0 && d.aux_type != static_cast<int32_t>(p.d.type)) return false;
    if (p.a.type == CUDA_R_32F) return p.d.type == CUDA_R_32F;
    return p.a.type == CUDA_R_16BF && (p.d.type == CUDA_R_16BF || p.d.type == CUDA_R_32F);
}

bool same_batch(const Product &p) {
    return p.a.batch == p.d.batch && p.b.batch == p.d.batch && p.c.batch == p.d.batch && p.d.batch >= 1;
}

// Fills in shapes; INVALID_VALUE where they do not fit, NOT_SUPPORTED where the library has no kernel.
cublasStatus_t describe(const Descriptor &d, const Matrix &a, const Matrix &b, const Matrix &c, const Matrix &o,
                        Product &p) {
    p = Product();
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = o;
    p.a_transposed = d.transa != CUBLAS_OP_N;
    p.b_transposed = d.transb != CUBLAS_OP_N;
    p.m = o.rows;
    p.n = o.columns;
    p.k = p.a_transposed ? a.rows : a.columns;
    p.epilogue = d.epilogue;
    if ((p.a_transposed ? a.columns : a.rows) != p.m || (p.b_transposed ? b.rows : b.columns) != p.n ||
        (p.b_transposed ? b.columns : b.rows) != p.k || c.rows != p.m || c.columns != p.n || !p.m || !p.n || !p.k)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!same_batch(p)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(d, p) || !known(d.epilogue) || d.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has_bias(d.epilogue) && !d.bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (has_aux(d.epilogue) && (!d.aux || d.aux_ld % 8 || d.aux_ld < static_cast<int64_t>(p.m) || d.aux_stride % 8))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (has_aux(d.epilogue) && p.a.type != p.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    p.bias = has_bias(d.epilogue) ? d.bias : nullptr;
    p.aux = has_aux(d.epilogue) ? d.aux : nullptr;
    p.aux_ld = d.aux_ld;
    p.aux_stride = d.aux_stride;
    p.bias_stride = d.bias_stride;
    return CUBLAS_STATUS_SUCCESS;
}

// The same for the same shapes, types and epilogue.
std::string name_of(const Descriptor &d, const Product &p) {
    std::string s = "product " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k);
    for (const Matrix *m : {&p.a, &p.b, &p.c, &p.d}) s += m->type == CUDA_R_32F ? " f32" : " bf16";
    s += p.a_transposed ? " T" : " N";
    s += p.b_transposed ? "T" : "N";
    s += " epilogue " + std::to_string(d.epilogue) + " batch " + std::to_string(p.d.batch);
    for (const Matrix *m : {&p.a, &p.b, &p.c, &p.d}) s += " " + std::to_string(m->ld);
    return s;
}

uint64_t number_of(const std::string &name) {
    return std::hash<std::string>()(name) | 1;
}

size_t bytes_of(const Matrix &m) {
    uint64_t last = static_cast<uint64_t>(m.batch - 1) * static_cast<uint64_t>(m.stride) +
                    (m.columns - 1) * static_cast<uint64_t>(m.ld) + m.rows;
    return last * (m.type == CUDA_R_32F ? 4 : 2);
}

bool on_device(const State &s, const void *p, size_t bytes) {
    const Range *range = range_of(s, p, bytes);
    return range && range->device == this_device;
}

bool aligned(const void *p, uint64_t to) {
    return reinterpret_cast<uintptr_t>(p) % to == 0;
}

// Every pointer lies where the product reads or writes whole, on this device.
bool pointers_sound(const State &s, const Product &p, uint64_t alignment) {
    const void *data[] = {p.a_data, p.b_data, p.c_data, p.d_data};
    const Matrix *matrix[] = {&p.a, &p.b, &p.c, &p.d};
    for (int i = 0; i < 4; i++) {
        if (i == 2 && p.beta == 0) continue;
        if (!aligned(data[i], alignment) || !on_device(s, data[i], bytes_of(*matrix[i]))) return false;
    }
    size_t size = p.d.type == CUDA_R_32F ? 4 : 2;
    uint64_t batches = static_cast<uint64_t>(p.d.batch - 1);
    uint64_t bias =
        batches * static_cast<uint64_t>(p.bias_stride) + (p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m);
    uint64_t aux = batches * static_cast<uint64_t>(p.aux_stride) + (p.n - 1) * static_cast<uint64_t>(p.aux_ld) + p.m;
    if (p.bias && !on_device(s, p.bias, bias * size)) return false;
    return !p.aux || (aligned(p.aux, 16) && on_device(s, p.aux, aux * size));
}

struct StatusText {
    cublasStatus_t status;
    const char *name;
};
const StatusText status_texts[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED"},
};

} // namespace

const char *cublasLtGetStatusName(cublasStatus_t status) {
    for (const StatusText &t : status_texts)
        if (t.status == status) return t.name;
    return "CUBLAS_STATUS_UNKNOWN";
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusName(status);
}
size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

// Unlike descriptors, a handle wants a GPU.
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    State &s = state();
    Lock l(s.lock);
    if (usable(s)) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext{this_device};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale) {
    Descriptor *made = new Descriptor;
    made->compute = compute;
    made->scale = scale;
    *d = reinterpret_cast<cublasLtMatmulDesc_t>(made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
    delete of(d);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                                              const void *from, size_t bytes) {
    Descriptor &d = *of(desc);
    switch (static_cast<int>(what)) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(d.pointer_mode, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(d.transa, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(d.transb, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(d.epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(d.bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return set(d.bias_stride, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(d.bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(d.aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(d.aux_ld, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return set(d.aux_stride, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return set(d.aux_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(d.sm_target, from, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    if (ld < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    Matrix *m = new Matrix;
    m->type = type;
    m->rows = rows;
    m->columns = columns;
    m->ld = ld;
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(m);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete of(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void *from, size_t bytes) {
    Matrix &m = *of(layout);
    int32_t order = CUBLASLT_ORDER_COL;
    switch (static_cast<int>(what)) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(m.batch, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(m.stride, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return set(m.ld, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        if (set(order, from, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
        return order == CUBLASLT_ORDER_COL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
    *p = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    delete of(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *from,
                                                    size_t bytes) {
    Preference &p = *of(pref);
    uint32_t mask;
    switch (static_cast<int>(what)) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(p.workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(mask, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(p.alignment[0], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(p.alignment[1], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(p.alignment[2], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(p.alignment[3], from, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

// One algorithm that sums k in order; where the workspace allows, a second one that splits k, whose bits differ.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wanted < 1 || !results || !count) return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    Product p;
    if (cublasStatus_t e = describe(*of(desc), *of(a), *of(b), *of(c), *of(d), p)) return e;
    uint64_t alignment = 16;
    for (uint32_t given : of(pref)->alignment) alignment = std::min<uint64_t>(alignment, given);
    uint64_t partial = p.m * p.n * 4 * static_cast<uint64_t>(p.d.batch);
    for (int i = 0; i < wanted && i < 2; i++) {
        if (i == 1 && (partial > of(pref)->workspace || p.k < 2)) break;
        Algorithm algo = {i == 1, number_of(name_of(*of(desc), p)), alignment, i ? partial : 0};
        memset(&results[i], 0, sizeof results[i]);
        memcpy(&results[i].algo, &algo, sizeof algo);
        results[i].workspaceSize = algo.workspace;
        results[i].wavesCount = 1;
        ++*count;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *given, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || !a || !b || !d) return CUBLAS_STATUS_INVALID_VALUE;
    Product p;
    if (cublasStatus_t e = describe(*of(desc), *of(a_layout), *of(b_layout), *of(c_layout), *of(d_layout), p)) return e;
    p.a_data = a;
    p.b_data = b;
    p.c_data = c;
    p.d_data = d;
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    std::string name = name_of(*of(desc), p);
    Algorithm algo = {false, number_of(name), 16, 0};
    if (given) memcpy(&algo, given, sizeof algo);
    if (algo.product != number_of(name)) return CUBLAS_STATUS_INVALID_VALUE; // asked for another product
    p.halves = algo.halves;

    State &s = state();
    Lock l(s.lock);
    if (usable(s)) return CUBLAS_STATUS_EXECUTION_FAILED;
    CUstream_st *into = stream_of(s, stream);
    if (!into || into->device != handle->device || handle->device != this_device) return CUBLAS_STATUS_INVALID_VALUE;
    if (!pointers_sound(s, p, algo.alignment)) return CUBLAS_STATUS_INVALID_VALUE;
    if (c == d && (p.c.ld != p.d.ld || p.c.stride != p.d.stride)) return CUBLAS_STATUS_INVALID_VALUE;
    if (algo.workspace > workspace_bytes ||
        (workspace && (!aligned(workspace, 256) || !on_device(s, workspace, workspace_bytes))))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (fault(s, EMU_FAULT_MATMUL)) return CUBLAS_STATUS_INTERNAL_ERROR;
    if (!loaded(s, this_device, name)) {
        break_device(s, this_device, cudaErrorLaunchTimeout);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    s.counts.matmuls++;
    Work w = {name, nullptr, [p] { multiply(p); }};
    return enqueue(s, stream, std::move(w)) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
