// matmul.c - batched products of two activations, (..., M, K) (..., K, N) -> (..., M, N), each possibly stored transposed.
// In f32, and in bf16 where the CPU multiplies it, one call of gemm.h does the whole batch; otherwise each product of the
// batch is widened, multiplied and rounded by itself. A parameter as the second factor is packed.
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/rows.h"

typedef struct matmul_state {
    ppl_gemm *gemm;
    int64_t batch, m, n, k;
    int32_t threads;
    bool widen, packs;
    size_t a_at, b_at, c_at, gemm_at; // in scratch
} matmul_state;

static void matmul_free(void *state) {
    matmul_state *s = state;
    if (s) ppl_gemm_free(s->gemm);
    ppl_free(s);
}

static ppl_status matmul_build(const ppl_kernel_spec *spec, matmul_state *s, ppl_kernel_needs *needs) {
    const ppl_type *a = &spec->in[0], *c = &spec->out[0];
    bool a_transposed = spec->attrs.i[0] != 0, b_transposed = spec->attrs.i[1] != 0;
    s->m = c->dim[c->ndim - 2];
    s->n = c->dim[c->ndim - 1];
    s->k = a->dim[a->ndim - (a_transposed ? 2 : 1)];
    s->batch = 1;
    for (int32_t i = 0; i + 2 < c->ndim; i++) s->batch *= c->dim[i];
    s->threads = spec->threads;
    PPL_TRY(ppl_gemm_check("matmul", a->dtype, s->m, s->n, s->k));
    int32_t dtype = ppl_gemm_dtype(a->dtype);
    s->widen = dtype != a->dtype;
    s->packs = spec->param_input == 1 && s->batch == 1;
    ppl_gemm_spec g = {.name = "matmul",
                       .batch = s->widen ? 1 : s->batch,
                       .m = s->m,
                       .n = s->n,
                       .k = s->k,
                       .a_transposed = a_transposed,
                       .b_transposed = b_transposed,
                       .b_param = s->packs,
                       .dtype = dtype,
                       .b_dtype = s->packs ? a->dtype : dtype,
                       .c_dtype = dtype,
                       .threads = s->threads};
    PPL_TRY(ppl_gemm_build(&g, &s->gemm));
    if (s->packs) {
        needs->pack = ppl_gemm_pack_bytes(s->gemm);
        needs->pack_key = ppl_gemm_pack_key(s->gemm);
    }
    size_t end = 0;
    if (s->widen) {
        s->a_at = scratch_place(&end, (size_t)(s->m * s->k) * sizeof(float));
        s->b_at = scratch_place(&end, s->packs ? 0 : (size_t)(s->k * s->n) * sizeof(float));
        s->c_at = scratch_place(&end, (size_t)(s->m * s->n) * sizeof(float));
    }
    s->gemm_at = scratch_place(&end, ppl_gemm_scratch(s->gemm));
    needs->scratch = end;
    return PPL_OK;
}

static ppl_status matmul_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    matmul_state *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    ppl_status st = matmul_build(spec, s, needs);
    if (st != PPL_OK) matmul_free(s);
    else *state = s;
    return st;
}

static ppl_status matmul_pack(const ppl_kernel_spec *spec, void *state, const void *param, void *packed) {
    (void)spec;
    return ppl_gemm_pack(((matmul_state *)state)->gemm, param, packed);
}

static ppl_status matmul_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)spec;
    const matmul_state *s = state;
    char *scratch = call->scratch;
    if (!s->widen) {
        const void *second = call->packed ? call->packed : call->in[1];
        return ppl_gemm_run(s->gemm, s->m, call->in[0], second, call->out[0], scratch + s->gemm_at);
    }
    int64_t mk = s->m * s->k, kn = s->k * s->n, mn = s->m * s->n; // dense either way round: copied as they lie
    float *a = (float *)(scratch + s->a_at), *b = (float *)(scratch + s->b_at), *c = (float *)(scratch + s->c_at);
    const void *second = s->packs ? call->packed : b;
    for (int64_t i = 0; i < s->batch; i++) {
        rows_widen(a, s->k, (const ppl_bf16 *)call->in[0] + i * mk, s->k, s->m, s->k, s->threads);
        if (!s->packs) rows_widen(b, s->n, (const ppl_bf16 *)call->in[1] + i * kn, s->n, s->k, s->n, s->threads);
        PPL_TRY(ppl_gemm_run(s->gemm, s->m, a, second, c, scratch + s->gemm_at));
        rows_round((ppl_bf16 *)call->out[0] + i * mn, c, s->m, s->n, s->threads);
    }
    return PPL_OK;
}

const ppl_kernel PPL_ISA_NAME(ppl_cpu_matmul) = {
    .name = "matmul", .prepare = matmul_prepare, .pack = matmul_pack, .run = matmul_run, .free = matmul_free};
