// attention.h - what attention.c and attention_grad.c share: where heads lie, copies of a head that vectors can work on,
// and the small product that all their time goes into. After it: vec.h.
//
// Every element of a product is one chain of fused multiply-adds in the order of k, whatever the tile's size: the bits
// are the same on every instruction set and for any number of threads.
#ifndef PPL_DEVICE_CPU_ATTENTION_H
#define PPL_DEVICE_CPU_ATTENTION_H
#include "device/cpu/plain.h"
#include <math.h>

enum {
#ifdef __AVX512F__
    ATTENTION_TILE = 12, // rows of a small product: as many sums as the registers hold beside its operands
#else
    ATTENTION_TILE = 6,
#endif
    ATTENTION_BLOCK = 48 // queries, and keys, of a block: a multiple of both tiles and of 16
};

typedef struct attention_shape {
    int64_t batch, time, heads, kv_heads, d;
    int64_t time_up, d_up; // rounded up to whole blocks, and to whole vectors
    bool causal;
    float scale;
    int32_t dtype;
    // Head h at time t of sample b begins at number (b T + t) row + first + h D of its input; q's first is 0, and v's
    // rows are as long as k's.
    int64_t q_row, k_row, k_first, v_first;
    int32_t k, v; // inputs (and outputs) counted from q's
} attention_shape;

// first: the input that is qkv or q.
static inline attention_shape attention_shape_of(const ppl_kernel_spec *spec, int32_t first) {
    const ppl_type *q = &spec->in[first];
    bool packed = spec->inputs == first + 1;
    attention_shape s = {.batch = q->dim[0],
                         .time = q->dim[1],
                         .heads = spec->attrs.i[0],
                         .kv_heads = spec->attrs.i[1],
                         .causal = spec->attrs.i[2] != 0,
                         .dtype = q->dtype};
    s.d = q->dim[2] / (s.heads + (packed ? 2 * s.kv_heads : 0));
    s.scale = (float)(spec->attrs.f[0] != 0 ? spec->attrs.f[0] : 1 / sqrt((double)s.d));
    s.time_up = (s.time + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK * ATTENTION_BLOCK;
    s.d_up = (s.d + 15) / 16 * 16;
    int64_t q_row = s.heads * s.d, kv_row = s.kv_heads * s.d;
    s.q_row = packed ? q_row + 2 * kv_row : q_row;
    s.k_row = packed ? s.q_row : kv_row;
    s.k_first = packed ? q_row : 0;
    s.v_first = packed ? q_row + kv_row : 0;
    s.k = packed ? 0 : 1;
    s.v = packed ? 0 : 2;
    return s;
}

// Refuses what no attention can be: f64, or heads that do not divide a row.
static inline ppl_status attention_check(const char *name, const ppl_kernel_spec *spec, int32_t first) {
    const ppl_type *q = &spec->in[first];
    int64_t heads = spec->attrs.i[0], kv_heads = spec->attrs.i[1], parts = heads;
    if (q->dtype != PPL_F32 && q->dtype != PPL_BF16) {
        return ppl_fail(PPL_ERR_DEVICE, "%s on the cpu: q is %s, want f32 or bf16", name, ppl_dtype_name(q->dtype));
    }
    if (spec->inputs == first + 1) parts += 2 * kv_heads;
    if (heads < 1 || kv_heads < 1 || heads % kv_heads || q->ndim != 3 || q->dim[2] < 1 || q->dim[2] % parts) {
        return ppl_fail(PPL_ERR_SHAPE, "%s: %lld heads and %lld key heads in rows of %lld, want rows of whole heads",
                        name, (long long)heads, (long long)kv_heads, (long long)q->dim[2]);
    }
    return PPL_OK;
}

static inline int64_t attention_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- copies of a head's rows

// Rows of one head: from: row 0; from_row: numbers from one row to the next. A row lies in another page than the one
// before it, which the CPU does not foresee: the rows ahead are asked for.
typedef struct attention_rows {
    const void *from;
    int64_t from_row, rows, d;
    int32_t dtype;
} attention_rows;

enum { ATTENTION_AHEAD = 8 }; // rows

// number: where row 0 begins in data.
static inline attention_rows attention_rows_of(const attention_shape *s, const void *data, int64_t number, int64_t row,
                                               int64_t rows) {
    const char *from = (const char *)data + (size_t)number * ppl_dtype_size(s->dtype);
    return (attention_rows){from, row, rows, s->d, s->dtype};
}

PPL_VEC void attention_ask(const attention_rows *a, int64_t r, int64_t i, int32_t dtype) {
    int64_t at = attention_least(r + ATTENTION_AHEAD, a->rows - 1) * a->from_row + i;
    __builtin_prefetch(dtype == PPL_BF16 ? (const void *)((const ppl_bf16 *)a->from + at)
                                         : (const float *)a->from + at);
}

PPL_VEC void attention_copy_as(const attention_rows *a, float scale, float *to, int64_t to_row, int32_t dtype) {
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->d; i += 16) {
            attention_ask(a, r, i, dtype);
            v16 x = v16_get(a->from, dtype, r * a->from_row + i, lanes_left(i, a->d));
            v16_store(to + r * to_row + i, v16_mul(x, v16_set(scale)));
        }
    }
}

