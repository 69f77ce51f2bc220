// linear.c - LINEAR, LINEAR_DX and LINEAR_DW as products of cuBLASLt. Row-major matrices are column-major ones turned:
//
//   y (rows, OC) = x w^T + b    m, n, k = OC, rows, IC    A = w turned, B = x       bias in the product's epilogue
//   dx (rows, IC) = dy w                  IC, rows, OC    A = w, B = dy
//   dw (OC, IC) += dy^T x                 IC, OC, rows    A = x, B = dy turned      f32 sums into the accumulator itself
//
// An activation is a kernel of its own on pre as it is stored (act.cu): cuBLASLt's GELU would see pre before it is rounded
// to bf16, and its bits would differ from those of ACT behind LINEAR. Before it: program.c. After it: gemm.c.
#include "device/cuda/cuda.h"
#include "ops/op.h"

static void linear_free(void *state) {
    ppl_cuda_gemm_free(state);
}

static ppl_status build(ppl_cuda_device *d, const ppl_cuda_gemm_spec *s, void **state) {
    ppl_cuda_gemm *g = NULL;
    PPL_TRY(ppl_cuda_gemm_build(d, s, &g));
    *state = g;
    return PPL_OK;
}

// ---- y = act(x w^T + b)

static ppl_status linear_prepare(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs,
                                 void **state) {
    (void)needs;
    const ppl_type *x = &spec->in[0], *w = &spec->in[1];
    ppl_cuda_gemm_spec s = {.m = w->dim[0],
                            .n = ppl_rows(x),
                            .k = ppl_last_dim(x),
                            .batch = 1,
                            .a_transposed = true,
                            .bias = spec->inputs > 2,
                            .dtype = x->dtype,
                            .out_dtype = x->dtype};
    return build(d, &s, state);
}

static ppl_status linear_run(const ppl_cuda_run *r) {
    const ppl_call *c = r->call;
    int32_t act = (int32_t)r->spec->attrs.i[0];
    void *pre = c->out[act != PPL_ACT_NONE];
    PPL_TRY(ppl_cuda_gemm_run(r->device, r->state, c->in[1], c->in[0], pre, r->spec->inputs > 2 ? c->in[2] : NULL,
                              false, r->stream));
    if (act == PPL_ACT_NONE) return PPL_OK;
    const ppl_type *y = &r->spec->out[0];
    return ppl_cuda_check(
        "act", ppl_cuda_act_apply(c->out[0], pre, ppl_type_elements(y), act, y->dtype, r->device->stream[r->stream]));
}

// ---- dx = dy w

static ppl_status dx_prepare(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)needs;
    const ppl_type *dy = &spec->in[0], *w = &spec->in[1];
    ppl_cuda_gemm_spec s = {
        .m = w->dim[1], .n = ppl_rows(dy), .k = w->dim[0], .batch = 1, .dtype = dy->dtype, .out_dtype = dy->dtype};
    return build(d, &s, state);
}

static ppl_status dx_run(const ppl_cuda_run *r) {
    const ppl_call *c = r->call;
    return ppl_cuda_gemm_run(r->device, r->state, c->in[1], c->in[0], c->out[0], NULL, false, r->stream);
}

// ---- dw = or += dy^T x

static ppl_status dw_prepare(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)needs;
    const ppl_type *dy = &spec->in[0], *x = &spec->in[1];
    ppl_cuda_gemm_spec s = {.m = ppl_last_dim(x),
                            .n = ppl_last_dim(dy),
                            .k = ppl_rows(dy),
                            .batch = 1,
                            .b_transposed = true,
                            .dtype = dy->dtype,
                            .out_dtype = spec->out[0].dtype};
    return build(d, &s, state);
}

static ppl_status dw_run(const ppl_cuda_run *r) {
    const ppl_call *c = r->call;
    return ppl_cuda_gemm_run(r->device, r->state, c->in[1], c->in[0], c->out[0], NULL, r->spec->accumulates && c->add,
                             r->stream);
}

const ppl_cuda_kernel ppl_cuda_linear = {.prepare = linear_prepare, .run = linear_run, .free = linear_free};
const ppl_cuda_kernel ppl_cuda_linear_dx = {.prepare = dx_prepare, .run = dx_run, .free = linear_free};
const ppl_cuda_kernel ppl_cuda_linear_dw = {.prepare = dw_prepare, .run = dw_run, .free = linear_free};
