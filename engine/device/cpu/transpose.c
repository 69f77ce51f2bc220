// transpose.c - dims i0 and i1 exchanged. A value is seen as (outer, A, middle, B, inner) with A and B the two dims.
// After it: copy.h. Where inner is more than one element whole runs of it are copied; else tiles are turned, so that
// both sides use each cache line they touch.
#include "device/cpu/copy.h"

typedef struct turn {
    int64_t outer, a, middle, b, inner; // elements
} turn;

static turn turn_of(const ppl_kernel_spec *spec) {
    const ppl_type *x = &spec->in[0];
    int64_t i = spec->attrs.i[0], j = spec->attrs.i[1], k = 0;
    if (i > j) k = i, i = j, j = k;
    turn t = {1, x->dim[i], 1, x->dim[j], 1};
    for (k = 0; k < i; k++) t.outer *= x->dim[k];
    for (k = i + 1; k < j; k++) t.middle *= x->dim[k];
    for (k = j + 1; k < x->ndim; k++) t.inner *= x->dim[k];
    return t;
}

// Rows b of (outer, B, middle, A, inner), runs of `inner`.
static void runs(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    turn t = turn_of(spec);
    size_t bytes = (size_t)t.inner * ppl_dtype_size(spec->in[0].dtype);
    char *out = (char *)call->out[0] + (size_t)(first * t.middle * t.a) * bytes;
    for (int64_t k = first; k < last; k++) {
        int64_t outer = k / t.b, b = k % t.b;
        for (int64_t m = 0; m < t.middle; m++) {
            for (int64_t a = 0; a < t.a; a++, out += bytes) {
                int64_t from = ((outer * t.a + a) * t.middle + m) * t.b + b;
                memcpy(out, (const char *)call->in[0] + (size_t)from * bytes, bytes);
            }
        }
    }
}

enum { TILE = 32 };

// 8 by 8 numbers turned in registers. x, y: bytes from one row to the next.
PPL_VEC void turn_32(const char *x, size_t x_row, char *y, size_t y_row) {
    __m256 r[8], q[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps((const float *)(x + (size_t)i * x_row));
    for (int i = 0; i < 8; i += 2) { // pairs of rows, then of pairs, then the halves
        q[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        q[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(q[i], q[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(q[i], q[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(q[i + 1], q[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(q[i + 1], q[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps((float *)(y + (size_t)i * y_row), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps((float *)(y + (size_t)(i + 4) * y_row), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
PPL_VEC void turn_16(const char *x, size_t x_row, char *y, size_t y_row) {
    __m128i r[8], q[8];
    for (int i = 0; i < 8; i++) r[i] = _mm_loadu_si128((const __m128i *)(x + (size_t)i * x_row));
    for (int i = 0; i < 4; i++) { // three times: row i with row i + 4, number by number
        q[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
        q[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        r[2 * i] = _mm_unpacklo_epi16(q[i], q[i + 4]);
        r[2 * i + 1] = _mm_unpackhi_epi16(q[i], q[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(y + (size_t)(2 * i) * y_row), _mm_unpacklo_epi16(r[i], r[i + 4]));
        _mm_storeu_si128((__m128i *)(y + (size_t)(2 * i + 1) * y_row), _mm_unpackhi_epi16(r[i], r[i + 4]));
    }
}

// as (a) by bs (b) numbers at x and y; sides that are no multiples of 8 are finished one by one.
PPL_VEC void tile(const char *x, size_t x_row, char *y, size_t y_row, int as, int bs, size_t size) {
    for (int b = 0; b < bs; b += 8) {
        for (int a = 0; a < as; a += 8) {
            const char *from = x + (size_t)a * x_row + (size_t)b * size;
            char *to = y + (size_t)b * y_row + (size_t)a * size;
            if (as - a < 8 || bs - b < 8) {
                for (int i = 0; i < 8 && a + i < as; i++)
                    for (int j = 0; j < 8 && b + j < bs; j++)
                        memcpy(to + (size_t)j * y_row + (size_t)i * size, from + (size_t)i * x_row + (size_t)j * size,
                               size);
            } else if (size == 2) {
                turn_16(from, x_row, to, y_row);
            } else {
                turn_32(from, x_row, to, y_row);
            }
        }
    }
}

static int tile_left(int64_t i, int64_t end) {
    return end - i < TILE ? (int)(end - i) : TILE;
}

// Bands of TILE a, along which x is read as it lies: item k is band k % count of outer k / count.
PPL_VEC void bands(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, size_t size) {
    turn t = turn_of(spec);
    int64_t count = (t.a + TILE - 1) / TILE;
    size_t x_row = (size_t)(t.middle * t.b) * size, y_row = (size_t)(t.middle * t.a) * size;
    for (int64_t k = first; k < last; k++) {
        int64_t outer = k / count * t.a * t.middle * t.b, a = k % count * TILE;
        for (int64_t m = 0; m < t.middle; m++) {
            for (int64_t b = 0; b < t.b; b += TILE) {
                size_t from = (size_t)(outer + (a * t.middle + m) * t.b + b) * size;
                size_t to = (size_t)(outer + (b * t.middle + m) * t.a + a) * size;
                tile((const char *)call->in[0] + from, x_row, (char *)call->out[0] + to, y_row, tile_left(a, t.a),
                     tile_left(b, t.b), size);
            }
        }
    }
}
static void bands_16(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    bands(spec, call, first, last, 2);
}
static void bands_32(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    bands(spec, call, first, last, 4);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    turn t = turn_of(spec);
    int64_t n = ppl_type_elements(&spec->in[0]);
    if (t.inner > 1) plain_run(spec, call, t.outer * t.b, 1, n, runs);
    else
        plain_run(spec, call, t.outer * ((t.a + TILE - 1) / TILE), 1, n,
                  ppl_dtype_size(spec->in[0].dtype) == 2 ? bands_16 : bands_32);
    return PPL_OK;
}

PLAIN_KERNEL(transpose, plain_prepare, run);
