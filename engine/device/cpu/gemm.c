// gemm.c - matrix products by oneDNN's matmul primitive (the C API of 2.6), prepared for fixed shapes. Kernels come
// before it, nothing of ppl's after it. What version 3 of the API changed (descriptors became opaque, operation
// descriptors went away) is confined to the functions desc_plain, layout_*, product_describe and ppl_gemm_build's use of
// them.
//
// oneDNN threads with OpenMP and takes the calling thread's omp_get_max_threads at creation and again at execution, so
// both set it to spec.threads. Every execute allocates a few small blocks inside oneDNN; the memory objects and, where
// oneDNN lets us, its scratch memory are prepared or given.
#include "device/cpu/gemm.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "ppl.h"
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <omp.h>
#include <pthread.h>

typedef dnnl_memory_desc_t layout; // how a matrix lies in memory

typedef struct product { // one primitive for one number of rows
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, scratch;
    layout a_layout, c_layout;
} product;

struct ppl_gemm {
    ppl_gemm_spec spec;
    dnnl_stream_t stream;
    product full, tail;
    layout b_layout;          // of B as multiplied
    bool blocked;             // b_layout is oneDNN's own
    bool padded;              // or B is packed as (k, n) with rows ppl_gemm_row(n) apart; else it lies as it is stored
    dnnl_primitive_t reorder; // of blocked B
    dnnl_memory_t reorder_from, reorder_to;
    size_t scratch; // bytes
};

