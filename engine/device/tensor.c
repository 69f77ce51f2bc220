// tensor.c - eager tensors: an operator applied at once, for the prompt, for data and for tests. Before it: a script.
// After it: a program of one node on the tensors' device.
#include "device/device.h"
#include "base/memory.h"
#include "ops/op.h"
#include "train/store.h"
#include <inttypes.h>

struct ppl_tensor {
    const ppl_device_ops *ops;
    ppl_type type;
    void *data; // host memory
};

static ppl_status host_dtype_check(const char *where, int32_t dtype) {
    if (dtype == PPL_F32 || dtype == PPL_F64 || dtype == PPL_I32) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "%s: host_dtype is %d (%s), want f32, f64 or i32", where, dtype,
                    ppl_dtype_name(dtype));
}

static ppl_status type_check(const ppl_device_ops *ops, const ppl_type *type) {
    if (type->dtype < 0 || type->dtype >= PPL_DTYPES)
        return ppl_fail(PPL_ERR_ARG, "tensor: dtype is %d, want f32, bf16, f64 or i32", type->dtype);
    if (type->dtype == PPL_F64 && ops != &ppl_device_reference) {
        return ppl_fail(PPL_ERR_ARG, "tensor: f64 on device %s, want f32, bf16 or i32, or device reference", ops->name);
    }
    if (type->ndim < 0 || type->ndim > PPL_MAX_DIMS)
        return ppl_fail(PPL_ERR_SHAPE, "tensor: %d dims, want 0..%d", type->ndim, PPL_MAX_DIMS);
    int64_t room = INT64_MAX / 8; // bytes stay within a size_t
    for (int32_t i = 0; i < type->ndim; i++) {
        if (type->dim[i] < 1)
            return ppl_fail(PPL_ERR_SHAPE, "tensor: dim %d is %" PRId64 ", want 1 or more", i, type->dim[i]);
        room /= type->dim[i];
    }
    if (room < 1) return ppl_fail(PPL_ERR_MEMORY, "tensor: more elements than a machine can hold");
    return PPL_OK;
}

static ppl_status tensor_make(const ppl_device_ops *ops, const ppl_type *type, ppl_tensor **out) {
    PPL_TRY(type_check(ops, type));
    ppl_tensor *t = ppl_alloc(sizeof *t);
    if (!t) return PPL_ERR_MEMORY;
    t->ops = ops;
    t->type = ppl_type_make(type->dtype, type->ndim, type->dim);
    t->data = ppl_alloc(ppl_type_bytes(&t->type));
    if (!t->data) {
        ppl_free(t);
        return PPL_ERR_MEMORY;
    }
    *out = t;
    return PPL_OK;
}

ppl_status ppl_tensor_open(const char *device, const ppl_type *type, const void *data, int32_t host_dtype,
                           ppl_tensor **out) {
    const ppl_device_ops *ops;
    PPL_TRY(ppl_device_find(device, &ops));
    if (!(ops->flags & PPL_DEVICE_HOST) || !(ops->flags & PPL_DEVICE_COMPUTES))
        return ppl_fail(PPL_ERR_ARG, "tensor: device %s, want cpu or reference", ops->name);
    if (data) PPL_TRY(host_dtype_check("tensor", host_dtype));
    PPL_TRY(tensor_make(ops, type, out));
    ppl_tensor *t = *out;
    if (data) ppl_convert(t->data, t->type.dtype, data, host_dtype, ppl_type_elements(&t->type));
    return PPL_OK;
}

void ppl_tensor_close(ppl_tensor *t) {
    if (!t) return;
    ppl_free(t->data);
    ppl_free(t);
}

void ppl_tensor_type(const ppl_tensor *t, ppl_type *out) {
    *out = t->type;
}

ppl_status ppl_tensor_read(const ppl_tensor *t, void *data, int32_t host_dtype) {
    PPL_TRY(host_dtype_check("tensor", host_dtype));
    ppl_convert(data, host_dtype, t->data, t->type.dtype, ppl_type_elements(&t->type));
    return PPL_OK;
}

