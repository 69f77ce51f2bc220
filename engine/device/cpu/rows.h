// rows.h - matrices of bf16 brought to f32 and back, row by row: what the kernels that multiply need where the CPU
// multiplies f32 only. Before it: linear.c, linear_dw.c, matmul.c; after it: vec.h.
#ifndef PPL_DEVICE_CPU_ROWS_H
#define PPL_DEVICE_CPU_ROWS_H
#include "device/cpu/parallel.h"
#include "device/cpu/vec.h"

typedef struct rows_copy {
    void *to;
    const void *from;
    int64_t columns, to_row, from_row; // columns copied; numbers from one row to the next
} rows_copy;

static inline void rows_widen_share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const rows_copy *c = context;
    for (int64_t r = first; r < last; r++) {
        float *to = (float *)c->to + r * c->to_row;
        const ppl_bf16 *from = (const ppl_bf16 *)c->from + r * c->from_row;
        int64_t i = 0;
        for (; i + 16 <= c->columns; i += 16) v16_store(to + i, v16_load_bf16(from + i));
        for (; i < c->columns; i++) to[i] = ppl_bf16_to_f32(from[i]);
    }
}

static inline void rows_round_share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const rows_copy *c = context;
    for (int64_t r = first; r < last; r++) {
        ppl_bf16 *to = (ppl_bf16 *)c->to + r * c->to_row;
        const float *from = (const float *)c->from + r * c->from_row;
        int64_t i = 0;
        for (; i + 16 <= c->columns; i += 16) v16_store_bf16(to + i, v16_load(from + i));
        for (; i < c->columns; i++) to[i] = ppl_bf16_from_f32(from[i]);
    }
}

// f32 (rows, columns) from bf16; rows to_row and from_row numbers apart.
static inline void rows_widen(float *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                              int64_t columns, int32_t threads) {
    rows_copy c = {to, from, columns, to_row, from_row};
    ppl_parallel(rows, threads, rows_widen_share, &c);
}

// bf16 (rows, columns) from f32, both dense; to nearest even.
static inline void rows_round(ppl_bf16 *to, const float *from, int64_t rows, int64_t columns, int32_t threads) {
    rows_copy c = {to, from, columns, columns, columns};
    ppl_parallel(rows, threads, rows_round_share, &c);
}

// Places one buffer behind another in a kernel's scratch memory: returns where it starts and moves *end.
static inline size_t scratch_place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += (bytes + 63) / 64 * 64;
    return at;
}

#endif
