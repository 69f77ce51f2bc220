// attention_choice.c - ATTENTION and ATTENTION_GRAD on the cuda device: by cuDNN in builds that have it, for bf16 and where
// it has a plan of sums in order, else by the kernels of attention.cu and attention_grad.cu. Both write and read the same
// lse, so that one may serve the forward and the other the backward. The choice follows from the shape, the library and the
// kind of GPU alone: the same for every cut and schedule. Before it: kernels.c. After it: cudnn_attention.c, or the launchers.
//
// PPL_CUDA_ATTENTION: "own" does without cuDNN; "cudnn" makes a shape that it does not serve an error; "cudnn-any-order"
// lets it sum dq in any order: less memory, more speed, other bits from run to run.
#include "device/cuda/cuda.h"
#include "device/cuda/cudnn.h"
#include "ops/op.h"
#include "ppl.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const modes[] = {[PPL_CUDA_ATTENTION_BOTH] = "",
                                    [PPL_CUDA_ATTENTION_OWN] = "own",
                                    [PPL_CUDA_ATTENTION_CUDNN] = "cudnn",
                                    [PPL_CUDA_ATTENTION_ANY_ORDER] = "cudnn-any-order"};
enum { MODES = sizeof modes / sizeof *modes };

static ppl_status mode_read(int32_t *out) {
    const char *text = getenv("PPL_CUDA_ATTENTION");
    if (!text || !*text) {
        *out = ppl_cudnn_name() ? PPL_CUDA_ATTENTION_BOTH : PPL_CUDA_ATTENTION_OWN;
        return PPL_OK;
    }
    int32_t mode = 1;
    while (mode < MODES && strcmp(modes[mode], text) != 0) mode++;
    if (mode == MODES)
        return ppl_fail(PPL_ERR_ARG, "PPL_CUDA_ATTENTION is '%s', want own, cudnn or cudnn-any-order", text);
    if (mode != PPL_CUDA_ATTENTION_OWN && !ppl_cudnn_name()) {
        return ppl_fail(PPL_ERR_DEVICE,
                        "PPL_CUDA_ATTENTION is '%s': this build has no cuDNN, want one made with `make CUDA=1 CUDNN=1`",
                        text);
    }
    *out = mode;
    return PPL_OK;
}

ppl_status ppl_cuda_attention_open(ppl_cuda_device *d) {
    return mode_read(&d->attention);
}

// ---- what is told ----

enum { EXCEPTIONS = 32 }; // more different shapes than a model has
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char exceptions[EXCEPTIONS][256];
static int32_t exceptions_count;

static void exception_add(const char *text) {
    pthread_mutex_lock(&lock);
    int32_t i = 0;
    while (i < exceptions_count && strcmp(exceptions[i], text) != 0) i++;
    if (i == exceptions_count && i < EXCEPTIONS)
        snprintf(exceptions[exceptions_count++], sizeof *exceptions, "%s", text);
    pthread_mutex_unlock(&lock);
}

const char *ppl_gpu_attention_exception(int32_t index) {
    pthread_mutex_lock(&lock);
    const char *text = index >= 0 && index < exceptions_count ? exceptions[index] : NULL;
    pthread_mutex_unlock(&lock);
    return text; // it does not change any more
}

const char *ppl_gpu_attention(void) {
    static _Thread_local char text[96];
    int32_t mode;
    if (mode_read(&mode) != PPL_OK) return ppl_error();
    if (!ppl_cudnn_name()) return "own kernels (a build made with CUDNN=1 has cuDNN's)";
    if (mode == PPL_CUDA_ATTENTION_OWN) return "own kernels (PPL_CUDA_ATTENTION=own)";
    snprintf(text, sizeof text, "%s in bf16%s, own kernels in f32", ppl_cudnn_name(),
             mode == PPL_CUDA_ATTENTION_ANY_ORDER ? ", its sums in any order" : "");
    return text;
}

// ---- the choice ----

// Where the heads lie, as attention.cuh has it.
static ppl_cudnn_shape shape_of(const ppl_cuda_device *d, const ppl_kernel_spec *spec) {
    bool backward = spec->op == PPL_OP_ATTENTION_GRAD;
    int32_t first = backward ? 3 : 0;
    const ppl_type *q = &spec->in[first];
    bool packed = spec->inputs == first + 1;
    ppl_cudnn_shape s = {
        .batch = q->dim[0], .time = q->dim[1], .heads = spec->attrs.i[0], .kv_heads = spec->attrs.i[1]};
    s.size = q->dim[2] / (s.heads + (packed ? 2 * s.kv_heads : 0));
    s.q_row = q->dim[2];
    s.kv_row = packed ? s.q_row : s.kv_heads * s.size;
    s.o_row = s.heads * s.size;
    s.causal = spec->attrs.i[2] != 0;
    s.backward = backward;
    s.any_order = backward && d->attention == PPL_CUDA_ATTENTION_ANY_ORDER;
    return s;
}

