// sequential.c - see sequential.h.
//
// The rule of versions, from PipeDream's order and not from a plan: n microbatches into a call, a stage with a warm-up of w
// forwards has stepped n - w times when it runs the next forward (Narayanan et al. 2019). 2BW: a step reads what the step
// before the last had stepped (Narayanan et al. 2021).
#include "support/sequential.h"
#include "train/optimizer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TOKENS = TRAINER_SAMPLES * GPT_CONTEXT };

static void must(ppl_status st) {
    if (st != PPL_OK) fail_msg("sequential: %s", ppl_error());
}

void sequential_open(sequential *s, const test_case *c, const test_trainer *from) {
    const ppl_graph *g = from->graph;
    *s =
        (sequential){.c = c, .o = test_options(c).optimizer, .data = test_text_data(0), .params = (int32_t)g->n_params};
    must(ppl_interpret_open(&s->t, g, c->device ? c->device : "cpu", 1));
    s->t.env.seed = test_options(c).seed;
    s->t.env.training = true;
    s->param = calloc(g->n_params, sizeof *s->param);
    for (int32_t i = 0; i < s->params; i++) {
        sequential_param *p = &s->param[i];
        ppl_param_info info;
        must(ppl_run_parameter(from->run, i, &info));
        p->stage = info.first_stage;
        p->n = ppl_type_elements(&info.type);
        size_t n = (size_t)p->n;
        double *x = malloc(n * sizeof *x);
        must(ppl_run_read(from->run, i, PPL_PART_WEIGHT, x));
        p->version = malloc(sizeof *p->version);
        p->version[0] = malloc(n * sizeof(float));
        p->versions = 1;
        for (size_t k = 0; k < n; k++) p->version[0][k] = (float)x[k];
        p->moment1 = calloc(n, sizeof(float));
        p->moment2 = calloc(n, sizeof(float));
        free(x);
    }
}

void sequential_restart(sequential *s, const test_case *c) {
    s->c = c;
    s->stream = 0;
    for (int32_t i = 0; i < s->params; i++) {
        sequential_param *p = &s->param[i];
        for (int32_t k = 0; k + 1 < p->versions; k++) free(p->version[k]);
        p->version[0] = p->version[p->versions - 1];
        p->versions = 1;
    }
}

void sequential_close(sequential *s) {
    for (int32_t i = 0; i < s->params; i++) {
        sequential_param *p = &s->param[i];
        for (int32_t k = 0; k < p->versions; k++) free(p->version[k]);
        free(p->version);
        free(p->moment1);
        free(p->moment2);
    }
    free(s->param);
    ppl_interpret_close(&s->t);
    ppl_data_close(s->data);
}

// Forwards that a rank runs ahead of the backward of a microbatch, by the orders' own texts.
static int32_t warm_up(const test_case *c, int32_t stage) {
    int32_t most = c->microbatches - 1, own = c->ranks - stage - 1;
    if (c->order == ORDER_NAIVE) return 0;
    if (c->order == ORDER_GPIPE) return most;
    return own < most ? own : most; // 1F1B
}

// Which version, counted from the newest before the call, a microbatch reads.
static int32_t reads(const sequential *s, const sequential_param *p, int32_t before, int32_t in_call) {
    if (s->c->weights == PPL_WEIGHTS_SYNC) return p->versions - 1;
    if (s->c->weights == PPL_WEIGHTS_2BW) return s->stream ? p->versions - 2 : p->versions - 1;
    int32_t n = in_call - warm_up(s->c, p->stage);
    return before + (n > 0 ? n : 0);
}

static void weights_set(sequential *s, const int32_t *before, int32_t in_call) {
    for (int32_t i = 0; i < s->params; i++) {
        const sequential_param *p = &s->param[i];
        const float *w = p->version[reads(s, p, before[i], in_call)];
        double *x = malloc((size_t)p->n * sizeof *x);
        for (int64_t k = 0; k < p->n; k++) x[k] = w[k];
        ppl_interpret_write(&s->t, s->t.graph->params[i].value, x);
        free(x);
    }
}

