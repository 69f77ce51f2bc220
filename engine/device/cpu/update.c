// update.c - the optimizer's step in one pass over memory, and the sum of squares behind the gradient norm. Before it:
// exec fills a ppl_update after a stage's last W; after it: the weights are packed anew. Formulas with kernel.h.
#include "device/cpu/cpu.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vec.h"
#include <math.h>

typedef struct step { // constants of the update, rounded once
    const ppl_update *u;
    v16 scale, shrink, lr, beta1, rest1, beta2, rest2, eps, root, momentum, decay;
} step;

static step step_of(const ppl_update *u) {
    bool adam = u->kind == PPL_ADAMW;
    return (step){.u = u,
                  .scale = v16_set((float)u->scale),
                  .shrink = v16_set((float)(u->lr * u->decay)),
                  .lr = v16_set((float)(adam ? u->lr / u->bias1 : u->lr)),
                  .beta1 = v16_set((float)u->beta1),
                  .rest1 = v16_set((float)(1 - u->beta1)),
                  .beta2 = v16_set((float)u->beta2),
                  .rest2 = v16_set((float)(1 - u->beta2)),
                  .eps = v16_set((float)u->eps),
                  .root = v16_set((float)(adam ? 1 / sqrt(u->bias2) : 1)),
                  .momentum = v16_set((float)u->momentum),
                  .decay = v16_set((float)u->decay)};
}

PPL_VEC v16 gradient(const void *const *grads, int32_t uses, int64_t i, int n) {
    v16 g = v16_get(grads[0], PPL_F32, i, n);
    for (int32_t k = 1; k < uses; k++) g = v16_add(g, v16_get(grads[k], PPL_F32, i, n));
    return g;
}

// w <- w - lr decay w - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps); small factors are subtracted, not made part of
// one near 1, which would round most of them away
PPL_VEC v16 adamw(const step *s, int64_t i, int n, v16 w, v16 g) {
    const ppl_update *u = s->u;
    v16 m = v16_get(u->moment1, PPL_F32, i, n), v = v16_get(u->moment2, PPL_F32, i, n);
    m = v16_fma(s->beta1, m, v16_mul(s->rest1, g));
    v = v16_fma(s->beta2, v, v16_mul(s->rest2, v16_mul(g, g)));
    v16_put(u->moment1_out, PPL_F32, i, m, n);
    v16_put(u->moment2_out, PPL_F32, i, v, n);
    v16 size = v16_fma(v16_sqrt(v), s->root, s->eps);
    return v16_fnma(s->lr, v16_div(m, size), v16_fnma(s->shrink, w, w));
}

// v <- momentum v + g + decay w; w <- w - lr v
PPL_VEC v16 sgd(const step *s, int64_t i, int n, v16 w, v16 g) {
    const ppl_update *u = s->u;
    g = v16_fma(s->decay, w, g);
    if (u->moment1) {
        g = v16_fma(s->momentum, v16_get(u->moment1, PPL_F32, i, n), g);
        v16_put(u->moment1_out, PPL_F32, i, g, n);
    }
    return v16_fnma(s->lr, g, w);
}

PPL_VEC void lanes(const step *s, int64_t i, int n, bool adam) {
    const ppl_update *u = s->u;
    v16 g = v16_mul(s->scale, gradient(u->grads, u->uses, i, n)), w = v16_get(u->weight, PPL_F32, i, n);
    w = adam ? adamw(s, i, n, w, g) : sgd(s, i, n, w, g);
    v16_put(u->weight_out, PPL_F32, i, w, n);
    if (u->copy) v16_put(u->copy, u->copy_dtype, i, w, n);
}

PPL_VEC void numbers(const step *s, int64_t first, int64_t last, bool adam) {
    int64_t i = first;
    for (; i + 16 <= last; i += 16) lanes(s, i, 16, adam);
    if (i < last) lanes(s, i, (int)(last - i), adam);
}

enum { GROUP = 4096 }; // numbers dealt out to threads at once

static void update_share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    const step *s = context;
    first *= GROUP, last *= GROUP;
    if (last > s->u->n) last = s->u->n;
    if (s->u->kind == PPL_ADAMW) numbers(s, first, last, true);
    else numbers(s, first, last, false);
}

void PPL_ISA_NAME(ppl_cpu_update)(const ppl_update *u, int32_t threads) {
    step s = step_of(u);
    ppl_parallel((u->n + GROUP - 1) / GROUP, threads, update_share, &s);
}

// ---- the norm

// Squares are summed in 16 lanes of f64 within blocks of fixed size, and the blocks' sums in order.
enum { BLOCK = 16384, BLOCKS = 64 };

typedef struct squares {
    const void *const *grads;
    int32_t uses;
    int64_t n, block; // numbers; the first block of the batch
    double sum[BLOCKS];
} squares;

static void squares_share(void *context, int64_t first, int64_t last, int32_t worker) {
    (void)worker;
    squares *s = context;
    for (int64_t b = first; b < last; b++) {
        int64_t i = (s->block + b) * BLOCK, end = i + BLOCK < s->n ? i + BLOCK : s->n;
        d16 sum = d16_zero();
        for (; i + 16 <= end; i += 16) {
            d16 g = v16_widen(gradient(s->grads, s->uses, i, 16));
            sum = d16_fma(g, g, sum);
        }
        if (i < end) {
            d16 g = v16_widen(gradient(s->grads, s->uses, i, (int)(end - i)));
            sum = d16_fma(g, g, sum);
        }
        s->sum[b] = d16_sum(sum);
    }
}

double PPL_ISA_NAME(ppl_cpu_square_sum)(const void *const *grads, int32_t uses, int64_t n, int32_t threads) {
    squares s = {.grads = grads, .uses = uses, .n = n};
    double total = 0;
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    for (; s.block < blocks; s.block += BLOCKS) {
        int64_t batch = blocks - s.block < BLOCKS ? blocks - s.block : BLOCKS;
        ppl_parallel(batch, threads, squares_share, &s);
        for (int64_t b = 0; b < batch; b++) total += s.sum[b];
    }
    return total;
}