// Refuses what cuDNN does not serve where it alone is wanted.
static ppl_status own_check(const ppl_cuda_device *d, const char *why) {
    if (d->attention != PPL_CUDA_ATTENTION_CUDNN) return PPL_OK;
    return ppl_fail(PPL_ERR_DEVICE,
                    "PPL_CUDA_ATTENTION is 'cudnn': %s, want bf16 and another shape, or PPL_CUDA_ATTENTION unset", why);
}

static void exception_tell(const ppl_cudnn_shape *s, const char *why) {
    char text[256];
    snprintf(text, sizeof text, "%s of %lld x %lld positions, %lld heads of %lld: own kernels: %s",
             s->backward ? "backward" : "forward", (long long)s->batch, (long long)s->time, (long long)s->heads,
             (long long)s->size, why);
    exception_add(text);
}

// *out stays NULL where own kernels serve it.
static ppl_status plan_find(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_cudnn_plan **out) {
    ppl_cudnn_shape s = shape_of(d, spec);
    ppl_cudnn_plan *p;
    if (d->attention == PPL_CUDA_ATTENTION_OWN) return PPL_OK;
    if (spec->in[0].dtype != PPL_BF16) return own_check(d, "cuDNN's is in bf16");
    if (!d->cudnn) PPL_TRY(ppl_cudnn_open(NULL, &d->cudnn));
    PPL_TRY(ppl_cudnn_plan_get(d->cudnn, &s, &p));
    const char *why = ppl_cudnn_plan_why(p);
    if (why) {
        exception_tell(&s, why);
        return own_check(d, why);
    }
    *out = p;
    return PPL_OK;
}

static ppl_status prepare(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    ppl_cudnn_plan *p = NULL;
    PPL_TRY(plan_find(d, spec, &p));
    if (p) {
        needs->scratch = ppl_cudnn_plan_scratch(p);
    } else if (spec->op == PPL_OP_ATTENTION_GRAD) {
        needs->scratch = ppl_cuda_attention_grad_scratch(spec);
    }
    *state = p; // the device keeps it
    return PPL_OK;
}

// ---- running ----

static ppl_status own_run(const ppl_cuda_run *r) {
    ppl_cuda_job job = {
        .spec = r->spec, .call = r->call, .fault = r->device->fault, .stream = r->device->stream[r->stream]};
    ppl_cuda_launcher *launch = r->spec->op == PPL_OP_ATTENTION ? ppl_cuda_attention : ppl_cuda_attention_grad;
    return ppl_cuda_check(ppl_op_name(r->spec->op), launch(&job));
}

static ppl_status run(const ppl_cuda_run *r) {
    if (!r->state) return own_run(r);
    const ppl_call *call = r->call;
    ppl_cudnn_shape s = shape_of(r->device, r->spec);
    int32_t first = s.backward ? 3 : 0;
    bool packed = r->spec->inputs == first + 1;
    size_t q = (size_t)(s.heads * s.size) * sizeof(ppl_bf16), k = (size_t)(s.kv_heads * s.size) * sizeof(ppl_bf16);
    double scale = r->spec->attrs.f[0] != 0 ? r->spec->attrs.f[0] : 1 / sqrt((double)s.size);
    ppl_cudnn_call c = {.q = call->in[first], .scratch = call->scratch, .scale = (float)scale};
    c.k = packed ? (const char *)c.q + q : call->in[first + 1];
    c.v = packed ? (const char *)c.k + k : call->in[first + 2];
    if (s.backward) {
        c.dy = call->in[0], c.o = (void *)(uintptr_t)call->in[1], c.lse = (void *)(uintptr_t)call->in[2];
        c.dq = call->out[0];
        c.dk = packed ? (char *)c.dq + q : call->out[1];
        c.dv = packed ? (char *)c.dk + k : call->out[2];
    } else {
        c.o = call->out[0], c.lse = call->out[1];
    }
    return ppl_cudnn_plan_run(r->device->cudnn, r->state, &c, r->device->stream[r->stream]);
}

const ppl_cuda_kernel ppl_cuda_attention_kernel = {.prepare = prepare, .run = run};