static void inputs_set(sequential *s, int32_t mb) {
    static int32_t tokens[MOST_TOKENS];
    static double x[MOST_TOKENS];
    const ppl_graph *g = s->t.graph;
    int32_t all = test_samples(s->c), samples = all / s->c->microbatches;
    for (size_t v = 0; v < g->n_values; v++) {
        if (g->values[v].kind != PPL_VALUE_INPUT) continue;
        int32_t input = strcmp(g->values[v].name, "targets") == 0;
        must(ppl_data_read(s->data, s->step, mb * samples, samples, all, input, tokens));
        for (int32_t k = 0; k < samples * GPT_CONTEXT; k++) x[k] = tokens[k];
        ppl_interpret_write(&s->t, (ppl_value)v, x);
    }
    s->t.env.step = s->step;
    s->t.env.first_sample = (int64_t)mb * samples;
}

static void grads_of(const sequential *s, int32_t i, const void **grads) {
    const ppl_param *p = &s->t.graph->params[i];
    for (int32_t k = 0; k < p->n_uses; k++) grads[k] = s->t.data[p->uses[k]];
}

// The optimizer's arithmetic is the device's: where it has memory of its own, an array goes over for the step and comes back.
static void *there(const sequential *s, void *host, int64_t n) {
    void *p = host;
    if (s->t.ops->flags & PPL_DEVICE_HOST || !host) return p;
    must(s->t.ops->memory_get(s->t.device, (size_t)n * sizeof(float), &p));
    must(s->t.ops->copy_in(s->t.device, p, host, (size_t)n * sizeof(float), 0));
    return p;
}

static void back(const sequential *s, void *p, void *host, int64_t n) {
    if (p == host) return;
    must(s->t.ops->copy_out(s->t.device, host, p, (size_t)n * sizeof(float), 0));
    s->t.ops->memory_free(s->t.device, p);
}

static void param_step(const sequential *s, const sequential_param *p, ppl_update *u, float *next) {
    void *w = u->weight = u->weight_out = there(s, next, p->n);
    u->moment1 = u->moment1_out = there(s, p->moment1, p->n);
    if (s->o.kind == PPL_ADAMW) u->moment2 = u->moment2_out = there(s, p->moment2, p->n);
    must(s->t.ops->update(s->t.device, u, 0));
    back(s, w, next, p->n);
    back(s, u->moment1_out, p->moment1, p->n);
    if (s->o.kind == PPL_ADAMW) back(s, u->moment2_out, p->moment2, p->n);
}

// Steps every parameter by the gradients that are there; adds their square sums.
static void update(sequential *s, int32_t done_in_step, double *sums, bool *clipped) {
    const ppl_graph *g = s->t.graph;
    double *sum = calloc((size_t)s->params, sizeof *sum);
    const void *grads[8];
    for (int32_t i = 0; i < s->params; i++) {
        grads_of(s, i, grads);
        must(s->t.ops->square_sum(s->t.device, grads, g->params[i].n_uses, PPL_F32, s->param[i].n, &sum[i]));
        sums[i] = done_in_step ? sums[i] + sum[i] : sum[i];
    }
    for (int32_t i = 0; i < s->params; i++) {
        sequential_param *p = &s->param[i];
        double stage = 0;
        for (int32_t k = 0; k < s->params; k++) stage += s->param[k].stage == p->stage ? sum[k] : 0;
        float *next = malloc((size_t)p->n * sizeof *next);
        memcpy(next, p->version[p->versions - 1], (size_t)p->n * sizeof *next);
        p->version = realloc(p->version, (size_t)(p->versions + 1) * sizeof *p->version);
        p->version[p->versions++] = next;
        grads_of(s, i, grads);
        ppl_update u = {
            .n = p->n, .grads = grads, .uses = g->params[i].n_uses, .dtype = PPL_F32, .copy_dtype = PPL_F32};
        ppl_update_set(&u, &s->o, s->step, s->updates, g->params[i].spec.decay != 0);
        u.scale = s->o.clip == PPL_CLIP_STAGE ? ppl_clip_scale(&s->o, sqrt(stage)) : 1;
        *clipped |= u.scale < 1;
        param_step(s, p, &u, next);
    }
    free(sum);
    s->updates++;
}

