// cudnn.hh - what the emulated cuDNN's calls and its arithmetic share: descriptors with their attributes, and a graph of
// operations as it is run. Before it: the cudnn* calls; cudnn_rules.cc says what a descriptor may hold, cudnn.cc what calls do
// with it; after it: operations.cc, which computes.
#ifndef EMULATION_CUDNN_HH
#define EMULATION_CUDNN_HH
#include <cudnn.h>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace emu {

struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;

struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
    std::vector<Shared> descriptors; // of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

struct Descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized = false;
    std::map<cudnnBackendAttributeName_t, Attribute> attributes;

    bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) != 0; }
    template <class T> T get(cudnnBackendAttributeName_t name, int64_t at = 0) const {
        return reinterpret_cast<const T *>(attributes.at(name).bytes.data())[at];
    }
    const Shared &link(cudnnBackendAttributeName_t name, size_t at = 0) const {
        return attributes.at(name).descriptors[at];
    }
};

// ---- cudnn_rules.cc: SUCCESS, or a status with words in `why`

// Whether this attribute may be set to `count` values of a type.
cudnnStatus_t may_set(const Descriptor &d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const std::vector<Shared> &values, std::string &why);
// Whether a descriptor has all it needs and fits together.
cudnnStatus_t may_finalize(const Descriptor &d, std::string &why);
size_t size_of(cudnnBackendAttributeType_t type); // 0: unknown here

// ---- operations.cc

struct Tensor {
    int64_t number; // the unique id
    cudnnDataType_t type;
    int64_t dim[4], stride[4];
    bool between, by_value; // virtual; a number of the host
    int64_t alignment;

    int64_t count() const { return dim[0] * dim[1] * dim[2] * dim[3]; }
    size_t bytes() const; // from its address to its end
};

struct Operation {
    cudnnBackendDescriptorType_t type;
    int mode = 0; // of pointwise and reduce
    int64_t axis = -1;
    std::vector<Tensor> in;
    Tensor out;
};

struct Graph {
    std::vector<Operation> operations;
    std::map<int64_t, Tensor> bound; // what has an address
    bool backward = false, any_order = false;
    int64_t batch = 0, heads = 0, time = 0, size = 0;
};

Tensor tensor_of(const Descriptor &d);
Operation operation_of(const Descriptor &d);
// Reads a graph's descriptors: false, with words, where it is no attention that engines have.
bool graph_of(const Descriptor &d, Graph &out, std::string &why);
// Computes with addresses and numbers by id. With a seed, sums of products begin somewhere else each time.
void compute(const Graph &g, const std::map<int64_t, void *> &address, const std::map<int64_t, float> &value,
             uint64_t seed);

} // namespace emu
#endif
