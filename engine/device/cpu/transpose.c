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

enum { TILE = 16 };

// 16 or fewer a by 16 or fewer b. x, y: at the tile; numbers from one a to the next in x, one b to the next in y.
#define TURN_TILE(type)                                                                                                \
    PPL_VEC void tile_##type(const type *x, type *y, int as, int bs, int64_t x_row, int64_t y_row) {                   \
        for (int b = 0; b < bs; b++)                                                                                   \
            for (int a = 0; a < as; a++) y[b * y_row + a] = x[a * x_row + b];                                          \
    }
TURN_TILE(uint16_t)
TURN_TILE(uint32_t)

PPL_VEC void tile(const turn *t, const void *x, void *y, int64_t from, int64_t to, int as, int bs, bool half) {
    int64_t x_row = t->middle * t->b, y_row = t->middle * t->a;
    if (half) tile_uint16_t((const uint16_t *)x + from, (uint16_t *)y + to, as, bs, x_row, y_row);
    else tile_uint32_t((const uint32_t *)x + from, (uint32_t *)y + to, as, bs, x_row, y_row);
}

// Bands of 16 b: item k is band k % bands of outer k / bands.
PPL_VEC void bands(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, bool half) {
    turn t = turn_of(spec);
    int64_t count = (t.b + TILE - 1) / TILE;
    for (int64_t k = first; k < last; k++) {
        int64_t outer = k / count * t.a * t.middle * t.b, b = k % count * TILE;
        int bs = lanes_left(b, t.b);
        for (int64_t m = 0; m < t.middle; m++) {
            for (int64_t a = 0; a < t.a; a += TILE) {
                int64_t from = outer + (a * t.middle + m) * t.b + b, to = outer + (b * t.middle + m) * t.a + a;
                int as = lanes_left(a, t.a);
                if (as == TILE && bs == TILE) tile(&t, call->in[0], call->out[0], from, to, TILE, TILE, half);
                else tile(&t, call->in[0], call->out[0], from, to, as, bs, half);
            }
        }
    }
}
static void bands_16(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    bands(spec, call, first, last, true);
}
static void bands_32(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    bands(spec, call, first, last, false);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    turn t = turn_of(spec);
    int64_t n = ppl_type_elements(&spec->in[0]);
    if (t.inner > 1) plain_run(spec, call, t.outer * t.b, 1, n, runs);
    else
        plain_run(spec, call, t.outer * ((t.b + TILE - 1) / TILE), 1, n,
                  ppl_dtype_size(spec->in[0].dtype) == 2 ? bands_16 : bands_32);
    return PPL_OK;
}

PLAIN_KERNEL(transpose, plain_prepare, run);
