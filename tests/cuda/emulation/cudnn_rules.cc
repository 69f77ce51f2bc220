// cudnn_rules.cc - which attributes a descriptor of cuDNN's backend has, of which type and how many, and what must fit before
// it is finalized: the tables of the library's documentation, for those descriptors that attention needs. Before it: cudnn.cc.
#include "emulation/cudnn.hh"
#include <algorithm>

namespace emu {
namespace {

struct Rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t least, most;
    bool required;
    int links; // the type of descriptor that it holds; -1: an operation
};

constexpr cudnnBackendAttributeType_t LINK = CUDNN_TYPE_BACKEND_DESCRIPTOR, I64 = CUDNN_TYPE_INT64;
constexpr int TENSOR = CUDNN_BACKEND_TENSOR_DESCRIPTOR, MANY = 64;

const Rule rules[] = {
#define OF CUDNN_BACKEND_TENSOR_DESCRIPTOR
    {OF, CUDNN_ATTR_TENSOR_UNIQUE_ID, I64, 1, 1, true, 0},
    {OF, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true, 0},
    {OF, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, I64, 1, 1, true, 0},
    {OF, CUDNN_ATTR_TENSOR_DIMENSIONS, I64, 4, 4, true, 0},
    {OF, CUDNN_ATTR_TENSOR_STRIDES, I64, 4, 4, true, 0},
    {OF, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false, 0},
    {OF, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1, false, 0},
#undef OF
#define OF CUDNN_BACKEND_MATMUL_DESCRIPTOR
    {OF, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true, 0},
#undef OF
#define OF CUDNN_BACKEND_POINTWISE_DESCRIPTOR
    {OF, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1, true, 0},
    {OF, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1, true, 0},
    {OF, CUDNN_ATTR_POINTWISE_AXIS, I64, 1, 1, false, 0},
#undef OF
#define OF CUDNN_BACKEND_REDUCTION_DESCRIPTOR
    {OF, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1, true, 0},
    {OF, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true, 0},
#undef OF
#define OF CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
    {OF, CUDNN_ATTR_OPERATION_MATMUL_ADESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_MATMUL_BDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_MATMUL_CDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_MATMUL_DESC, LINK, 1, 1, true, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
#undef OF
#define OF CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
    {OF, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, LINK, 1, 1, true, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {OF, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, LINK, 1, 1, false, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, LINK, 1, 1, false, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, LINK, 1, 1, true, TENSOR},
#undef OF
#define OF CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
    {OF, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_REDUCTION_DESC, LINK, 1, 1, true, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
#undef OF
#define OF CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
    {OF, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, LINK, 1, 1, true, TENSOR},
    {OF, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, LINK, 1, 1, true, TENSOR},
#undef OF
#define OF CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
    {OF, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, false, 0},
    {OF, CUDNN_ATTR_OPERATIONGRAPH_OPS, LINK, 1, MANY, true, -1},
#undef OF
#define OF CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
    {OF, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 2, 65536, true, 0},
#undef OF
#define OF CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
    {OF, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, LINK, 1, 1, true, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {OF, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, true, 0},
    {OF, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, LINK, 1, 1, false, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
#undef OF
#define OF CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
    {OF, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, false, 0},
    {OF, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, LINK, 1, 1, false, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {OF, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, LINK, 1, 1, true, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
#undef OF
#define OF CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
    {OF, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, I64, 1, MANY, true, 0},
    {OF, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, MANY, true, 0},
    {OF, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, false, 0},
#undef OF
};

bool is_operation(cudnnBackendDescriptorType_t t) {
    return t == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR || t == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           t == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || t == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

cudnnStatus_t bad(std::string &why, const std::string &text) {
    why = text;
    return CUDNN_STATUS_BAD_PARAM;
}

// ---- what fits together

cudnnStatus_t tensor_fits(const Tensor &t, std::string &why) {
    for (int i = 0; i < 4; i++)
        if (t.dim[i] < 1 || t.stride[i] < 1) return bad(why, "a tensor's dimensions and strides are positive");
    if (t.between && t.by_value) return bad(why, "a tensor is virtual or a value, not both");
    if (t.by_value && t.count() != 1) return bad(why, "a value is one number");
    if (t.alignment < 1 || (t.alignment & (t.alignment - 1))) return bad(why, "an alignment is a power of 2");
    return CUDNN_STATUS_SUCCESS;
}

// (B, H, M, K) (B, H', K, N) -> (B, H, M, N), where H' divides H: its heads are repeated.
cudnnStatus_t matmul_fits(const Tensor &a, const Tensor &b, const Tensor &c, std::string &why) {
    if (a.dim[0] != c.dim[0] || b.dim[0] != c.dim[0]) return bad(why, "a product's batches differ");
    if (a.dim[1] != c.dim[1] || c.dim[1] % b.dim[1]) return bad(why, "a product's heads differ");
    if (a.dim[2] != c.dim[2] || b.dim[3] != c.dim[3] || a.dim[3] != b.dim[2])
        return bad(why, "a product's rows and columns do not fit");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t pointwise_fits(const Operation &o, std::string &why) {
    size_t inputs;
    cudnnDataType_t gives = CUDNN_DATA_FLOAT;
    switch (o.mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV: inputs = 2; break;
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY: inputs = 1; break;
    case CUDNN_POINTWISE_GEN_INDEX: inputs = 1, gives = CUDNN_DATA_INT32; break;
    case CUDNN_POINTWISE_CMP_GE: inputs = 2, gives = CUDNN_DATA_BOOLEAN; break;
    case CUDNN_POINTWISE_BINARY_SELECT: inputs = 3; break;
    default: return bad(why, "a pointwise mode that the emulation does not have");
    }
    if (o.in.size() != inputs) return bad(why, "a pointwise operation has other inputs than its mode");
    if ((o.mode == CUDNN_POINTWISE_GEN_INDEX) != (o.axis >= 0 && o.axis < 4))
        return bad(why, "an axis is for GEN_INDEX");
    if (gives != CUDNN_DATA_FLOAT && o.out.type != gives) return bad(why, "indices are INT32, comparisons BOOLEAN");
    if (inputs == 3 && o.in[2].type != CUDNN_DATA_BOOLEAN) return bad(why, "BINARY_SELECT selects by BOOLEAN");
    for (const Tensor &t : o.in)
        for (int i = 0; i < 4; i++)
            if (t.dim[i] != o.out.dim[i] && t.dim[i] != 1) return bad(why, "a pointwise input is as its output or 1");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t reduction_fits(const Tensor &x, const Tensor &y, std::string &why) {
    for (int i = 0; i < 4; i++)
        if (x.dim[i] % y.dim[i]) return bad(why, "a reduction's output divides its input");
    return CUDNN_STATUS_SUCCESS;
}

// The same memory with its axes in another order.
cudnnStatus_t reshape_fits(const Tensor &x, const Tensor &y, std::string &why) {
    std::multiset<std::pair<int64_t, int64_t>> of_x, of_y;
    for (int i = 0; i < 4; i++) {
        if (x.dim[i] > 1) of_x.insert({x.dim[i], x.stride[i]});
        if (y.dim[i] > 1) of_y.insert({y.dim[i], y.stride[i]});
    }
    return of_x == of_y ? CUDNN_STATUS_SUCCESS : bad(why, "a reshape's tensors do not share their memory");
}

cudnnStatus_t operation_fits(const Descriptor &d, std::string &why) {
    Operation o = operation_of(d);
    switch (static_cast<int>(d.type)) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return matmul_fits(o.in[0], o.in[1], o.out, why);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise_fits(o, why);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduction_fits(o.in[0], o.out, why);
    default: return reshape_fits(o.in[0], o.out, why);
    }
}

} // namespace

size_t size_of(cudnnBackendAttributeType_t type) {
    switch (static_cast<int>(type)) {
    case CUDNN_TYPE_INT64: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE: return sizeof(int);
    default: return 0;
    }
}

cudnnStatus_t may_set(const Descriptor &d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const std::vector<Shared> &values, std::string &why) {
    const Rule *rule = std::find_if(std::begin(rules), std::end(rules),
                                    [&](const Rule &r) { return r.of == d.type && r.name == name; });
    std::string what = "attribute " + std::to_string(name) + " of descriptor " + std::to_string(d.type);
    if (rule == std::end(rules)) return bad(why, what + " does not exist");
    if (rule->type != type) return bad(why, what + " has another type");
    if (count < rule->least || count > rule->most) return bad(why, what + " has another number of elements");
    for (const Shared &v : values) {
        if (!v->finalized) return bad(why, what + " holds a descriptor that is not finalized");
        if (rule->links < 0 ? !is_operation(v->type) : v->type != rule->links)
            return bad(why, what + " holds a descriptor of another type");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t may_finalize(const Descriptor &d, std::string &why) {
    for (const Rule &r : rules)
        if (r.of == d.type && r.required && !d.has(r.name))
            return bad(why, "attribute " + std::to_string(r.name) + " of descriptor " + std::to_string(d.type) +
                                " is not set");
    if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) return tensor_fits(tensor_of(d), why);
    if (is_operation(d.type)) return operation_fits(d, why);
    if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        d.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) == d.has(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP))
        return bad(why, "a plan is for a handle or for a described device");
    if (d.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
        d.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count !=
            d.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count)
        return bad(why, "a variant pack has as many ids as pointers");
    return CUDNN_STATUS_SUCCESS;
}

} // namespace emu
