// linear.c - y = act(x w^T + b) and, towards its input, dx = dy w, in blocks of rows: a block is multiplied (gemm.h) and
// then gets its bias, activation and rounding while it is in cache. The forward's blocks are the same with and without
// bias and activation, and the activation is act.h's, so that fusing changes no bit.
//
// Where the CPU multiplies f32 only, bf16 is widened block by block (the weight once a step, when it is packed) and a
// value is rounded where bf16 would be: pre first, then the activation of the rounded pre.
#include "base/memory.h"
#include "device/cpu/act.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/rows.h"

typedef struct linear_state { // y (rows, n) = x (rows, k) B
    ppl_gemm *gemm;
    int64_t rows, k, n, block;
    int32_t dtype, act, threads;        // dtype: of values as stored
    bool widen_x, widen_w;              // into scratch
    bool direct;                        // products go to y (or pre) at once
    bool finish;                        // a block has more to do after its product
    size_t x_at, w_at, sum_at, gemm_at; // in scratch
} linear_state;

// ---- after the product

typedef struct finish {
    const float *sum; // (rows, n)
    const void *bias; // (n); NULL: none
    void *y, *pre;    // (rows, n); pre NULL: y takes its place
    int64_t n;
    int32_t dtype, act;
} finish;

PPL_VEC void finish_lanes(const finish *f, int64_t at, int64_t column, int lanes, int act, int32_t dtype) {
    v16 x = v16_get(f->sum, PPL_F32, at, lanes);
    if (f->bias) x = v16_add(x, v16_get(f->bias, dtype, column, lanes));
    if (act != PPL_ACT_NONE) {
        v16_put(f->pre, dtype, at, x, lanes);
        if (dtype == PPL_BF16) x = v16_as_bf16(x);
        x = ppl_act_apply(act, x);
    }
    v16_put(f->y, dtype, at, x, lanes);
}

PPL_VEC void finish_rows(const finish *f, int64_t first, int64_t last, int act, int32_t dtype) {
    for (int64_t r = first; r < last; r++) {
        int64_t i = 0;
        for (; i + 16 <= f->n; i += 16) finish_lanes(f, r * f->n + i, i, 16, act, dtype);
        if (i < f->n) finish_lanes(f, r * f->n + i, i, (int)(f->n - i), act, dtype);
    }
}

// One loop for each activation and dtype, so that nothing is decided inside.
static void finish_share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const finish *f = context;
    bool half = f->dtype == PPL_BF16;
#define CASE(act)                                                                                                      \
    case act:                                                                                                          \
        if (half) finish_rows(f, first, last, act, PPL_BF16);                                                          \
        else finish_rows(f, first, last, act, PPL_F32);                                                                \
        break
    switch (f->act) {
        CASE(PPL_ACT_NONE);
        CASE(PPL_ACT_RELU);
        CASE(PPL_ACT_GELU_TANH);
        CASE(PPL_ACT_GELU_ERF);
        CASE(PPL_ACT_SILU);
    }
#undef CASE
}

// ---- blocks of rows

// Rows of a block: as even as can be and up to 192, which packed weights are multiplied fastest by (gemm.c) and whose
// sums mostly stay in the cache until they are finished; fewer where a row of sums is long.
static int64_t block_rows(int64_t rows, int64_t n, int32_t threads) {
    int64_t most = 4 * 1024 * 1024 / n;
    most = (most < 96 ? 96 : most > 192 ? 192 : most) * threads;
    int64_t blocks = (rows + most - 1) / most, block = ((rows + blocks - 1) / blocks + 15) / 16 * 16;
    return block < rows ? block : rows;
}

static void state_free(void *state) {
    linear_state *s = state;
    if (s) ppl_gemm_free(s->gemm);
    ppl_free(s);
}

