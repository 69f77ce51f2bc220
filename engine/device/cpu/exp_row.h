// exp_row.h - the two first passes of a softmax over a row: its maximum, and the sum of e^(x - max). Before it:
// softmax.c, cross_entropy.c; after it: vec_math.h. A row that fits the cache is read from memory once.
#ifndef PPL_DEVICE_CPU_EXP_ROW_H
#define PPL_DEVICE_CPU_EXP_ROW_H
#include "device/cpu/plain.h"

enum {
    EXP_BLOCK = 1024
}; // numbers summed before their 16 sums join the row's: rounding errors stay small in long rows

PPL_VEC float exp_row_max(const void *x, int64_t at, int64_t c, int32_t dtype) {
    v16 lowest = v16_set(-__builtin_inff()), max = lowest;
    int64_t i = 0;
    for (; i + 16 <= c; i += 16) max = v16_max(v16_get(x, dtype, at + i, 16), max);
    if (i < c) {
        int n = (int)(c - i);
        max = v16_max(v16_select(m16_first(n), v16_get(x, dtype, at + i, n), lowest), max);
    }
    return v16_largest(max);
}

// e^(x - max) of n numbers, the other lanes 0; kept in e where that is not NULL.
PPL_VEC v16 exp_row_lanes(const void *x, int64_t at, v16 max, float *e, int n, int32_t dtype) {
    v16 v = v16_exp(v16_sub(v16_get(x, dtype, at, n), max));
    if (e) v16_put(e, PPL_F32, 0, v, n);
    return v16_first(v, n);
}

// e: NULL, or c numbers.
PPL_VEC float exp_row_sum(const void *x, int64_t at, int64_t c, float max, float *e, int32_t dtype) {
    v16 m = v16_set(max), sum = v16_set(0.0f);
    for (int64_t from = 0; from < c; from += EXP_BLOCK) {
        int64_t i = from, end = from + EXP_BLOCK < c ? from + EXP_BLOCK : c;
        v16 block = v16_set(0.0f);
        for (; i + 16 <= end; i += 16) block = v16_add(block, exp_row_lanes(x, at + i, m, e ? e + i : NULL, 16, dtype));
        if (i < end) block = v16_add(block, exp_row_lanes(x, at + i, m, e ? e + i : NULL, (int)(end - i), dtype));
        sum = v16_add(sum, block);
    }
    return v16_sum(sum);
}

#endif
