// operations.cc - reads a graph of cuDNN's operations from its descriptors, and computes it operation by operation in plain
// loops, in f32, each result rounded to its tensor's type. Before it: cudnn.cc.
#include "emulation/cudnn.hh"
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace emu {
namespace {

using Index = int64_t[4];
using Values = std::vector<float>; // in order of (batch, head, row, column), whatever the strides

float rounded(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) bits = 0x7fff0000u;
    else bits += 0x7fffu + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float stored(const Tensor &t, float f) {
    return t.type == CUDNN_DATA_BFLOAT16 ? rounded(f) : f;
}

void each(const int64_t *dim, const std::function<void(const Index &, int64_t)> &body) {
    Index i;
    int64_t at = 0;
    for (i[0] = 0; i[0] < dim[0]; i[0]++)
        for (i[1] = 0; i[1] < dim[1]; i[1]++)
            for (i[2] = 0; i[2] < dim[2]; i[2]++)
                for (i[3] = 0; i[3] < dim[3]; i[3]++) body(i, at++);
}

int64_t offset(const Tensor &t, const Index &i) {
    return i[0] * t.stride[0] + i[1] * t.stride[1] + i[2] * t.stride[2] + i[3] * t.stride[3];
}

// Where (b, h, r, c) stands among a tensor's values; what it has one of is repeated.
int64_t place(const Tensor &t, int64_t b, int64_t h, int64_t r, int64_t c) {
    if (t.dim[0] == 1) b = 0;
    if (t.dim[1] == 1) h = 0;
    if (t.dim[2] == 1) r = 0;
    if (t.dim[3] == 1) c = 0;
    return ((b * t.dim[1] + h) * t.dim[2] + r) * t.dim[3] + c;
}

Values load(const Tensor &t, const void *from) {
    Values v(static_cast<size_t>(t.count()));
    each(t.dim, [&](const Index &i, int64_t at) {
        int64_t o = offset(t, i);
        if (t.type == CUDNN_DATA_FLOAT) {
            memcpy(&v[static_cast<size_t>(at)], static_cast<const char *>(from) + o * 4, 4);
            return;
        }
        uint16_t half;
        memcpy(&half, static_cast<const char *>(from) + o * 2, 2);
        uint32_t bits = static_cast<uint32_t>(half) << 16;
        memcpy(&v[static_cast<size_t>(at)], &bits, 4);
    });
    return v;
}

void store(const Tensor &t, const Values &v, void *to) {
    each(t.dim, [&](const Index &i, int64_t at) {
        int64_t o = offset(t, i);
        uint32_t bits;
        memcpy(&bits, &v[static_cast<size_t>(at)], 4);
        uint16_t half = static_cast<uint16_t>(bits >> 16);
        if (t.type == CUDNN_DATA_FLOAT) memcpy(static_cast<char *>(to) + o * 4, &bits, 4);
        else memcpy(static_cast<char *>(to) + o * 2, &half, 2);
    });
}

// ---- operations: values of the inputs to values of the output

Values matmul(const Operation &o, const std::vector<const Values *> &in, uint64_t seed) {
    const Tensor &a = o.in[0], &b = o.in[1], &y = o.out;
    int64_t group = y.dim[1] / b.dim[1], k = a.dim[3], first = static_cast<int64_t>(seed % static_cast<uint64_t>(k));
    Values v(static_cast<size_t>(y.count()));
    each(y.dim, [&](const Index &i, int64_t at) {
        float sum = 0;
        for (int64_t n = 0; n < k; n++) {
            int64_t q = (n + first) % k;
            sum += (*in[0])[static_cast<size_t>(place(a, i[0], i[1], i[2], q))] *
                   (*in[1])[static_cast<size_t>(place(b, i[0], i[1] / group, q, i[3]))];
        }
        v[static_cast<size_t>(at)] = sum;
    });
    return v;
}

float pointwise(int mode, float x, float b, float t) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return expf(x);
    case CUDNN_POINTWISE_LOG: return logf(x);
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: return x;
    }
}

Values pointwise(const Operation &o, const std::vector<const Values *> &in) {
    Values v(static_cast<size_t>(o.out.count()));
    each(o.out.dim, [&](const Index &i, int64_t at) {
        float x[3] = {};
        for (size_t k = 0; k < in.size(); k++)
            x[k] = (*in[k])[static_cast<size_t>(place(o.in[k], i[0], i[1], i[2], i[3]))];
        v[static_cast<size_t>(at)] =
            o.mode == CUDNN_POINTWISE_GEN_INDEX ? static_cast<float>(i[o.axis]) : pointwise(o.mode, x[0], x[1], x[2]);
    });
    return v;
}

Values reduce(const Operation &o, const Values &in) {
    const Tensor &x = o.in[0];
    bool max = o.mode == CUDNN_REDUCE_TENSOR_MAX;
    Values v(static_cast<size_t>(o.out.count()), max ? -std::numeric_limits<float>::infinity() : 0.0f);
    int64_t many[4];
    for (int i = 0; i < 4; i++) many[i] = x.dim[i] / o.out.dim[i];
    each(x.dim, [&](const Index &i, int64_t at) {
        float f = in[static_cast<size_t>(at)];
        float &to =
            v[static_cast<size_t>(place(o.out, i[0] / many[0], i[1] / many[1], i[2] / many[2], i[3] / many[3]))];
        to = max ? std::fmax(to, f) : to + f;
    });
    return v;
}

