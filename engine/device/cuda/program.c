// program.c - programs of the cuda device: each node's code is found and its needs are known once, and a run enqueues the
// nodes in order on one stream. Before it: exec gives the nodes of a stage's F, I or W program. After it: kernels.c.
#include "device/cuda/cuda.h"
#include "device/cpu/rope_table.h"

// ---- what a node is refused for ----

static ppl_status dtypes_check(const ppl_kernel_spec *s) {
    for (int32_t k = 0; k < s->inputs; k++) {
        if (s->in[k].dtype != PPL_F64) continue;
        return ppl_fail(PPL_ERR_DEVICE, "%s: input %d is f64, want f32 or bf16 on the cuda device", ppl_op_name(s->op),
                        k);
    }
    return PPL_OK;
}

// Rows are counted by a grid, and what kernels index by 32 bits has to fit.
static ppl_status size_check(const ppl_kernel_spec *s) {
    int32_t ids = s->op == PPL_OP_EMBEDDING_DW ? 0 : -1;
    bool rows = s->op == PPL_OP_CROSS_ENTROPY_GRAD;
    const ppl_type *x = &s->in[rows ? 1 : 0];
    int64_t last = x->ndim ? x->dim[x->ndim - 1] : 1, count = ppl_type_elements(x) / (ids >= 0 ? 1 : last);
    if (count <= INT32_MAX && (ids < 0 || s->out[0].dim[0] < INT32_MAX)) return PPL_OK;
    return ppl_fail(PPL_ERR_DEVICE, "%s: %lld rows, want 2^31 - 1 at most on the cuda device", ppl_op_name(s->op),
                    (long long)count);
}

enum { HEAD_MOST = 256 };

static ppl_status attention_check(const ppl_kernel_spec *s) {
    if (s->op != PPL_OP_ATTENTION && s->op != PPL_OP_ATTENTION_GRAD) return PPL_OK;
    int32_t first = s->op == PPL_OP_ATTENTION ? 0 : 3;
    bool packed = s->inputs == first + 1;
    int64_t heads = s->attrs.i[0], parts = packed ? heads + 2 * s->attrs.i[1] : heads;
    int64_t size = s->in[first].dim[2] / parts;
    if (size > HEAD_MOST) {
        return ppl_fail(PPL_ERR_DEVICE, "%s: heads of %lld numbers, want %d at most on the cuda device",
                        ppl_op_name(s->op), (long long)size, HEAD_MOST);
    }
    if (s->in[first].dim[1] <= INT32_MAX / 2 && s->in[first].dim[0] * heads <= INT32_MAX) return PPL_OK;
    return ppl_fail(PPL_ERR_DEVICE, "%s: %lld positions of %lld heads, want fewer on the cuda device",
                    ppl_op_name(s->op), (long long)s->in[first].dim[1], (long long)(s->in[first].dim[0] * heads));
}

// ---- tables ----

static ppl_status table_copy(ppl_cuda_device *d, ppl_cuda_table *t) {
    const ppl_rope_table *host;
    PPL_TRY(ppl_rope_table_get(t->time, t->d, t->theta, &host));
    ppl_status st;
    size_t bytes = (size_t)(t->time * t->d) * sizeof(float);
    PPL_GOTO(ppl_cuda_arena_get(d, bytes, &t->memory));
    PPL_GOTO(ppl_cuda_check("cudaMemcpyAsync",
                            cudaMemcpyAsync(t->memory, host->turn, bytes, cudaMemcpyHostToDevice, d->stream[0])));
    PPL_GOTO(ppl_cuda_check("cudaStreamSynchronize", cudaStreamSynchronize(d->stream[0])));
fail:
    ppl_rope_table_free(host);
    return st;
}

static ppl_status table_find(ppl_cuda_device *d, const ppl_kernel_spec *s, const void **out) {
    int64_t time = s->in[0].dim[1], size = s->attrs.i[0];
    ppl_cuda_table *t = d->tables;
    while (t && !(t->time == time && t->d == size && t->theta == s->attrs.f[0])) t = t->next;
    if (!t) {
        t = ppl_alloc(sizeof *t);
        if (!t) return PPL_ERR_MEMORY;
        *t = (ppl_cuda_table){.time = time, .d = size, .theta = s->attrs.f[0], .next = d->tables};
        d->tables = t;
        PPL_TRY(table_copy(d, t));
    }
    *out = t->memory;
    return PPL_OK;
}

