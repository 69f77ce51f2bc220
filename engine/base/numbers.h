// numbers.h - bf16 and element access by dtype.
#ifndef PPL_BASE_NUMBERS_H
#define PPL_BASE_NUMBERS_H
#include "types.h"
#include <string.h>

typedef uint16_t ppl_bf16;

static inline float ppl_bf16_to_f32(ppl_bf16 h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
// Round to nearest even; NaN stays NaN.
static inline ppl_bf16 ppl_bf16_from_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (ppl_bf16)((u >> 16) | 0x40);
    return (ppl_bf16)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

// A number for people: printed, a NaN has no sign.
static inline double ppl_number_plain(double x) {
    return x != x ? __builtin_nan("") : x;
}

size_t ppl_dtype_size(int32_t dtype);      // bytes
const char *ppl_dtype_name(int32_t dtype); // "f32"
int64_t ppl_type_elements(const ppl_type *t);
size_t ppl_type_bytes(const ppl_type *t);
bool ppl_type_equal(const ppl_type *a, const ppl_type *b);
char *ppl_type_print(const ppl_type *t, char text[128]); // "f32 (4, 16, 64)"; returns text
ppl_type ppl_type_make(int32_t dtype, int32_t ndim, const int64_t *dim);

static inline int64_t ppl_last_dim(const ppl_type *t) {
    return t->ndim ? t->dim[t->ndim - 1] : 1;
}
static inline int64_t ppl_rows(const ppl_type *t) { // all leading dims together
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < t->ndim; i++) rows *= t->dim[i];
    return rows;
}

// One element as f64, whatever the dtype. For the reference device, files and tests: slow.
double ppl_number_get(const void *data, int32_t dtype, int64_t index);
void ppl_number_set(void *data, int32_t dtype, int64_t index, double x); // rounds as the dtype does
// n elements from one dtype to another; the same as get and set in a loop, with fast paths.
void ppl_convert(void *dst, int32_t dst_dtype, const void *src, int32_t src_dtype, int64_t n);

// The dtype of accumulators, statistics and losses beside values of `dtype`: F64 for F64, else F32.
static inline int32_t ppl_dtype_acc(int32_t dtype) {
    return dtype == PPL_F64 ? PPL_F64 : PPL_F32;
}

#endif
