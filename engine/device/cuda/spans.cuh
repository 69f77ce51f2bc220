// spans.cuh - runs of elements moved, not looked at: slice.cu, pad.cu, concat.cu. After it: common.cuh.
#ifndef PPL_DEVICE_CUDA_SPANS_CUH
#define PPL_DEVICE_CUDA_SPANS_CUH
#include "device/cuda/common.cuh"

// `count` spans of `length` units: span k from from + k * from_step to to + k * to_step, all in units.
template <class U> struct span_part {
    const U *from;
    U *to;
    int64_t length, from_step, to_step;
    __device__ void operator()(int64_t i) const {
        int64_t k = quotient_of(i, length), at = i - k * length;
        to[k * to_step + at] = from[k * from_step + at];
    }
};

struct span_copy { // in elements of `size` bytes
    const char *from;
    char *to;
    int64_t count, length, from_first, from_step, to_first, to_step;
    size_t size;
};

template <class U> cudaError_t span_copy_units(const span_copy &s, cudaStream_t stream) {
    int64_t per = (int64_t)(sizeof(U) / s.size); // elements of a unit
    span_part<U> part = {(const U *)(s.from + (size_t)s.from_first * s.size), (U *)(s.to + (size_t)s.to_first * s.size),
                         s.length / per, s.from_step / per, s.to_step / per};
    return each_run<1>(s.count * part.length, part, stream);
}

// In units of 16 bytes where all begin and end on one, else element by element.
static inline cudaError_t span_copy_run(const span_copy &s, cudaStream_t stream) {
    int64_t all = s.length | s.from_first | s.from_step | s.to_first | s.to_step;
    if (all * (int64_t)s.size % 16 == 0) return span_copy_units<bundle<float, 4>>(s, stream);
    return s.size == 2 ? span_copy_units<uint16_t>(s, stream) : span_copy_units<uint32_t>(s, stream);
}

// Elements before, at and behind dimension `dim`.
struct span_dims {
    int64_t outer, size, inner;
};
static inline span_dims span_dims_of(const ppl_type *t, int64_t dim) {
    span_dims d = {1, t->dim[dim], 1};
    for (int64_t i = 0; i < dim; i++) d.outer *= t->dim[i];
    for (int64_t i = dim + 1; i < t->ndim; i++) d.inner *= t->dim[i];
    return d;
}

#endif
