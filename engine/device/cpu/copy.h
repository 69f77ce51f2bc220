// copy.h - moving elements without looking at them: what slice.c, pad.c, concat.c and transpose.c share.
#ifndef PPL_DEVICE_CPU_COPY_H
#define PPL_DEVICE_CPU_COPY_H
#include "device/cpu/plain.h"

// A value seen from dimension `dim`: outer blocks of `size` indexes, an index being `inner` bytes.
typedef struct copy_span {
    int64_t outer, size;
    size_t inner;
} copy_span;

static inline copy_span copy_span_of(const ppl_type *t, int64_t dim) {
    copy_span s = {1, t->dim[dim], ppl_dtype_size(t->dtype)};
    for (int64_t i = 0; i < dim; i++) s.outer *= t->dim[i];
    for (int64_t i = dim + 1; i < t->ndim; i++) s.inner *= (size_t)t->dim[i];
    return s;
}

#endif
