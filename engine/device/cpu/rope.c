// rope.c - rotary position embedding (Su et al., "RoFormer", 2021): in each rotated head of x (B, T, H D) the pair
// (j, j + D/2) turns by the angle t theta^(-2j/D), back where it is the inverse. After it: rope_table.h.
#include "device/cpu/plain.h"
#include "device/cpu/rope_table.h"

static ppl_status prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    PPL_TRY(plain_prepare(spec, needs, state));
    const ppl_rope_table *t;
    PPL_TRY(ppl_rope_table_get(spec->in[0].dim[1], spec->attrs.i[0], spec->attrs.f[0], &t));
    *state = (void *)t;
    return PPL_OK;
}

static void free_table(void *state) {
    ppl_rope_table_free(state);
}

// Pairs j .. j + n - 1 of the head that begins at `at`; turn: the row of the table for its position.
PPL_VEC void lanes(const ppl_call *call, const float *turn, int64_t half, int64_t at, int64_t j, int n, bool inverse,
                   int32_t dtype) {
    v16 a = v16_get(call->in[0], dtype, at + j, n), b = v16_get(call->in[0], dtype, at + half + j, n);
    v16 c = v16_get(turn, PPL_F32, j, n), s = v16_get(turn + half, PPL_F32, j, n);
    v16 ac = v16_mul(a, c), bc = v16_mul(b, c);
    v16_put(call->out[0], dtype, at + j, inverse ? v16_fma(b, s, ac) : v16_fnma(b, s, ac), n);
    v16_put(call->out[0], dtype, at + half + j, inverse ? v16_fnma(a, s, bc) : v16_fma(a, s, bc), n);
}

PPL_VEC void rows(const ppl_kernel_spec *spec, const ppl_call *call, const ppl_rope_table *t, int64_t first,
                  int64_t last, bool inverse, int32_t dtype) {
    int64_t width = spec->in[0].dim[2], d = t->d, half = d / 2, rotated = spec->attrs.i[1];
    size_t size = ppl_dtype_size(dtype);
    for (int64_t r = first; r < last; r++) {
        const float *turn = t->turn + r % t->time * d;
        for (int64_t h = 0; h < rotated; h++) {
            int64_t j = 0, at = r * width + h * d;
            for (; j + 16 <= half; j += 16) lanes(call, turn, half, at, j, 16, inverse, dtype);
            if (j < half) lanes(call, turn, half, at, j, (int)(half - j), inverse, dtype);
        }
        size_t at = (size_t)(r * width + rotated * d) * size;
        memcpy((char *)call->out[0] + at, (const char *)call->in[0] + at, (size_t)(width - rotated * d) * size);
    }
}

typedef struct job {
    const ppl_kernel_spec *spec;
    const ppl_call *call;
    const ppl_rope_table *table;
} job;

static void share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const job *j = context;
    bool half = j->spec->in[0].dtype == PPL_BF16, inverse = j->spec->attrs.i[2] != 0;
    if (half && inverse) rows(j->spec, j->call, j->table, first, last, true, PPL_BF16);
    else if (half) rows(j->spec, j->call, j->table, first, last, false, PPL_BF16);
    else if (inverse) rows(j->spec, j->call, j->table, first, last, true, PPL_F32);
    else rows(j->spec, j->call, j->table, first, last, false, PPL_F32);
}

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    job j = {spec, call, state};
    int64_t n = ppl_rows(&spec->in[0]);
    ppl_parallel(n, plain_threads(spec, ppl_type_elements(&spec->in[0])), share, &j);
    return PPL_OK;
}

const ppl_kernel PPL_ISA_NAME(ppl_cpu_rope) = {
    .name = "rope", .prepare = prepare, .pack = ppl_kernel_pack_none, .run = run, .free = free_table};
