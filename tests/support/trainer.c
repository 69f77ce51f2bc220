// trainer.c - see trainer.h.
#include "support/trainer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[] = "/tmp/ppl_run_XXXXXX", path[64];

static void text_remove(void) {
    unlink(path);
    rmdir(dir);
}

const char *test_text(void) {
    enum { BYTES = 6000 };
    if (path[0]) return path;
    static char text[BYTES];
    uint32_t x = 12345;
    for (int32_t i = 0; i < BYTES; i++) { // words of a small alphabet, so that there is something to learn
        x = x * 1664525 + 1013904223;
        text[i] = x >> 29 == 0 ? ' ' : (char)('a' + (i % 7 + (x >> 30)) % 26);
    }
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/text", dir);
    if (ppl_write_file(path, text, BYTES) != PPL_OK) abort();
    atexit(text_remove);
    return path;
}

ppl_data *test_text_data(int32_t part) {
    const char *file = test_text();
    ppl_data *d = NULL;
    if (ppl_data_text(&file, 1, GPT_CONTEXT, 0.1, part, 11, &d) != PPL_OK) fail_msg("%s", ppl_error());
    return d;
}

int32_t test_stages(const test_case *c) {
    int32_t chunks = c->order == ORDER_V ? 2 : c->chunks && c->order != ORDER_NAIVE ? c->chunks : 1;
    return c->ranks * chunks;
}

const char *test_case_print(const test_case *c, char text[192]) {
    static const char *const clips[] = {"none", "before", "after", "stage"};
    static const char *const dtypes[] = {"f32", "bf16", "f64"};
    snprintf(text, 192, "%s %s, %d stages on %d ranks, %d microbatches, %s, clip %s, %s%s, dropout %g, delay seed %d",
             c->device ? c->device : "cpu", order_name[c->order], test_stages(c), c->ranks, c->microbatches,
             dtypes[c->dtype], clips[c->clip], c->copy_links ? "copied" : "shared", c->recompute ? ", recomputed" : "",
             c->dropout, (int)c->delay_seed);
    return text;
}

int32_t test_samples(const test_case *c) {
    return c->samples ? c->samples : TRAINER_SAMPLES;
}

ppl_run_options test_options(const test_case *c) {
    static _Thread_local int32_t cut[GPT_LAYERS];
    int32_t stages = test_stages(c);
    for (int32_t s = 0; s < stages; s++) cut[s] = s * GPT_LAYERS / stages;
    return (ppl_run_options){
        .device = c->device ? c->device : "cpu",
        .first_layer = cut,
        .stages = stages,
        .samples = test_samples(c),
        .threads = c->threads ? c->threads : 1,
        .copy_links = c->copy_links,
        .seed = 3,
        .delay_seed = c->delay_seed,
        .delay = c->delay_seed ? 200e-6 : 0,
        .stall_seconds = c->stall_seconds > 0 ? c->stall_seconds : 60,
        .trace_steps = 4,
        .keep_steps = TRAINER_STEPS,
        .optimizer = {.kind = c->optimizer,
                      .decay = PPL_LR_COSINE,
                      .lr = c->lr != 0 ? c->lr : 0.01,
                      .min_lr = c->lr != 0 ? c->lr : 0.001,
                      .warmup = 2,
                      .steps = 10,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = c->lr != 0 ? 0 : 0.1,
                      .momentum = 0.9,
                      .clip = c->clip,
                      .clip_norm = c->clip_norm},
        .fail_task = -1,
        .stall_task = -1,
    };
}

ppl_status test_trainer_open(const test_case *c, test_trainer *out) {
    ppl_run_options o = test_options(c);
    *out = (test_trainer){0};
    out->graph = (c->untied ? test_gpt_untied : test_gpt)(c->dtype, test_samples(c) / c->microbatches, c->dropout);
    for (int32_t i = 1; c->recompute && i <= GPT_BLOCKS; i++)
        assert_int_equal(ppl_graph_recompute(out->graph, i, 1), PPL_OK);
    out->schedule = schedule_make(c->order, c->ranks, c->microbatches, c->chunks ? c->chunks : 1);
    ppl_schedule_set_weights(out->schedule, c->weights);
    if (!c->data) out->data = test_text_data(0);
    ppl_status st = ppl_run_open(&o, out->graph, out->schedule, c->data ? c->data : out->data, &out->run);
    if (st != PPL_OK) test_trainer_close(out);
    return st;
}

void test_trainer_close(test_trainer *t) {
    ppl_run_close(t->run);
    ppl_data_close(t->data);
    ppl_schedule_close(t->schedule);
    ppl_graph_close(t->graph);
    *t = (test_trainer){0};
}

static int64_t elements(const ppl_type *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->ndim; i++) n *= t->dim[i];
    return n;
}

