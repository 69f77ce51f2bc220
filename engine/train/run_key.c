// run_key.c - a number that two processes of a run have in common exactly when they are about to do the same: of the traced
// model, the cut, the compiled plan, the options and the first samples. Before: run.c, when it opens or changes schedules.
#include "train/run.h"
#include "base/memory.h"

// FNV-1a, 64 bits.
static void mix(uint64_t *key, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) *key = (*key ^ at[i]) * 1099511628211u;
}

#define MIX(key, x) mix(key, &(x), sizeof(x))

static ppl_status graph_mix(uint64_t *key, const ppl_graph *g) {
    size_t needed = 0;
    PPL_TRY(ppl_graph_print(g, NULL, 0, &needed));
    char *text = ppl_alloc(needed + 1);
    if (!text) return PPL_ERR_MEMORY;
    ppl_status st = ppl_graph_print(g, text, needed + 1, &needed);
    mix(key, text, strlen(text));
    ppl_free(text);
    for (size_t i = 0; i < g->n_params; i++) {
        const ppl_param *p = &g->params[i];
        mix(key, p->name, strlen(p->name));
        MIX(key, p->spec.init);
        MIX(key, p->spec.decay);
        MIX(key, p->spec.frozen);
        MIX(key, p->spec.a);
    }
    return st;
}

static void plan_mix(uint64_t *key, const ppl_plan *p) {
    MIX(key, p->ranks);
    mix(key, p->stage_rank, (size_t)p->stages->count * sizeof *p->stage_rank);
    for (int32_t r = 0; r < p->ranks; r++)
        mix(key, p->rank[r].tasks, (size_t)p->rank[r].count * sizeof *p->rank[r].tasks);
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        MIX(key, p->stages->edges[i].bytes);
        MIX(key, p->edge[i].buffers);
    }
}

static void options_mix(uint64_t *key, const ppl_run_options *o) {
    const ppl_optimizer_options *u = &o->optimizer;
    const int64_t whole[] = {o->stages,     o->samples,   o->threads,    (int64_t)o->seed, o->trace_steps,
                             o->keep_steps, u->kind,      u->decay,      u->warmup,        u->steps,
                             u->clip,       o->fail_task, o->stall_task, o->fail_rank,     o->copy_links};
    const double numbers[] = {u->lr,           u->min_lr,   u->beta1,     u->beta2, u->eps,
                              u->weight_decay, u->momentum, u->clip_norm, o->delay, o->stall_seconds};
    MIX(key, whole);
    MIX(key, numbers);
    mix(key, o->device, strlen(o->device));
    mix(key, o->first_layer, (size_t)o->stages * sizeof *o->first_layer);
}

// Names and types of inputs; of a source that knows its samples how many they are, and the first of them.
static ppl_status data_mix(uint64_t *key, ppl_data *d) {
    int64_t samples = ppl_data_samples(d);
    MIX(key, samples);
    for (int32_t i = 0; i < ppl_data_inputs(d); i++) {
        ppl_type type = ppl_data_sample_type(d, i);
        mix(key, ppl_data_input_name(d, i), strlen(ppl_data_input_name(d, i)));
        MIX(key, type.dtype);
        MIX(key, type.dim);
        if (samples < 1) continue;
        size_t bytes = ppl_type_bytes(&type);
        void *one = ppl_alloc(bytes);
        if (!one) return PPL_ERR_MEMORY;
        ppl_status st = ppl_data_read(d, 0, 0, 1, 1, i, one);
        mix(key, one, bytes);
        ppl_free(one);
        PPL_TRY(st);
    }
    return PPL_OK;
}

ppl_status ppl_run_key(const ppl_run *r, const ppl_run_engine *e, uint64_t *out) {
    *out = 14695981039346656037u;
    options_mix(out, &r->options);
    plan_mix(out, e->plan);
    plan_mix(out, e->eval_plan);
    PPL_TRY(graph_mix(out, r->graph));
    return data_mix(out, r->train.data);
}
