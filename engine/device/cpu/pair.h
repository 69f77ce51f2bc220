// pair.h - x and y, which has x's shape or a suffix of it, joined number by number: the loops of add.c and mul.c.
#ifndef PPL_DEVICE_CPU_PAIR_H
#define PPL_DEVICE_CPU_PAIR_H
#include "device/cpu/plain.h"

PPL_VEC v16 pair_join(int32_t op, v16 x, v16 y) {
    return op == PPL_OP_ADD ? v16_add(x, y) : v16_mul(x, y);
}

// n numbers of x and z from `at` on with n numbers of y from `from` on.
PPL_VEC void pair_span(const ppl_call *call, int64_t at, int64_t from, int64_t n, int32_t op, int32_t dtype) {
    const void *x = call->in[0], *y = call->in[1];
    void *z = call->out[0];
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 r = pair_join(op, v16_get(x, dtype, at + i, 16), v16_get(y, dtype, from + i, 16));
        v16_put(z, dtype, at + i, r, 16);
    }
    int rest = (int)(n - i);
    if (rest) {
        v16 r = pair_join(op, v16_get(x, dtype, at + i, rest), v16_get(y, dtype, from + i, rest));
        v16_put(z, dtype, at + i, r, rest);
    }
}

// Numbers first .. last - 1, where y repeats after each `period`; one number alone is spread over the lanes.
PPL_VEC void pair_part(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t op,
                       int32_t dtype) {
    int64_t period = ppl_type_elements(&spec->in[1]);
    if (period == 1) {
        float one = dtype == PPL_BF16 ? ppl_bf16_to_f32(*(const ppl_bf16 *)call->in[1]) : *(const float *)call->in[1];
        for (int64_t i = first; i < last; i += 16) {
            int n = lanes_left(i, last);
            v16_put(call->out[0], dtype, i, pair_join(op, v16_get(call->in[0], dtype, i, n), v16_set(one)), n);
        }
        return;
    }
    for (int64_t i = first; i < last;) {
        int64_t from = i % period, n = period - from < last - i ? period - from : last - i;
        pair_span(call, i, from, n, op, dtype);
        i += n;
    }
}

#endif