// s: rows, k, n, act and finish are set. b_transposed: the weight is stored (n, k).
static ppl_status state_build(const ppl_kernel_spec *spec, linear_state *s, bool b_transposed,
                              ppl_kernel_needs *needs) {
    s->dtype = spec->in[0].dtype;
    s->threads = spec->threads;
    PPL_TRY(ppl_gemm_check(b_transposed ? "linear" : "linear_dx", s->dtype, s->rows, s->n, s->k));
    int32_t dtype = ppl_gemm_dtype(s->dtype); // multiplied
    bool param = spec->param_input == 1;
    s->widen_x = dtype != s->dtype;
    s->widen_w = s->widen_x && !param;
    // The forward in bf16 always sums into f32, so that one and the same code rounds pre whatever follows.
    s->direct = s->dtype == PPL_F32 || (!s->widen_x && !b_transposed);
    s->finish = s->finish || !s->direct;
    s->block = block_rows(s->rows, s->n, s->threads);
    ppl_gemm_spec g = {.name = b_transposed ? "linear" : "linear_dx",
                       .batch = 1,
                       .m = s->block,
                       .n = s->n,
                       .k = s->k,
                       .tail = s->rows % s->block,
                       .b_transposed = b_transposed,
                       .b_param = param,
                       .dtype = dtype,
                       .b_dtype = param ? s->dtype : dtype,
                       .c_dtype = s->direct ? s->dtype : PPL_F32,
                       .threads = s->threads};
    PPL_TRY(ppl_gemm_build(&g, &s->gemm));
    needs->pack = ppl_gemm_pack_bytes(s->gemm);
    needs->pack_key = ppl_gemm_pack_key(s->gemm);
    size_t end = 0;
    if (s->widen_x) s->x_at = scratch_place(&end, (size_t)(s->block * s->k) * sizeof(float));
    if (s->widen_w) s->w_at = scratch_place(&end, (size_t)(s->n * s->k) * sizeof(float));
    if (!s->direct) s->sum_at = scratch_place(&end, (size_t)(s->block * s->n) * sizeof(float));
    s->gemm_at = scratch_place(&end, ppl_gemm_scratch(s->gemm));
    needs->scratch = end;
    return PPL_OK;
}

static ppl_status linear_pack(const ppl_kernel_spec *spec, void *state, const void *param, void *packed) {
    (void)spec;
    return ppl_gemm_pack(((linear_state *)state)->gemm, param, packed);
}

static ppl_status run_blocks(const linear_state *s, const ppl_call *call, const void *bias, void *y, void *pre) {
    char *scratch = call->scratch;
    const void *w = call->packed ? call->packed : call->in[1];
    size_t size = ppl_dtype_size(s->dtype);
    if (s->widen_w) {
        rows_widen((float *)(scratch + s->w_at), s->k, w, s->k, s->n, s->k, s->threads); // dense either way
        w = scratch + s->w_at;
    }
    for (int64_t r = 0; r < s->rows; r += s->block) {
        int64_t rows = s->rows - r < s->block ? s->rows - r : s->block;
        size_t at = (size_t)(r * s->n) * size;
        const void *x = (const char *)call->in[0] + (size_t)(r * s->k) * size;
        char *y_rows = (char *)y + at, *pre_rows = pre ? (char *)pre + at : NULL;
        void *sum = !s->direct ? scratch + s->sum_at : pre ? pre_rows : y_rows;
        if (s->widen_x) {
            rows_widen((float *)(scratch + s->x_at), s->k, x, s->k, rows, s->k, s->threads);
            x = scratch + s->x_at;
        }
        PPL_TRY(ppl_gemm_run(s->gemm, rows, x, w, sum, scratch + s->gemm_at));
        finish f = {sum, bias, y_rows, pre_rows, s->n, s->dtype, s->act};
        if (s->finish) ppl_parallel(rows, s->threads, finish_share, &f);
    }
    return PPL_OK;
}

// ---- the two kernels

static int64_t rows_of(const ppl_type *t) { // all leading dims together
    return t->dim[t->ndim - 1] ? ppl_type_elements(t) / t->dim[t->ndim - 1] : 0;
}

static ppl_status linear_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    linear_state *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    s->rows = rows_of(&spec->in[0]);
    s->n = spec->in[1].dim[0];
    s->k = spec->in[1].dim[1];
    s->act = (int32_t)spec->attrs.i[0];
    s->finish = spec->inputs > 2 || s->act != PPL_ACT_NONE;
    ppl_status st = state_build(spec, s, true, needs);
    if (st != PPL_OK) state_free(s);
    else *state = s;
    return st;
}

static ppl_status linear_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    const linear_state *s = state;
    return run_blocks(s, call, spec->inputs > 2 ? call->in[2] : NULL, call->out[0],
                      s->act != PPL_ACT_NONE ? call->out[1] : NULL);
}

static ppl_status linear_dx_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    linear_state *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    s->rows = rows_of(&spec->in[0]);
    s->k = spec->in[1].dim[0];
    s->n = spec->in[1].dim[1];
    ppl_status st = state_build(spec, s, false, needs);
    if (st != PPL_OK) state_free(s);
    else *state = s;
    return st;
}

static ppl_status linear_dx_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)spec;
    return run_blocks(state, call, NULL, call->out[0], NULL);
}

const ppl_kernel PPL_ISA_NAME(ppl_cpu_linear) = {
    .name = "linear", .prepare = linear_prepare, .pack = linear_pack, .run = linear_run, .free = state_free};
const ppl_kernel PPL_ISA_NAME(ppl_cpu_linear_dx) = {
    .name = "linear_dx", .prepare = linear_dx_prepare, .pack = linear_pack, .run = linear_dx_run, .free = state_free};