Values reshape(const Operation &o, const Values &in) {
    const Tensor &x = o.in[0], &y = o.out;
    int axis[4]; // of y, for each of x
    bool taken[4] = {};
    for (int i = 0; i < 4; i++) {
        axis[i] = -1;
        for (int k = 0; k < 4 && axis[i] < 0 && x.dim[i] > 1; k++)
            if (!taken[k] && y.dim[k] == x.dim[i] && y.stride[k] == x.stride[i]) axis[i] = k, taken[k] = true;
    }
    Values v(static_cast<size_t>(y.count()));
    each(y.dim, [&](const Index &i, int64_t at) {
        int64_t from[4];
        for (int k = 0; k < 4; k++) from[k] = axis[k] < 0 ? 0 : i[axis[k]];
        v[static_cast<size_t>(at)] = in[static_cast<size_t>(place(x, from[0], from[1], from[2], from[3]))];
    });
    return v;
}

// ---- reading

bool same(const Tensor &a, const Tensor &b) {
    return a.type == b.type && a.between == b.between && a.by_value == b.by_value &&
           memcmp(a.dim, b.dim, sizeof a.dim) == 0 && memcmp(a.stride, b.stride, sizeof a.stride) == 0;
}

// Each id is one tensor; what is between operations is made once, before it is used, and used.
bool wired(const Graph &g, std::string &why) {
    std::map<int64_t, Tensor> known;
    std::map<int64_t, int> made, used;
    auto meet = [&](const Tensor &t) { return same(known.emplace(t.number, t).first->second, t); };
    for (const Operation &o : g.operations) {
        for (const Tensor &t : o.in) {
            if (!meet(t)) return why = "two tensors have the same id", false;
            if (t.between && !made[t.number]) return why = "a virtual tensor is used before it is made", false;
            used[t.number]++;
        }
        if (!meet(o.out) || o.out.by_value || made[o.out.number]++) return why = "a tensor is made twice", false;
    }
    for (const auto &t : known)
        if (t.second.between && !used[t.first]) return why = "a virtual tensor is not used", false;
    return true;
}

} // namespace

size_t Tensor::bytes() const {
    int64_t last = 1;
    for (int i = 0; i < 4; i++) last += (dim[i] - 1) * stride[i];
    return static_cast<size_t>(last) * (type == CUDNN_DATA_BFLOAT16 ? 2 : 4);
}

Tensor tensor_of(const Descriptor &d) {
    Tensor t = {};
    t.number = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t.type = d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    t.between = d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.by_value = d.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) && d.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    for (int i = 0; i < 4; i++) {
        t.dim[i] = d.get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.stride[i] = d.get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return t;
}

Operation operation_of(const Descriptor &d) {
    Operation o;
    o.type = d.type;
    auto add = [&](cudnnBackendAttributeName_t name) {
        if (d.has(name)) o.in.push_back(tensor_of(*d.link(name)));
    };
    switch (static_cast<int>(d.type)) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        add(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        add(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        o.out = tensor_of(*d.link(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
        const Descriptor &how = *d.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        o.mode = how.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
        if (how.has(CUDNN_ATTR_POINTWISE_AXIS)) o.axis = how.get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
        add(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
        add(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        add(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        o.out = tensor_of(*d.link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
        break;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        o.mode = d.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
        add(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        o.out = tensor_of(*d.link(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
        break;
    default: add(CUDNN_ATTR_OPERATION_RESHAPE_XDESC); o.out = tensor_of(*d.link(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    }
    return o;
}

// Engines have attention in bf16, two products forward and five backward, for heads of multiples of 8 up to 256.
bool graph_of(const Descriptor &d, Graph &g, std::string &why) {
    g = Graph();
    std::vector<Operation> products;
    for (const Shared &o : d.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
        g.operations.push_back(operation_of(*o));
        if (o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) products.push_back(g.operations.back());
    }
    if (!wired(g, why)) return false;
    for (const Operation &o : g.operations) {
        for (const Tensor &t : o.in)
            if (!t.between) g.bound[t.number] = t;
        if (!o.out.between) g.bound[o.out.number] = o.out;
    }
    if (products.size() != 2 && products.size() != 5) return why = "a graph that is no attention", false;
    const Tensor &q = products[0].in[0], &scores = products[0].out;
    g.backward = products.size() == 5;
    g.batch = scores.dim[0], g.heads = scores.dim[1], g.time = scores.dim[2], g.size = q.dim[3];
    for (const Operation &o : products) {
        for (const Tensor &t : o.in)
            if (!t.between && t.type != CUDNN_DATA_BFLOAT16) return why = "products are of bf16", false;
        g.any_order |= !o.out.between && o.out.type == CUDNN_DATA_FLOAT;
    }
    if (g.size % 8 || g.size > 256) return why = "heads have a multiple of 8 numbers, 256 at most", false;
    return true;
}

void compute(const Graph &g, const std::map<int64_t, void *> &address, const std::map<int64_t, float> &value,
             uint64_t seed) {
    std::map<int64_t, Values> known;
    for (const auto &v : value) known[v.first] = {v.second};
    for (const Operation &o : g.operations) {
        std::vector<const Values *> in;
        for (const Tensor &t : o.in) {
            if (!known.count(t.number)) known[t.number] = load(t, address.at(t.number));
            in.push_back(&known[t.number]);
        }
        Values v;
        switch (static_cast<int>(o.type)) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: v = matmul(o, in, seed); break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: v = pointwise(o, in); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: v = reduce(o, *in[0]); break;
        default: v = reshape(o, *in[0]);
        }
        for (float &f : v) f = stored(o.out, f);
        if (!o.out.between) store(o.out, v, address.at(o.out.number));
        known[o.out.number] = std::move(v);
    }
}

} // namespace emu
