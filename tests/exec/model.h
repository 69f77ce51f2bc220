// model.h - a small language model with everything that crosses cuts in odd ways (a tied embedding, a skip over all
// blocks, residuals, dropout), its data, and a client that keeps what it is told: for tests of values on a real device.
#ifndef PPL_TESTS_EXEC_MODEL_H
#define PPL_TESTS_EXEC_MODEL_H
#include "base/random.h"
#include "exec/exec.h"
#include "graph/tiny.h"
#include "support/schedules.h"
#include "train/store.h"
#include <math.h>

enum { SAMPLES = 2, TOKENS = 3, WIDTH = 8, WORDS = 11, BLOCKS = 6, LAYERS = BLOCKS + 2, MICROBATCHES = 4, STEPS = 5 };

static inline ppl_value linear(ppl_graph *g, const char *name, ppl_value x, int64_t out, int64_t in, int32_t act) {
    char w[64], b[64];
    snprintf(w, sizeof w, "%s.w", name);
    snprintf(b, sizeof b, "%s.b", name);
    ppl_value wv, bv;
    OK(ppl_graph_param(g, w, 2, (int64_t[]){out, in}, &(ppl_param_spec){.init = PPL_INIT_NORMAL, .a = 0.2, .decay = 1},
                       &wv));
    OK(ppl_graph_param(g, b, 1, (int64_t[]){out}, &(ppl_param_spec){.init = PPL_INIT_ZEROS}, &bv));
    return apply(g, PPL_OP_LINEAR, name, ATTRS(.i = {act}), x, wv, bv);
}

static inline ppl_value block(ppl_graph *g, int i, ppl_value x) {
    char name[64];
    ppl_value w, b;
    snprintf(name, sizeof name, "norm%d.w", i);
    OK(ppl_graph_param(g, name, 1, (int64_t[]){WIDTH}, &(ppl_param_spec){.init = PPL_INIT_ONES}, &w));
    snprintf(name, sizeof name, "norm%d.b", i);
    OK(ppl_graph_param(g, name, 1, (int64_t[]){WIDTH}, &(ppl_param_spec){.init = PPL_INIT_ZEROS}, &b));
    snprintf(name, sizeof name, "norm%d", i);
    ppl_value y = apply(g, PPL_OP_LAYERNORM, name, ATTRS(.f = {1e-5}), x, w, b);
    snprintf(name, sizeof name, "up%d", i);
    y = linear(g, name, y, 2 * WIDTH, WIDTH, PPL_ACT_GELU_TANH);
    snprintf(name, sizeof name, "down%d", i);
    y = linear(g, name, y, WIDTH, 2 * WIDTH, PPL_ACT_NONE);
    snprintf(name, sizeof name, "drop%d", i);
    y = apply(g, PPL_OP_DROPOUT, name, ATTRS(.i = {[7] = (int64_t)ppl_name_key(name)}, .f = {0.2}), y, -1, -1);
    snprintf(name, sizeof name, "add%d", i);
    return binary(g, PPL_OP_ADD, name, x, y);
}

static inline ppl_graph *model_graph(int32_t dtype) {
    ppl_graph *g = open_graph(dtype);
    layer(g, "embed");
    ppl_value tokens = input(g, "tokens", PPL_I32, DIMS(SAMPLES, TOKENS));
    ppl_value targets = input(g, "targets", PPL_I32, DIMS(SAMPLES, TOKENS)), table;
    OK(ppl_graph_param(g, "table", 2, (int64_t[]){WORDS, WIDTH}, &(ppl_param_spec){.init = PPL_INIT_NORMAL, .a = 0.5},
                       &table));
    ppl_value x = binary(g, PPL_OP_EMBEDDING, "embed", tokens, table), first = x;
    for (int i = 0; i < BLOCKS; i++) {
        char name[64];
        snprintf(name, sizeof name, "block%d", i);
        layer(g, name);
        x = block(g, i, x);
    }
    layer(g, "head");
    x = binary(g, PPL_OP_ADD, "skip", x, first);
    x = binary(g, PPL_OP_LINEAR, "logits", x, table);
    ppl_value flat = apply(g, PPL_OP_RESHAPE, "flat", ATTRS(.i = {2, SAMPLES * TOKENS, WORDS}), x, -1, -1);
    ppl_value words = apply(g, PPL_OP_RESHAPE, "words", ATTRS(.i = {1, SAMPLES * TOKENS}), targets, -1, -1);
    OK(ppl_graph_loss(g, binary(g, PPL_OP_CROSS_ENTROPY, "loss", flat, words)));
    OK(ppl_graph_differentiate(g));
    return g;
}

