// linear_dw.c - the gradient of a weight, dw (OC, IC) = or += dy (rows, OC)^T x (rows, IC), summed over all rows in one
// product (gemm.h): towards an accumulator in place, with a second product for +=.
//
// Where the CPU multiplies f32 only, bf16 is widened: x whole, dy in slabs of columns, each of which gives its own rows
// of dw, so that dw is passed over once and scratch stays small whatever OC is.
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/rows.h"

typedef struct dw_state {
    ppl_gemm *set, *add;        // add NULL: not an accumulator
    int64_t rows, oc, ic, slab; // slab: columns of dy, and rows of dw, per product
    int64_t dy_row, x_row;      // numbers from one row of the widened copies to the next
    int32_t dtype, threads;
    bool widen, direct;                  // direct: products go to dw at once; else to scratch, and are rounded
    size_t x_at, dy_at, sum_at, gemm_at; // in scratch
} dw_state;

static void dw_free(void *state) {
    dw_state *s = state;
    if (!s) return;
    ppl_gemm_free(s->set);
    ppl_gemm_free(s->add);
    ppl_free(s);
}

// Columns of dy that are widened at once: about 8 MiB, and enough to multiply at full speed.
static int64_t slab_columns(int64_t rows, int64_t oc) {
    int64_t slab = (int64_t)(2 * 1024 * 1024) / rows / 64 * 64;
    if (slab < 64) slab = 64;
    return slab < oc ? slab : oc;
}

static ppl_status dw_build(const ppl_kernel_spec *spec, dw_state *s, ppl_kernel_needs *needs) {
    s->oc = spec->in[0].dim[spec->in[0].ndim - 1];
    s->ic = spec->in[1].dim[spec->in[1].ndim - 1];
    s->rows = s->oc ? ppl_type_elements(&spec->in[0]) / s->oc : 0;
    s->dtype = spec->in[0].dtype;
    s->threads = spec->threads;
    PPL_TRY(ppl_gemm_check("linear_dw", s->dtype, s->oc, s->ic, s->rows));
    int32_t dtype = ppl_gemm_dtype(s->dtype);
    s->widen = dtype != s->dtype;
    s->direct = spec->out[0].dtype == PPL_F32;
    s->slab = s->widen ? slab_columns(s->rows, s->oc) : s->oc;
    s->dy_row = s->widen ? ppl_gemm_row(s->slab) : s->oc;
    s->x_row = s->widen ? ppl_gemm_row(s->ic) : s->ic;
    ppl_gemm_spec g = {.name = "linear_dw",
                       .batch = 1,
                       .m = s->slab,
                       .n = s->ic,
                       .k = s->rows,
                       .tail = s->oc % s->slab,
                       .a_transposed = true,
                       .a_row = s->dy_row,
                       .b_row = s->x_row,
                       .dtype = dtype,
                       .b_dtype = dtype,
                       .c_dtype = PPL_F32,
                       .threads = s->threads};
    PPL_TRY(ppl_gemm_build(&g, &s->set));
    g.add = true;
    if (spec->accumulates && s->direct) PPL_TRY(ppl_gemm_build(&g, &s->add));
    size_t end = 0, gemm_bytes = ppl_gemm_scratch(s->set);
    if (s->add && ppl_gemm_scratch(s->add) > gemm_bytes) gemm_bytes = ppl_gemm_scratch(s->add);
    if (s->widen) {
        s->x_at = scratch_place(&end, (size_t)(s->rows * s->x_row) * sizeof(float));
        s->dy_at = scratch_place(&end, (size_t)(s->rows * s->dy_row) * sizeof(float));
    }
    if (!s->direct) s->sum_at = scratch_place(&end, (size_t)(s->slab * s->ic) * sizeof(float));
    s->gemm_at = scratch_place(&end, gemm_bytes);
    needs->scratch = end;
    return PPL_OK;
}

static ppl_status dw_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    dw_state *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    ppl_status st = dw_build(spec, s, needs);
    if (st != PPL_OK) dw_free(s);
    else *state = s;
    return st;
}

static ppl_status dw_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    const dw_state *s = state;
    char *scratch = call->scratch;
    const void *x = call->in[1];
    ppl_gemm *gemm = spec->accumulates && call->add && s->add ? s->add : s->set;
    if (s->widen) {
        rows_widen((float *)(scratch + s->x_at), s->x_row, x, s->ic, s->rows, s->ic, s->threads);
        x = scratch + s->x_at;
    }
    for (int64_t o = 0; o < s->oc; o += s->slab) {
        int64_t columns = s->oc - o < s->slab ? s->oc - o : s->slab;
        const void *dy = call->in[0]; // one slab unless it is widened
        if (s->widen) {
            const ppl_bf16 *from = (const ppl_bf16 *)dy + o;
            rows_widen((float *)(scratch + s->dy_at), s->dy_row, from, s->oc, s->rows, columns, s->threads);
            dy = scratch + s->dy_at;
        }
        float *sum = s->direct ? (float *)call->out[0] + o * s->ic : (float *)(scratch + s->sum_at);
        PPL_TRY(ppl_gemm_run(gemm, columns, dy, x, sum, scratch + s->gemm_at));
        if (!s->direct) rows_round((ppl_bf16 *)call->out[0] + o * s->ic, sum, columns, s->ic, s->threads);
    }
    return PPL_OK;
}

const ppl_kernel PPL_ISA_NAME(ppl_cpu_linear_dw) = {
    .name = "linear_dw", .prepare = dw_prepare, .pack = ppl_kernel_pack_none, .run = dw_run, .free = dw_free};