// The node as the device sees it: types by the operator's shape rule.
static ppl_status node_make(int32_t op, ppl_tensor *const *in, int32_t inputs, const ppl_attrs *attrs,
                            ppl_device_node *node) {
    if (op < 0 || op >= PPL_OPS) return ppl_fail(PPL_ERR_ARG, "tensor: operator %d, want 0..%d", op, PPL_OPS - 1);
    const ppl_op_def *def = ppl_op_get(op);
    if (inputs < def->min_inputs || inputs > def->max_inputs) {
        return ppl_fail(PPL_ERR_ARG, "%s: %d inputs, want %d..%d", def->name, inputs, def->min_inputs, def->max_inputs);
    }
    *node = (ppl_device_node){.name = "tensor", .node = -1, .param = -1};
    ppl_kernel_spec *spec = &node->spec;
    spec->op = op;
    spec->inputs = inputs;
    spec->param_input = -1;
    if (attrs) spec->attrs = *attrs;
    ppl_op_types types = {.inputs = inputs, .attrs = &spec->attrs, .acc_dtype = PPL_F32};
    for (int32_t i = 0; i < inputs; i++) {
        if (!in[i]) return ppl_fail(PPL_ERR_ARG, "%s: input %d is missing, want a tensor", def->name, i);
        if (in[i]->ops != in[0]->ops) {
            return ppl_fail(PPL_ERR_ARG, "%s: input %d is on device %s, want %s as input 0", def->name, i,
                            in[i]->ops->name, in[0]->ops->name);
        }
        spec->in[i] = in[i]->type;
        types.in[i] = &spec->in[i];
        if (in[i]->type.dtype == PPL_F64) types.acc_dtype = PPL_F64;
    }
    return def->infer(&types, spec->out, &spec->outputs);
}

// Runs one node as a program of its own.
static ppl_status node_run(const ppl_device_ops *ops, const ppl_device_node *node, const ppl_call *call,
                           const ppl_call_env *env) {
    ppl_device *device = NULL;
    ppl_device_program *program = NULL;
    void *scratch = NULL;
    ppl_program_needs needs;
    // One thread: a team spins at every operator's barriers, which costs far more than it gives at this size.
    ppl_device_options options = {.threads = 1, .fail_task = -1, .stall_task = -1};
    ppl_status st;
    PPL_GOTO(ops->open(&options, &device));
    PPL_GOTO(ops->program_build(device, 0, PPL_PHASE_F, node, 1, &needs, &program));
    PPL_GOTO(ops->memory_get(device, needs.scratch, &scratch));
    ppl_program_run run = {.kind = PPL_PHASE_F, .calls = call, .scratch = scratch, .env = env};
    PPL_GOTO(ops->program_run(device, program, &run));
    st = ops->synchronize(device);
fail:
    if (scratch) ops->memory_free(device, scratch);
    if (program) ops->program_free(device, program);
    if (device) ops->close(device);
    return st;
}

ppl_status ppl_tensor_apply(int32_t op, ppl_tensor *const *in, int32_t inputs, const ppl_attrs *attrs, int32_t training,
                            ppl_tensor **out) {
    ppl_device_node node;
    ppl_tensor *made[PPL_MAX_OUTPUTS] = {NULL};
    ppl_call call = {0};
    ppl_call_env env = {.training = training};
    PPL_TRY(node_make(op, in, inputs, attrs, &node));
    const ppl_device_ops *ops = in[0]->ops;
    ppl_status st;
    for (int32_t i = 0; i < inputs; i++) call.in[i] = in[i]->data;
    for (int32_t i = 0; i < node.spec.outputs; i++) {
        PPL_GOTO(tensor_make(ops, &node.spec.out[i], &made[i]));
        call.out[i] = made[i]->data;
    }
    if (ppl_op_get(op)->flags & PPL_OP_ALIAS) memcpy(made[0]->data, in[0]->data, ppl_type_bytes(&made[0]->type));
    else PPL_GOTO(node_run(ops, &node, &call, &env));
    for (int32_t i = 0; i < node.spec.outputs; i++) out[i] = made[i];
    return PPL_OK;
fail:
    for (int32_t i = 0; i < PPL_MAX_OUTPUTS; i++) ppl_tensor_close(made[i]);
    return st;
}

ppl_status ppl_tensor_fill(ppl_tensor *t, const ppl_param_spec *spec, uint64_t seed, const char *name) {
    if (spec->init < PPL_INIT_ZEROS || spec->init > PPL_INIT_UNIFORM) {
        return ppl_fail(PPL_ERR_ARG, "tensor: init is %d, want %d (zeros), %d (ones), %d (normal) or %d (uniform)",
                        spec->init, PPL_INIT_ZEROS, PPL_INIT_ONES, PPL_INIT_NORMAL, PPL_INIT_UNIFORM);
    }
    int64_t n = ppl_type_elements(&t->type);
    if (t->type.dtype != PPL_BF16) {
        ppl_init_fill(t->data, t->type.dtype, n, spec, seed, name);
        return PPL_OK;
    }
    float *master = ppl_alloc((size_t)n * sizeof *master); // a parameter's bf16 copy is rounded from its f32 master
    if (!master) return PPL_ERR_MEMORY;
    ppl_init_fill(master, PPL_F32, n, spec, seed, name);
    ppl_convert(t->data, PPL_BF16, master, PPL_F32, n);
    ppl_free(master);
    return PPL_OK;
}