typedef struct model {
    const ppl_graph *graph;
    double loss[STEPS][MICROBATCHES], norm[STEPS];
    int32_t clipped[STEPS], told[STEPS];
    int32_t peak[16];
} model;

// The same numbers for every rank that asks.
static inline ppl_status model_fill(void *self, int64_t step, int32_t microbatch, ppl_value value, void *dst) {
    const ppl_graph *g = ((model *)self)->graph;
    int32_t *to = dst;
    uint32_t bits[4];
    for (int32_t i = 0; i < SAMPLES * TOKENS; i++) {
        ppl_philox(ppl_name_key(g->values[value].name), (uint64_t)step, (uint64_t)microbatch << 32 | (uint32_t)i, bits);
        to[i] = (int32_t)(bits[0] % WORDS);
    }
    return PPL_OK;
}
static inline double model_weight(void *self, int64_t step) {
    (void)self, (void)step;
    return SAMPLES * TOKENS * MICROBATCHES;
}
static inline void model_loss(void *self, int64_t step, int32_t microbatch, double sum) {
    ((model *)self)->loss[step][microbatch] = sum;
}
static inline void model_norm(void *self, int64_t step, double norm, bool clipped) {
    model *m = self;
    m->norm[step] = norm;
    m->clipped[step] = clipped;
    m->told[step]++;
}
static inline void model_done(void *self, int32_t rank, int64_t step, int32_t peak_live, int64_t link_bytes) {
    (void)step, (void)link_bytes;
    ((model *)self)->peak[rank] = peak_live;
}

static inline ppl_exec_client model_client(model *m, const ppl_graph *g, const ppl_optimizer_options *o) {
    *m = (model){.graph = g};
    return (ppl_exec_client){.self = m,
                             .fill = model_fill,
                             .step_weight = model_weight,
                             .loss = model_loss,
                             .norm = model_norm,
                             .rank_done = model_done,
                             .optimizer = *o};
}

typedef struct model_run { // a model cut, planned, stored and opened
    ppl_stages *stages;
    ppl_plan *plan, *eval;
    ppl_store *store;
    ppl_exec *exec;
} model_run;

static inline ppl_exec_options model_options(const ppl_device_ops *device, const ppl_plan *eval) {
    return (ppl_exec_options){.device = device,
                              .device_options = {.threads = 1},
                              .link = &ppl_link_local,
                              .eval_plan = eval,
                              .seed = 7,
                              .stall_seconds = 60,
                              .samples_per_microbatch = SAMPLES,
                              .trace_steps = 2,
                              .fail_task = -1,
                              .stall_task = -1};
}

static inline model_run model_open(ppl_graph *g, ppl_schedule *s, bool copies, const ppl_exec_options *options,
                                   const ppl_exec_client *client) {
    model_run r = {0};
    int32_t cut[LAYERS];
    OK(ppl_graph_cut_even(g, s->stages, cut));
    OK(ppl_stages_build(g, s->stages, cut, &r.stages));
    bool after = client->optimizer.clip == PPL_CLIP_AFTER;
    OK(ppl_plan_build(s, r.stages, &(ppl_plan_options){.copy_links = copies, .validate = after}, &r.plan));
    OK(ppl_plan_build(s, r.stages, &(ppl_plan_options){.copy_links = copies, .forward_only = true}, &r.eval));
    bool *uses = calloc((size_t)s->ranks * g->n_params, sizeof *uses);
    for (int32_t k = 0; k < s->ranks; k++)
        for (int32_t i = 0; i < r.plan->rank[k].n_params; i++)
            uses[(size_t)k * g->n_params + (size_t)r.plan->rank[k].params[i]] = true;
    OK(ppl_store_build(g, s->ranks, uses, 3, &client->optimizer, &r.store));
    free(uses);
    ppl_exec_options o = *options;
    o.eval_plan = r.eval;
    OK(ppl_exec_open(r.plan, r.store, &o, client, &r.exec));
    return r;
}

static inline void model_close(model_run *r) {
    ppl_exec_close(r->exec);
    ppl_store_free(r->store);
    ppl_plan_close(r->eval);
    ppl_plan_close(r->plan);
    ppl_stages_free(r->stages);
}

#endif
