// numbers.c - sizes, names and element access by dtype.
#include "base/numbers.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [PPL_F32] = {"f32", 4},
    [PPL_BF16] = {"bf16", 2},
    [PPL_F64] = {"f64", 8},
    [PPL_I32] = {"i32", 4},
};
_Static_assert(sizeof dtypes / sizeof *dtypes == PPL_DTYPES, "an entry for each dtype");

size_t ppl_dtype_size(int32_t dtype) {
    assert(dtype >= 0 && dtype < PPL_DTYPES);
    return dtypes[dtype].bytes;
}

const char *ppl_dtype_name(int32_t dtype) {
    return dtype >= 0 && dtype < PPL_DTYPES ? dtypes[dtype].name : "?";
}

int64_t ppl_type_elements(const ppl_type *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->ndim; i++) n *= t->dim[i];
    return n;
}

size_t ppl_type_bytes(const ppl_type *t) {
    return (size_t)ppl_type_elements(t) * ppl_dtype_size(t->dtype);
}

bool ppl_type_equal(const ppl_type *a, const ppl_type *b) {
    if (a->dtype != b->dtype || a->ndim != b->ndim) return false;
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

char *ppl_type_print(const ppl_type *t, char text[128]) {
    int n = snprintf(text, 128, "%s (", ppl_dtype_name(t->dtype));
    for (int32_t i = 0; i < t->ndim && n < 100; i++)
        n += snprintf(text + n, 128 - (size_t)n, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    snprintf(text + n, 128 - (size_t)n, ")");
    return text;
}

ppl_type ppl_type_make(int32_t dtype, int32_t ndim, const int64_t *dim) {
    ppl_type t = {.dtype = dtype, .ndim = ndim};
    for (int32_t i = 0; i < PPL_MAX_DIMS; i++) t.dim[i] = i < ndim ? dim[i] : 1;
    return t;
}

// A double rounded to bf16 at once: through f32 by round-to-odd, so that nothing is rounded twice.
static ppl_bf16 bf16_from_f64(double x) {
    float f = (float)x;
    if (isfinite(f) && (double)f != x) {
        uint32_t u;
        memcpy(&u, &f, 4);
        bool away = fabs((double)f) > fabs(x); // rounded away from zero: step back, then make the last bit odd
        if (away) u--;
        u |= 1;
        memcpy(&f, &u, 4);
    }
    return ppl_bf16_from_f32(f);
}

double ppl_number_get(const void *data, int32_t dtype, int64_t index) {
    switch ((ppl_dtype)dtype) {
    case PPL_F32: return (double)((const float *)data)[index];
    case PPL_BF16: return (double)ppl_bf16_to_f32(((const ppl_bf16 *)data)[index]);
    case PPL_F64: return ((const double *)data)[index];
    case PPL_I32: return (double)((const int32_t *)data)[index];
    case PPL_DTYPES: break;
    }
    assert(!"dtype");
    return NAN;
}

void ppl_number_set(void *data, int32_t dtype, int64_t index, double x) {
    switch ((ppl_dtype)dtype) {
    case PPL_F32: ((float *)data)[index] = (float)x; return;
    case PPL_BF16: ((ppl_bf16 *)data)[index] = bf16_from_f64(x); return;
    case PPL_F64: ((double *)data)[index] = x; return;
    case PPL_I32: // saturates: a conversion outside the range would be undefined
        ((int32_t *)data)[index] = x >= 2147483647.0 ? INT32_MAX : x > -2147483648.0 ? (int32_t)x : INT32_MIN;
        return;
    case PPL_DTYPES: break;
    }
    assert(!"dtype");
}

void ppl_convert(void *dst, int32_t dst_dtype, const void *src, int32_t src_dtype, int64_t n) {
    if (dst_dtype == src_dtype) {
        memcpy(dst, src, (size_t)n * ppl_dtype_size(dst_dtype));
    } else if (dst_dtype == PPL_BF16 && src_dtype == PPL_F32) {
        for (int64_t i = 0; i < n; i++) ((ppl_bf16 *)dst)[i] = ppl_bf16_from_f32(((const float *)src)[i]);
    } else if (dst_dtype == PPL_F32 && src_dtype == PPL_BF16) {
        for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = ppl_bf16_to_f32(((const ppl_bf16 *)src)[i]);
    } else {
        for (int64_t i = 0; i < n; i++) ppl_number_set(dst, dst_dtype, i, ppl_number_get(src, src_dtype, i));
    }
}
