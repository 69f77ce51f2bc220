// plain.h - what kernels that only run have in common: how their rows or numbers are dealt out to threads, one loop for
// each dtype, and their table. Before it: act.c, layernorm.c and the like; after it: parallel.h, vec.h.
#ifndef PPL_DEVICE_CPU_PLAIN_H
#define PPL_DEVICE_CPU_PLAIN_H
#include "device/cpu/cpu.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vec_math.h"

enum { PLAIN_GROUP = 1024, PLAIN_SHARE = 16384 }; // numbers dealt out at once; numbers that are worth a thread

// Works on rows (or numbers) first .. last - 1. What it computes for one of them depends on no other share.
typedef void plain_part(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker);

typedef struct plain_job {
    const ppl_kernel_spec *spec;
    const ppl_call *call;
    plain_part *part;
    int64_t items, group; // a share begins at a multiple of group
} plain_job;

static inline void plain_share(void *context, int64_t first, int64_t last, int32_t worker) {
    const plain_job *j = context;
    first *= j->group, last *= j->group;
    if (last > j->items) last = j->items;
    if (first < last) j->part(j->spec, j->call, first, last, worker);
}

// Threads that this much work is worth, of those that the kernel may use.
static inline int32_t plain_threads(const ppl_kernel_spec *spec, int64_t numbers) {
    return numbers / PLAIN_SHARE < spec->threads ? (int32_t)(numbers / PLAIN_SHARE) : spec->threads;
}

static inline void plain_run(const ppl_kernel_spec *spec, const ppl_call *call, int64_t items, int64_t group,
                             int64_t numbers, plain_part *part) {
    plain_job job = {spec, call, part, items, group};
    ppl_parallel((items + group - 1) / group, plain_threads(spec, numbers), plain_share, &job);
}

// body(spec, call, first, last, worker, dtype), inlined once for F32 and once for BF16.
#define PLAIN_DTYPES(body)                                                                                             \
    static void body##_f32(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last,             \
                           int32_t worker) {                                                                           \
        body(spec, call, first, last, worker, PPL_F32);                                                                \
    }                                                                                                                  \
    static void body##_bf16(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last,            \
                            int32_t worker) {                                                                          \
        body(spec, call, first, last, worker, PPL_BF16);                                                               \
    }
// Runs a body on numbers 0 .. n - 1, or on rows of so many numbers.
#define PLAIN_NUMBERS(spec, call, n, dtype, body)                                                                      \
    plain_run(spec, call, n, PLAIN_GROUP, n, (dtype) == PPL_BF16 ? body##_bf16 : body##_f32)
#define PLAIN_ROWS(spec, call, rows, columns, dtype, body)                                                             \
    plain_run(spec, call, rows, 1, (rows) * (columns), (dtype) == PPL_BF16 ? body##_bf16 : body##_f32)

// A kernel that only runs, for the instruction set being compiled.
#define PLAIN_KERNEL(op, prepare_function, run_function)                                                               \
    const ppl_kernel PPL_ISA_NAME(ppl_cpu_##op) = {.name = #op,                                                        \
                                                   .prepare = (prepare_function),                                      \
                                                   .pack = ppl_kernel_pack_none,                                       \
                                                   .run = (run_function),                                              \
                                                   .free = ppl_kernel_free_none}

// Refuses F64, which this device does not have.
static inline ppl_status plain_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)needs, (void)state;
    for (int32_t k = 0; k < spec->inputs; k++) {
        if (spec->in[k].dtype == PPL_F64) {
            return ppl_fail(PPL_ERR_DEVICE, "%s: input %d is f64, want f32 or bf16 on the cpu device",
                            ppl_op_name(spec->op), k);
        }
    }
    return PPL_OK;
}

// Lanes of a row's next vector.
PPL_VEC int lanes_left(int64_t i, int64_t end) {
    return end - i < 16 ? (int)(end - i) : 16;
}
// x with lanes n .. 15 set to 0.
PPL_VEC v16 v16_first(v16 x, int n) {
    return n == 16 ? x : v16_select(m16_first(n), x, v16_set(0.0f));
}

// Stores 16 sums into an accumulator or, where the output is none, as its value.
PPL_VEC void plain_put_sum(const ppl_kernel_spec *spec, const ppl_call *call, int32_t output, int64_t i, v16 x, int n) {
    void *out = call->out[output];
    int32_t dtype = spec->out[output].dtype;
    if (spec->accumulates && call->add) x = v16_add(v16_get(out, dtype, i, n), x);
    v16_put(out, dtype, i, x, n);
}

#endif