void ppl_cuda_tables_free(ppl_cuda_device *d) {
    for (ppl_cuda_table *t = d->tables, *next; t; t = next) {
        next = t->next;
        ppl_cuda_arena_free(d, t->memory);
        ppl_free(t);
    }
    d->tables = NULL;
}

// ---- programs ----

static ppl_status step_prepare(ppl_cuda_device *d, ppl_cuda_step *s, ppl_kernel_needs *needs) {
    s->kernel = ppl_cuda_kernel_of(s->spec.op);
    if (!s->kernel) {
        return ppl_fail(PPL_ERR_DEVICE, "device cuda has no kernel for %s, want an operator it has",
                        ppl_op_name(s->spec.op));
    }
    PPL_TRY(dtypes_check(&s->spec));
    PPL_TRY(size_check(&s->spec));
    PPL_TRY(attention_check(&s->spec));
    if (s->spec.op == PPL_OP_ROPE) PPL_TRY(table_find(d, &s->spec, &s->table));
    if (s->kernel->prepare) return s->kernel->prepare(d, &s->spec, needs, &s->state);
    needs->scratch = s->kernel->scratch(&s->spec);
    return PPL_OK;
}

static ppl_status step_build(ppl_cuda_device *d, ppl_device_program *p, const ppl_device_node *node, size_t *scratch) {
    ppl_cuda_step *s = &p->steps[p->count];
    ppl_kernel_needs needs = {0};
    s->spec = node->spec;
    s->name = ppl_arena_text(&p->arena, node->name ? node->name : "?");
    if (!s->name) return PPL_ERR_MEMORY;
    s->label = ppl_cuda_label_get((ppl_device *)d, s->name);
    ppl_status st = step_prepare(d, s, &needs);
    if (st != PPL_OK) return ppl_prefix(st, "%s: ", s->name);
    p->count++; // from here on the program owns the state
    if (needs.scratch > *scratch) *scratch = needs.scratch;
    return PPL_OK;
}

ppl_status ppl_cuda_program_build(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                  int32_t count, ppl_program_needs *needs, ppl_device_program **out) {
    (void)stage, (void)phase;
    ppl_cuda_device *d = (ppl_cuda_device *)self;
    ppl_device_program *p = ppl_alloc(sizeof *p);
    if (!p) return PPL_ERR_MEMORY;
    p->next = d->programs;
    d->programs = p;
    ppl_status st = PPL_ERR_MEMORY;
    size_t scratch = 0;
    p->steps = ppl_arena_get(&p->arena, (size_t)count * sizeof *p->steps);
    if (!p->steps) goto fail;
    for (int32_t i = 0; i < count; i++) PPL_GOTO(step_build(d, p, &nodes[i], &scratch));
    *needs = (ppl_program_needs){.scratch = scratch};
    *out = p;
    return PPL_OK;
fail:
    ppl_cuda_program_free(self, p);
    return st;
}

void ppl_cuda_program_free(ppl_device *self, ppl_device_program *program) {
    ppl_cuda_device *d = (ppl_cuda_device *)self;
    if (!program) return;
    ppl_device_program **at = &d->programs;
    while (*at && *at != program) at = &(*at)->next;
    if (*at) *at = program->next;
    for (int32_t i = 0; i < program->count; i++)
        if (program->steps[i].kernel->free) program->steps[i].kernel->free(program->steps[i].state);
    ppl_arena_clear(&program->arena);
    ppl_free(program);
}

static ppl_status step_run(ppl_cuda_device *d, const ppl_cuda_step *s, const ppl_call *call, int32_t stream) {
    if (!s->kernel->launch) {
        ppl_cuda_run r = {.device = d, .spec = &s->spec, .state = s->state, .call = call, .stream = stream};
        return s->kernel->run(&r);
    }
    ppl_cuda_job job = {
        .spec = &s->spec, .call = call, .table = s->table, .fault = d->fault, .stream = d->stream[stream]};
    return ppl_cuda_check(ppl_op_name(s->spec.op), s->kernel->launch(&job));
}

ppl_status ppl_cuda_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run) {
    ppl_cuda_device *d = (ppl_cuda_device *)self;
    for (int32_t i = 0; i < program->count; i++) {
        ppl_call call = run->calls[i];
        call.scratch = run->scratch;
        call.env = run->env;
        ppl_cuda_label_begin(self, program->steps[i].label, -1, -1);
        ppl_status st = step_run(d, &program->steps[i], &call, run->stream);
        ppl_cuda_label_end(self, program->steps[i].label);
        if (st != PPL_OK) return ppl_prefix(st, "%s: ", program->steps[i].name);
    }
    return PPL_OK;
}