static void step_run(sequential *s, const int32_t *before, int32_t in_call, double *loss, double *norm) {
    int32_t m = s->c->microbatches;
    bool stash = s->c->weights == PPL_WEIGHTS_STASH, clipped = false;
    double weight = test_samples(s->c) * GPT_CONTEXT, sum = 0, all = 0, *sums = calloc((size_t)s->params, sizeof *sums);
    for (int32_t mb = 0; mb < m; mb++) {
        double one;
        weights_set(s, before, in_call * m + mb);
        inputs_set(s, mb);
        must(ppl_interpret_forward(&s->t));
        ppl_interpret_read(&s->t, s->t.graph->loss, &one);
        sum += one;
        must(ppl_interpret_backward(&s->t, stash ? m / weight : 1 / weight, !stash && mb > 0));
        if (stash) update(s, mb, sums, &clipped);
    }
    if (!stash) update(s, 0, sums, &clipped);
    for (int32_t i = 0; i < s->params; i++) all += sums[i];
    *loss = sum / weight;
    *norm = sqrt(stash ? all / m : all);
    free(sums);
    s->step++;
    s->stream++;
}

void sequential_call(sequential *s, int32_t n, double *losses, double *norms) {
    int32_t *before = malloc((size_t)s->params * sizeof *before);
    for (int32_t i = 0; i < s->params; i++) before[i] = s->param[i].versions - 1;
    for (int32_t i = 0; i < n; i++) step_run(s, before, i, &losses[i], &norms[i]);
    free(before);
}

const char *sequential_differ(const sequential *s, const ppl_run *run) {
    static char text[160];
    for (int32_t i = 0; i < s->params; i++) {
        const sequential_param *p = &s->param[i];
        double *x = malloc((size_t)p->n * sizeof *x);
        must(ppl_run_read(run, i, PPL_PART_WEIGHT, x));
        int64_t differ = 0;
        for (int64_t k = 0; k < p->n; k++) differ += x[k] != (double)p->version[p->versions - 1][k];
        free(x);
        if (!differ) continue;
        snprintf(text, sizeof text, "%lld of %lld numbers of %s", (long long)differ, (long long)p->n,
                 s->t.graph->params[i].name);
        return text;
    }
    return NULL;
}

void sequential_both(sequential *s, test_trainer *t, const test_case *c, int32_t n) {
    double loss[TRAINER_STEPS], norm[TRAINER_STEPS];
    int64_t done, first = ppl_run_step(t->run);
    if (ppl_run_steps(t->run, n, &done) != PPL_OK) fail_msg("%s: %s", sequential_name(c), ppl_error());
    assert_int_equal(done, n);
    sequential_call(s, n, loss, norm);
    for (int32_t i = 0; i < n; i++) {
        ppl_step_record r;
        assert_int_equal(ppl_run_record(t->run, first + i, &r), PPL_OK);
        if (r.loss != loss[i] || r.grad_norm != norm[i])
            fail_msg("%s, step %d: loss %.17g, norm %.17g, want %.17g, %.17g", sequential_name(c), (int)(first + i),
                     r.loss, r.grad_norm, loss[i], norm[i]);
    }
    const char *differ = sequential_differ(s, t->run);
    if (differ) fail_msg("%s: %s", sequential_name(c), differ);
}

const char *sequential_name(const test_case *c) {
    static char text[256];
    char rest[192];
    snprintf(text, sizeof text, "%s, %s", ppl_weights_name(c->weights), test_case_print(c, rest));
    return text;
}