static void weights_read(const ppl_run *r, test_outcome *out) {
    ppl_param_info info;
    int32_t count = ppl_run_parameters(r);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(ppl_run_parameter(r, i, &info), PPL_OK);
        out->n += elements(&info.type);
    }
    double *to = out->weights = malloc((size_t)out->n * sizeof *to);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(ppl_run_parameter(r, i, &info), PPL_OK);
        assert_int_equal(ppl_run_read(r, i, PPL_PART_WEIGHT, to), PPL_OK);
        to += elements(&info.type);
    }
}

ppl_status test_trainer_run(test_trainer *t, int32_t n, int32_t at_once, test_outcome *out) {
    *out = (test_outcome){.steps = n};
    int64_t first = ppl_run_step(t->run);
    for (int32_t i = 0; i < n; i += at_once) {
        int64_t done = 0, ask = n - i < at_once ? n - i : at_once;
        ppl_status st = ppl_run_steps(t->run, ask, &done);
        if (st != PPL_OK) return st;
        assert_int_equal(done, ask);
    }
    for (int32_t i = 0; i < n && i < TRAINER_STEPS; i++) {
        ppl_step_record record;
        assert_int_equal(ppl_run_record(t->run, first + i, &record), PPL_OK);
        out->loss[i] = record.loss;
        out->norm[i] = record.grad_norm;
        out->clipped += record.clipped;
    }
    weights_read(t->run, out);
    return PPL_OK;
}

void test_train(const test_case *c, test_outcome *out) {
    test_trainer t;
    char text[192];
    if (test_trainer_open(c, &t) != PPL_OK || test_trainer_run(&t, TRAINER_STEPS, TRAINER_STEPS, out) != PPL_OK)
        fail_msg("%s: %s", test_case_print(c, text), ppl_error());
    test_trainer_close(&t);
}

void test_outcome_clear(test_outcome *o) {
    free(o->weights);
    *o = (test_outcome){0};
}

const char *test_outcome_differ(const test_outcome *a, const test_outcome *b) {
    static _Thread_local char text[192];
    for (int32_t i = 0; i < a->steps; i++) {
        if (memcmp(&a->loss[i], &b->loss[i], sizeof(double)) != 0) {
            snprintf(text, sizeof text, "loss of step %d: %.17g, want %.17g", i, b->loss[i], a->loss[i]);
            return text;
        }
        if (memcmp(&a->norm[i], &b->norm[i], sizeof(double)) != 0) {
            snprintf(text, sizeof text, "norm of step %d: %.17g, want %.17g", i, b->norm[i], a->norm[i]);
            return text;
        }
    }
    int64_t differ = 0, first = -1;
    for (int64_t i = 0; i < a->n && a->n == b->n; i++)
        if (memcmp(&a->weights[i], &b->weights[i], sizeof(double)) != 0 && differ++ == 0) first = i;
    snprintf(text, sizeof text, "%lld of %lld weights, first at %lld: %.17g, want %.17g", (long long)differ,
             (long long)a->n, (long long)first, differ ? b->weights[first] : 0, differ ? a->weights[first] : 0);
    return differ || a->n != b->n ? text : NULL;
}

const test_case test_usual = {.dtype = PPL_F32,
                              .order = ORDER_1F1B,
                              .ranks = 4,
                              .microbatches = 8,
                              .optimizer = PPL_ADAMW,
                              .dropout = 0.1,
                              .clip = PPL_CLIP_BEFORE,
                              .clip_norm = 1};

void test_open(const test_case *c, test_trainer *t) {
    if (test_trainer_open(c, t) != PPL_OK) fail_msg("%s", ppl_error());
}

void test_steps(test_trainer *t, int64_t n) {
    int64_t done;
    if (ppl_run_steps(t->run, n, &done) != PPL_OK) fail_msg("%s", ppl_error());
    assert_int_equal(done, n);
}

void test_refused(ppl_status st, ppl_status want, const char *words) {
    if (st != want || !strstr(ppl_error(), words))
        fail_msg("status %d, '%s': want %d with '%s'", st, st ? ppl_error() : "", want, words);
}

void test_goes_on(test_trainer *t, const test_case *c, int32_t before, int32_t after) {
    test_trainer straight;
    test_outcome want, is;
    test_open(c, &straight);
    test_steps(&straight, before);
    assert_int_equal(ppl_run_step(t->run), before);
    assert_int_equal(test_trainer_run(&straight, after, after, &want), PPL_OK);
    if (test_trainer_run(t, after, after, &is) != PPL_OK) fail_msg("%s", ppl_error());
    const char *differ = test_outcome_differ(&want, &is);
    if (differ) fail_msg("%s", differ);
    test_outcome_clear(&want);
    test_outcome_clear(&is);
    test_trainer_close(&straight);
}

int32_t test_param(const ppl_run *r, const char *name, ppl_param_info *info) {
    for (int32_t i = 0; i < ppl_run_parameters(r); i++) {
        assert_int_equal(ppl_run_parameter(r, i, info), PPL_OK);
        if (strcmp(info->name, name) == 0) return i;
    }
    fail_msg("no parameter %s", name);
    return -1;
}