static dnnl_engine_t engine; // the process's; lives as long
static dnnl_status_t engine_status;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void engine_open(void) {
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

static ppl_status foreign(const ppl_gemm_spec *s, dnnl_status_t status, const char *call) {
    return ppl_fail(PPL_ERR_DEVICE,
                    "%s: product of (%lld, %lld) and (%lld, %lld), %s, batch %lld: %s says %s, want success", s->name,
                    (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n, ppl_dtype_name(s->dtype),
                    (long long)s->batch, call, dnnl_status2str(status));
}

// Calls oneDNN; a refusal goes to the label `fail` with `st` set. Needs `spec` in scope.
#define DNNL_GOTO(function, ...)                                                                                       \
    do {                                                                                                               \
        dnnl_status_t dnnl_status_ = function(__VA_ARGS__);                                                            \
        if (dnnl_status_ != dnnl_success) {                                                                            \
            st = foreign(spec, dnnl_status_, #function);                                                               \
            goto fail;                                                                                                 \
        }                                                                                                              \
    } while (0)

static void threads_set(int32_t threads) {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

static dnnl_data_type_t data_type(int32_t dtype) {
    return dtype == PPL_BF16 ? dnnl_bf16 : dnnl_f32;
}

int32_t ppl_cpu_bf16(void) {
    return ((unsigned)dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

int32_t ppl_gemm_dtype(int32_t dtype) {
    return dtype == PPL_BF16 && ppl_cpu_bf16() ? PPL_BF16 : PPL_F32;
}

// ---- layouts

// (batch,) rows x columns, row-major or, transposed, column-major. row: numbers from one stored row to the next.
static dnnl_status_t desc_plain(layout *l, int64_t batch, int64_t rows, int64_t columns, bool transposed, int64_t row,
                                int32_t dtype) {
    dnnl_dims_t dims = {0}, strides = {0};
    int n = 0;
    if (!row) row = transposed ? rows : columns;
    if (batch > 1) {
        dims[n] = batch;
        strides[n++] = rows * columns;
    }
    dims[n] = rows;
    strides[n++] = transposed ? 1 : row;
    dims[n] = columns;
    strides[n++] = transposed ? row : 1;
    return dnnl_memory_desc_init_by_strides(l, n, dims, data_type(dtype), strides);
}

static dnnl_status_t desc_any(layout *l, int64_t rows, int64_t columns, int32_t dtype) {
    dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_init_by_tag(l, 2, dims, data_type(dtype), dnnl_format_tag_any);
}

static bool layout_blocked(const layout *l) {
    return l->format_kind == dnnl_blocked && l->format_desc.blocking.inner_nblks > 0;
}

static size_t layout_bytes(const layout *l) {
    return dnnl_memory_desc_get_size(l);
}

// FNV-1a over everything that says where an element of the stored B goes.
static uint64_t layout_key(const layout *l, bool b_transposed) {
    uint64_t hash = 14695981039346656037u;
    int64_t fields[3 + 5 * DNNL_MAX_NDIMS] = {l->data_type, b_transposed, l->format_desc.blocking.inner_nblks};
    int n = 3;
    for (int i = 0; i < l->ndims; i++) {
        fields[n++] = l->dims[i];
        fields[n++] = l->padded_dims[i];
        fields[n++] = l->format_desc.blocking.strides[i];
    }
    for (int i = 0; i < l->format_desc.blocking.inner_nblks; i++) {
        fields[n++] = l->format_desc.blocking.inner_blks[i];
        fields[n++] = l->format_desc.blocking.inner_idxs[i];
    }
    for (int i = 0; i < n; i++) {
        for (int byte = 0; byte < 8; byte++) {
            hash = (hash ^ ((uint64_t)fields[i] >> (8 * byte) & 0xff)) * 1099511628211u;
        }
    }
    return hash;
}

// ---- one primitive

static dnnl_status_t attributes_create(bool add, dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && add) {
        status = dnnl_post_ops_create(&post);
        if (status == dnnl_success) status = dnnl_post_ops_append_sum(post, 1.0f);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*out, post);
        if (post) dnnl_post_ops_destroy(post);
    }
    return status;
}

// Asks oneDNN for a product of `rows` rows whose B lies as `b` says, which may be "any".
static ppl_status product_describe(const ppl_gemm_spec *spec, int64_t rows, const layout *b, product *p,
                                   dnnl_primitive_desc_t *out) {
    ppl_status st = PPL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_matmul_desc_t matmul;
    DNNL_GOTO(desc_plain, &p->a_layout, spec->batch, rows, spec->k, spec->a_transposed, spec->a_row, spec->dtype);
    DNNL_GOTO(desc_plain, &p->c_layout, spec->batch, rows, spec->n, false, 0, spec->c_dtype);
    DNNL_GOTO(attributes_create, spec->add, &attributes);
    DNNL_GOTO(dnnl_matmul_desc_init, &matmul, &p->a_layout, b, NULL, &p->c_layout);
    DNNL_GOTO(dnnl_primitive_desc_create, out, &matmul, attributes, engine, NULL);
fail:
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return st;
}

static ppl_status product_build(ppl_gemm *g, int64_t rows, product *p) {
    const ppl_gemm_spec *spec = &g->spec;
    ppl_status st = PPL_OK;
    dnnl_primitive_desc_t described = NULL;
    PPL_GOTO(product_describe(spec, rows, &g->b_layout, p, &described));
    DNNL_GOTO(dnnl_primitive_create, &p->primitive, described);
    const layout *scratch = dnnl_primitive_desc_query_md(described, dnnl_query_scratchpad_md, 0);
    size_t bytes = ppl_align(layout_bytes(scratch), 64);
    if (bytes > g->scratch) g->scratch = bytes;
    DNNL_GOTO(dnnl_memory_create, &p->a, &p->a_layout, engine, DNNL_MEMORY_NONE);
    DNNL_GOTO(dnnl_memory_create, &p->b, &g->b_layout, engine, DNNL_MEMORY_NONE);
    DNNL_GOTO(dnnl_memory_create, &p->c, &p->c_layout, engine, DNNL_MEMORY_NONE);
    DNNL_GOTO(dnnl_memory_create, &p->scratch, scratch, engine, DNNL_MEMORY_NONE);
fail:
    if (described) dnnl_primitive_desc_destroy(described);
    return st;
}

static void product_clear(product *p) {
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->a) dnnl_memory_destroy(p->a);
    if (p->b) dnnl_memory_destroy(p->b);
    if (p->c) dnnl_memory_destroy(p->c);
    if (p->scratch) dnnl_memory_destroy(p->scratch);
}

// ---- the layout of B

// An odd number of cache lines: rows a power of two apart share a few sets of the cache.
int64_t ppl_gemm_row(int64_t columns) {
    int64_t row = (columns + 15) / 16 * 16;
    return row % 32 ? row : row + 16;
}

// Takes oneDNN's own layout of a parameter where it has one for this CPU and can bring the stored B into it. Where it
// has none (AVX2), rows of B that share no cache set are what its products of up to 256 rows of A want: 78-92 GFLOP/s
// on a core of 90, against 58-83 with B (n, k) as stored and 38-85 with B (k, n) as stored.
static ppl_status b_choose(ppl_gemm *g) {
    const ppl_gemm_spec *spec = &g->spec;
    ppl_status st = PPL_OK;
    dnnl_primitive_desc_t described = NULL, reorder = NULL;
    product asked;
    layout any, stored, padded;
    DNNL_GOTO(desc_plain, &g->b_layout, spec->batch, spec->k, spec->n, spec->b_transposed, spec->b_row, spec->dtype);
    if (!spec->b_param) return PPL_OK;
    g->padded = spec->dtype == PPL_F32;
    DNNL_GOTO(desc_plain, &padded, 1, spec->k, spec->n, false, ppl_gemm_row(spec->n), spec->dtype);
    if (g->padded) g->b_layout = padded;
    DNNL_GOTO(desc_any, &any, spec->k, spec->n, spec->dtype);
    PPL_GOTO(product_describe(spec, spec->m, &any, &asked, &described));
    const layout *chosen = dnnl_primitive_desc_query_md(described, dnnl_query_weights_md, 0);
    if (!layout_blocked(chosen)) goto fail;
    DNNL_GOTO(desc_plain, &stored, 1, spec->k, spec->n, spec->b_transposed, spec->b_row, spec->b_dtype);
    if (dnnl_reorder_primitive_desc_create(&reorder, &stored, engine, chosen, engine, NULL) != dnnl_success) goto fail;
    g->b_layout = *chosen;
    g->blocked = true;
    g->padded = false;
    DNNL_GOTO(dnnl_primitive_create, &g->reorder, reorder);
    DNNL_GOTO(dnnl_memory_create, &g->reorder_from, &stored, engine, DNNL_MEMORY_NONE);
    DNNL_GOTO(dnnl_memory_create, &g->reorder_to, chosen, engine, DNNL_MEMORY_NONE);
fail:
    if (described) dnnl_primitive_desc_destroy(described);
    if (reorder) dnnl_primitive_desc_destroy(reorder);
    return st;
}

size_t ppl_gemm_pack_bytes(const ppl_gemm *g) {
    if (g->blocked) return ppl_align(layout_bytes(&g->b_layout), 64);
    if (g->padded) return ppl_align((size_t)g->spec.k * (size_t)ppl_gemm_row(g->spec.n) * sizeof(float), 64);
    return 0;
}

uint64_t ppl_gemm_pack_key(const ppl_gemm *g) {
    return layout_key(&g->b_layout, g->spec.b_transposed);
}

static inline float number_at(const void *b, int32_t dtype, int64_t i) {
    return dtype == PPL_BF16 ? ppl_bf16_to_f32(((const ppl_bf16 *)b)[i]) : ((const float *)b)[i];
}

// to (k, n) from b (n, k), in tiles of 16 by 16 that stay in the inner cache.
static inline void transpose(const ppl_gemm_spec *s, const void *b, int32_t dtype, float *to, int64_t to_row) {
    int64_t b_row = s->b_row ? s->b_row : s->k;
    for (int64_t n = 0; n < s->n; n += 16) {
        int64_t n_end = n + 16 < s->n ? n + 16 : s->n;
        for (int64_t k = 0; k < s->k; k += 16) {
            int64_t k_end = k + 16 < s->k ? k + 16 : s->k;
            for (int64_t i = k; i < k_end; i++)
                for (int64_t j = n; j < n_end; j++) to[i * to_row + j] = number_at(b, dtype, j * b_row + i);
        }
    }
}

static void pack_padded(const ppl_gemm_spec *s, const void *b, float *to) {
    int64_t to_row = ppl_gemm_row(s->n), b_row = s->b_row ? s->b_row : s->n;
    if (s->b_transposed && s->b_dtype == PPL_BF16) transpose(s, b, PPL_BF16, to, to_row);
    else if (s->b_transposed) transpose(s, b, PPL_F32, to, to_row);
    for (int64_t i = 0; i < s->k && !s->b_transposed; i++) {
        const char *from = (const char *)b + (size_t)(i * b_row) * ppl_dtype_size(s->b_dtype);
        ppl_convert(to + i * to_row, PPL_F32, from, s->b_dtype, s->n);
    }
}

// Padded layouts are zeroed by oneDNN whenever an address is set, so an address is set once.
static dnnl_status_t address_set(dnnl_memory_t m, const void *address) {
    void *now = NULL;
    dnnl_status_t status = dnnl_memory_get_data_handle(m, &now);
    if (status != dnnl_success || now == address) return status;
    return dnnl_memory_set_data_handle(m, (void *)(uintptr_t)address);
}

ppl_status ppl_gemm_pack(ppl_gemm *g, const void *b, void *packed) {
    const ppl_gemm_spec *spec = &g->spec;
    ppl_status st = PPL_OK;
    if (g->padded) pack_padded(spec, b, packed);
    if (!g->blocked) return PPL_OK;
    threads_set(spec->threads);
    DNNL_GOTO(address_set, g->reorder_from, b);
    DNNL_GOTO(address_set, g->reorder_to, packed);
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, g->reorder_from}, {DNNL_ARG_TO, g->reorder_to}};
    DNNL_GOTO(dnnl_primitive_execute, g->reorder, g->stream, 2, arguments);
    DNNL_GOTO(dnnl_stream_wait, g->stream);
fail:
    return st;
}

// ---- the whole

ppl_status ppl_gemm_check(const char *name, int32_t dtype, int64_t m, int64_t n, int64_t k) {
    if (dtype != PPL_F32 && dtype != PPL_BF16) {
        return ppl_fail(PPL_ERR_DEVICE, "%s on the cpu: dtype is %s, want f32 or bf16", name, ppl_dtype_name(dtype));
    }
    if (m < 1 || n < 1 || k < 1) {
        return ppl_fail(PPL_ERR_SHAPE, "%s: product of (%lld, %lld) and (%lld, %lld), want sizes of 1 or more", name,
                        (long long)m, (long long)k, (long long)k, (long long)n);
    }
    return PPL_OK;
}

ppl_status ppl_gemm_build(const ppl_gemm_spec *given, ppl_gemm **out) {
    ppl_status st = PPL_OK;
    ppl_gemm *g = ppl_alloc(sizeof *g);
    if (!g) return PPL_ERR_MEMORY;
    g->spec = *given;
    const ppl_gemm_spec *spec = &g->spec;
    pthread_once(&engine_once, engine_open);
    if (engine_status != dnnl_success) {
        st = foreign(spec, engine_status, "dnnl_engine_create");
        goto fail;
    }
    threads_set(spec->threads);
    DNNL_GOTO(dnnl_stream_create, &g->stream, engine, dnnl_stream_default_flags);
    PPL_GOTO(b_choose(g));
    PPL_GOTO(product_build(g, spec->m, &g->full));
    if (spec->tail > 0) PPL_GOTO(product_build(g, spec->tail, &g->tail));
    *out = g;
    return PPL_OK;
fail:
    ppl_gemm_free(g);
    return st;
}

void ppl_gemm_free(ppl_gemm *g) {
    if (!g) return;
    product_clear(&g->full);
    product_clear(&g->tail);
    if (g->reorder) dnnl_primitive_destroy(g->reorder);
    if (g->reorder_from) dnnl_memory_destroy(g->reorder_from);
    if (g->reorder_to) dnnl_memory_destroy(g->reorder_to);
    if (g->stream) dnnl_stream_destroy(g->stream);
    ppl_free(g);
}

size_t ppl_gemm_scratch(const ppl_gemm *g) {
    return g->scratch;
}

ppl_status ppl_gemm_run(ppl_gemm *g, int64_t rows, const void *a, const void *b, void *c, void *scratch) {
    const ppl_gemm_spec *spec = &g->spec;
    ppl_status st = PPL_OK;
    product *p = rows == spec->m ? &g->full : &g->tail;
    threads_set(spec->threads);
    DNNL_GOTO(address_set, p->a, a);
    DNNL_GOTO(address_set, p->b, b);
    DNNL_GOTO(address_set, p->c, c);
    DNNL_GOTO(address_set, p->scratch, scratch);
    dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}, {DNNL_ARG_SCRATCHPAD, p->scratch}};
    DNNL_GOTO(dnnl_primitive_execute, p->primitive, g->stream, 4, arguments);
    DNNL_GOTO(dnnl_stream_wait, g->stream);
fail:
    return st;
}
