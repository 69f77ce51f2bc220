// tensor.c - eager tensors: an operator applied at once, for the prompt, for data and for tests. Before it: a script.
// After it: a program of one node on the tensors' device (eager.c).
#include "device/eager.h"
#include "base/memory.h"
#include "ops/op.h"
#include "train/store.h"
#include <inttypes.h>

struct ppl_tensor {
    const ppl_device_ops *ops;
    ppl_eager *on;
    ppl_type type;
    void *data; // of the device
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
    ppl_status st = ppl_eager_open(ops, &t->on);
    if (st == PPL_OK) st = ppl_eager_get(t->on, ppl_type_bytes(&t->type), &t->data);
    if (st == PPL_OK) *out = t;
    else ppl_tensor_close(t);
    return st;
}

// ---- numbers between the host and a tensor ----

static bool is_host(const ppl_tensor *t) {
    return t->ops->flags & PPL_DEVICE_HOST;
}

// The tensor's bytes on the host: itself, or room for a copy that bytes_put takes over and gives back.
static ppl_status bytes_get(const ppl_tensor *t, void **out) {
    *out = is_host(t) ? t->data : ppl_alloc(ppl_type_bytes(&t->type));
    return *out ? PPL_OK : PPL_ERR_MEMORY;
}

static ppl_status bytes_put(ppl_tensor *t, void *bytes) {
    if (is_host(t)) return PPL_OK;
    ppl_status st = ppl_eager_write(t->on, t->data, bytes, ppl_type_bytes(&t->type));
    ppl_free(bytes);
    return st;
}

static ppl_status numbers_put(ppl_tensor *t, const void *data, int32_t host_dtype) {
    void *bytes;
    PPL_TRY(bytes_get(t, &bytes));
    ppl_convert(bytes, t->type.dtype, data, host_dtype, ppl_type_elements(&t->type));
    return bytes_put(t, bytes);
}

ppl_status ppl_tensor_open(const char *device, const ppl_type *type, const void *data, int32_t host_dtype,
                           ppl_tensor **out) {
    const ppl_device_ops *ops;
    PPL_TRY(ppl_device_find(device, &ops));
    if (!(ops->flags & PPL_DEVICE_COMPUTES))
        return ppl_fail(PPL_ERR_ARG, "tensor: device %s, want cpu, cuda or reference", ops->name);
    if (data) PPL_TRY(host_dtype_check("tensor", host_dtype));
    PPL_TRY(tensor_make(ops, type, out));
    ppl_status st = data ? numbers_put(*out, data, host_dtype) : PPL_OK;
    if (st != PPL_OK) ppl_tensor_close(*out);
    return st;
}

void ppl_tensor_close(ppl_tensor *t) {
    if (!t) return;
    if (t->data) ppl_eager_free(t->on, t->data);
    if (t->on) ppl_eager_close(t->on);
    ppl_free(t);
}

void ppl_tensor_type(const ppl_tensor *t, ppl_type *out) {
    *out = t->type;
}

ppl_status ppl_tensor_read(const ppl_tensor *t, void *data, int32_t host_dtype) {
    PPL_TRY(host_dtype_check("tensor", host_dtype));
    void *bytes;
    PPL_TRY(bytes_get(t, &bytes));
    ppl_status st = is_host(t) ? PPL_OK : ppl_eager_read(t->on, bytes, t->data, ppl_type_bytes(&t->type));
    if (st == PPL_OK) ppl_convert(data, host_dtype, bytes, t->type.dtype, ppl_type_elements(&t->type));
    if (!is_host(t)) ppl_free(bytes);
    return st;
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
    if (ppl_op_get(op)->flags & PPL_OP_ALIAS)
        PPL_GOTO(ppl_eager_copy(made[0]->on, made[0]->data, in[0]->data, ppl_type_bytes(&made[0]->type)));
    else PPL_GOTO(ppl_eager_run(in[0]->on, &node, &call, &env));
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
        void *bytes;
        PPL_TRY(bytes_get(t, &bytes));
        ppl_init_fill(bytes, t->type.dtype, n, spec, seed, name);
        return bytes_put(t, bytes);
    }
    float *master = ppl_alloc((size_t)n * sizeof *master); // a parameter's bf16 copy is rounded from its f32 master
    if (!master) return PPL_ERR_MEMORY;
    ppl_init_fill(master, PPL_F32, n, spec, seed, name);
    ppl_status st = numbers_put(t, master, PPL_F32);
    ppl_free(master);
    return st;
}