// f32 (rows, d), scaled, rows to_row numbers apart; 0 behind d up to a whole vector, and in rows up to `all`.
static inline void attention_copy(const attention_rows *a, float scale, float *to, int64_t to_row, int64_t all) {
    if (a->dtype == PPL_BF16) attention_copy_as(a, scale, to, to_row, PPL_BF16);
    else attention_copy_as(a, scale, to, to_row, PPL_F32);
    for (int64_t r = a->rows; r < all; r++) memset(to + r * to_row, 0, (size_t)((a->d + 15) / 16 * 16) * sizeof(float));
}

// 8 rows of 8 numbers, transposed: to rows 16 numbers apart.
PPL_VEC void attention_transpose8(const float *from, int64_t from_row, float *to) {
    __m256 x[8], y[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) x[i] = _mm256_loadu_ps(from + i * from_row);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { // pairs of rows: numbers 0, 1 and 4, 5 in the first, 2, 3 and 6, 7 in the second
        y[i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        y[i + 4] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) { // four rows, i = 0 the upper: x[4 i + n] has numbers n and n + 4
        x[4 * i] = _mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0x44);
        x[4 * i + 1] = _mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0xee);
        x[4 * i + 2] = _mm256_shuffle_ps(y[2 * i + 4], y[2 * i + 5], 0x44);
        x[4 * i + 3] = _mm256_shuffle_ps(y[2 * i + 4], y[2 * i + 5], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + 16 * i, _mm256_permute2f128_ps(x[i], x[i + 4], 0x20));
        _mm256_storeu_ps(to + 16 * (i + 4), _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
    }
}

// Panels of 16 rows, transposed: (rows / 16, d, 16) from f32 (rows, d); whole panels.
static inline void attention_transpose(const float *from, int64_t from_row, int64_t rows, int64_t d, float *to) {
    for (int64_t r = 0; r < rows; r += 16) {
        const float *panel = from + r * from_row;
        int64_t i = 0;
        for (; i + 8 <= d; i += 8) {
            attention_transpose8(panel + i, from_row, to + r * d + 16 * i);
            attention_transpose8(panel + 8 * from_row + i, from_row, to + r * d + 16 * i + 8);
        }
        for (; i < d; i++)
            for (int64_t k = 0; k < 16; k++) to[r * d + 16 * i + k] = panel[k * from_row + i];
    }
}

// ---- the small product

// C (ATTENTION_TILE, 16) = A (ATTENTION_TILE, depth) B (depth, 16) [+ C, + keep[r] C's row r].
// A's element (r, k) is a[r * a_row + k * a_k]; rows of B and C lie b_row and c_row numbers apart.
typedef struct attention_product {
    const float *a, *b;
    int64_t a_row, a_k, b_row, c_row, depth;
} attention_product;

PPL_VEC void attention_sums(const attention_product *p, v16 *sum) {
    const float *a = p->a, *b = p->b;
    for (int64_t k = 0; k < p->depth; k++) {
        v16 x = v16_load(b);
#pragma GCC unroll 12
        for (int r = 0; r < ATTENTION_TILE; r++) sum[r] = v16_fma(v16_set(a[r * p->a_row]), x, sum[r]);
        a += p->a_k;
        b += p->b_row;
    }
}

static __attribute__((noinline)) void attention_set(const attention_product *p, float *c) {
    v16 sum[ATTENTION_TILE];
#pragma GCC unroll 12
    for (int r = 0; r < ATTENTION_TILE; r++) sum[r] = v16_set(0.0f);
    attention_sums(p, sum);
#pragma GCC unroll 12
    for (int r = 0; r < ATTENTION_TILE; r++) v16_store(c + r * p->c_row, sum[r]);
}

static __attribute__((noinline)) void attention_add(const attention_product *p, const float *keep, float *c) {
    v16 sum[ATTENTION_TILE];
#pragma GCC unroll 12
    for (int r = 0; r < ATTENTION_TILE; r++) sum[r] = v16_mul(v16_set(keep[r]), v16_load(c + r * p->c_row));
    attention_sums(p, sum);
#pragma GCC unroll 12
    for (int r = 0; r < ATTENTION_TILE; r++) v16_store(c + r * p->c_row, sum[r]);
}

#endif
