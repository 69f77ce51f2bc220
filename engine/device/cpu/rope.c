// rope.c - rotary position embedding (Su et al., "RoFormer", 2021): in each rotated head of x (B, T, H D) the pair
// (j, j + D/2) turns by the angle t theta^(-2j/D). Cosines and sines are tabled once, when the kernel is prepared.
#include "base/memory.h"
#include "device/cpu/plain.h"
#include <math.h>

typedef struct table {
    int64_t half; // D/2
    float *turn;  // (T, 2, D/2): cosines, then sines (of the opposite angle for the inverse)
} table;

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    PPL_TRY(plain_prepare(spec, needs, state));
    int64_t time = spec->in[0].dim[1], d = spec->attrs.i[0], half = d / 2;
    table *t = ppl_alloc(sizeof *t + 64 + (size_t)(time * d) * sizeof(float));
    if (!t) return PPL_ERR_MEMORY;
    t->half = half;
    t->turn = (float *)((char *)t + 64);
    for (int64_t j = 0; j < half; j++) {
        double step = pow(spec->attrs.f[0], -2 * (double)j / (double)d) * (spec->attrs.i[2] ? -1 : 1);
        for (int64_t k = 0; k < time; k++) {
            t->turn[k * d + j] = (float)cos((double)k * step);
            t->turn[k * d + half + j] = (float)sin((double)k * step);
        }
    }
    *state = t;
    return PPL_OK;
}

PPL_VEC void turn(const ppl_call *call, const float *cosines, int64_t half, int64_t at, int64_t j, int n,
                  int32_t dtype) {
    v16 a = v16_get(call->in[0], dtype, at + j, n), b = v16_get(call->in[0], dtype, at + half + j, n);
    v16 c = v16_get(cosines, PPL_F32, j, n), s = v16_get(cosines + half, PPL_F32, j, n);
    v16_put(call->out[0], dtype, at + j, v16_fnma(b, s, v16_mul(a, c)), n);
    v16_put(call->out[0], dtype, at + half + j, v16_fma(a, s, v16_mul(b, c)), n);
}

PPL_VEC void rows(const ppl_kernel_spec *spec, const ppl_call *call, const table *t, int64_t first, int64_t last,
                  int32_t dtype) {
    int64_t time = spec->in[0].dim[1], width = spec->in[0].dim[2], d = 2 * t->half, rotated = spec->attrs.i[1];
    size_t size = ppl_dtype_size(dtype);
    for (int64_t r = first; r < last; r++) {
        const float *cosines = t->turn + r % time * d;
        for (int64_t h = 0; h < rotated; h++) {
            int64_t j = 0, at = r * width + h * d;
            for (; j + 16 <= t->half; j += 16) turn(call, cosines, t->half, at, j, 16, dtype);
            if (j < t->half) turn(call, cosines, t->half, at, j, (int)(t->half - j), dtype);
        }
        size_t at = (size_t)(r * width + rotated * d) * size;
        memcpy((char *)call->out[0] + at, (const char *)call->in[0] + at, (size_t)(width - rotated * d) * size);
    }
}

typedef struct rope_job {
    const ppl_kernel_spec *spec;
    const ppl_call *call;
    const table *table;
} rope_job;

static void share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const rope_job *j = context;
    if (j->spec->in[0].dtype == PPL_BF16) rows(j->spec, j->call, j->table, first, last, PPL_BF16);
    else rows(j->spec, j->call, j->table, first, last, PPL_F32);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    rope_job job = {spec, call, state};
    int64_t n = ppl_rows(&spec->in[0]);
    ppl_parallel(n, plain_threads(spec, ppl_type_elements(&spec->in[0])), share, &job);
    return PPL_OK;
}

const ppl_kernel PPL_ISA_NAME(ppl_cpu_rope) = {
    .name = "rope", .prepare = prepare, .pack = ppl_kernel_pack_none, .run = run, .free = ppl_free};
