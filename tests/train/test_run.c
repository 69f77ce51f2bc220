// test_run.c - a run from outside: what it refuses, what it records, that a step allocates nothing, that training goes on
// after a checkpoint, an evaluation, another schedule or an interrupt as if nothing had been.
#include "plan/plan.h"
#include "support/trainer.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

// ---- what is test_refused ----

typedef struct option_case {
    size_t at; // of the field in ppl_run_options
    size_t size;
    double value;
    const char *words;
} option_case;

#define FIELD(f) offsetof(ppl_run_options, f), sizeof(((ppl_run_options *)0)->f)

static void field_set(ppl_run_options *o, const option_case *c) {
    int32_t whole = (int32_t)c->value;
    if (c->size == sizeof whole) memcpy((char *)o + c->at, &whole, sizeof whole);
    else memcpy((char *)o + c->at, &c->value, sizeof c->value);
}

static void test_options_refused(void **state) {
    (void)state;
    static const option_case cases[] = {
        {FIELD(stages), 0, "stages is 0, want 1 to 10"},
        {FIELD(stages), 11, "stages is 11, want 1 to 10"},
        {FIELD(stages), 3, "schedule 1f1b has 4 stages, the cut 3"},
        {FIELD(samples), 0, "samples is 0"},
        {FIELD(samples), 10, "batch 10 does not divide into 8 microbatches"},
        {FIELD(samples), 32, "input 'tokens' is i32 (2, 8), want 4 samples"},
        {FIELD(threads), 0, "threads is 0"},
        {FIELD(trace_steps), -1, "trace_steps is -1"},
        {FIELD(keep_steps), -1, "keep_steps is -1"},
        {FIELD(delay), -1, "delay is -1, want seconds"},
        {FIELD(delay), NAN, "delay is"},
        {FIELD(stall_seconds), INFINITY, "stall_seconds is inf"},
        {FIELD(optimizer.lr), -1, "optimizer: lr is -1"},
        {FIELD(optimizer.clip_norm), 0, "clip_norm is 0"},
    };
    test_case c = test_usual;
    test_trainer t;
    test_open(&c, &t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ppl_run *r = NULL;
        ppl_run_options o = test_options(&c);
        field_set(&o, &cases[i]);
        ppl_status st = ppl_run_open(&o, t.graph, t.schedule, t.data, &r);
        if (st == PPL_OK || !strstr(ppl_error(), cases[i].words))
            fail_msg("'%s' lacks '%s'", st ? ppl_error() : "", cases[i].words);
        assert_null(r);
    }
    ppl_run *r = NULL;
    ppl_run_options o = test_options(&c);
    int32_t cut[4] = {0, 3, 3, 7};
    o.first_layer = cut;
    assert_int_not_equal(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_OK);
    o.first_layer = NULL;
    test_refused(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_ERR_ARG, "first_layer");
    o = test_options(&c);
    o.device = "abacus";
    assert_int_not_equal(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_OK);
    assert_non_null(strstr(ppl_error(), "abacus"));
    o.device = NULL;
    test_refused(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_ERR_ARG, "no device");
    o.device = "emulated";
    test_refused(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_ERR_ARG, "emulated: no costs");
    o.device = "cpu";
    test_refused(ppl_run_open(&o, NULL, t.schedule, t.data, &r), PPL_ERR_ARG, "want all four");
    ppl_schedule_set_weights(t.schedule, PPL_WEIGHTS_STASH);
    test_refused(ppl_run_open(&o, t.graph, t.schedule, t.data, &r), PPL_ERR_ARG,
                 "with weights 'stash' of schedule 1f1b");
    ppl_run_close(NULL);
    test_trainer_close(&t);
}

static void test_data_refused(void **state) {
    (void)state;
    static const char *const names[][2] = {{"tokens", "labels"}, {"tokens", "targets"}, {"tokens", "targets"}};
    static const ppl_type types[][2] = {
        {{PPL_I32, 1, {GPT_CONTEXT}}, {PPL_I32, 1, {GPT_CONTEXT}}},
        {{PPL_I32, 1, {GPT_CONTEXT}}, {PPL_I32, 1, {GPT_CONTEXT + 1}}},
        {{PPL_F32, 1, {GPT_CONTEXT}}, {PPL_I32, 1, {GPT_CONTEXT}}},
    };
    static const char *const words[] = {"the model reads 'targets', the data has no input of this name",
                                        "a sample of the data's 'targets' is i32 (9), the model wants i32 (8)",
                                        "a sample of the data's 'tokens' is f32 (8), the model wants i32 (8)"};
    test_trainer t, good;
    test_open(&test_usual, &good);
    for (int32_t i = 0; i < 3; i++) {
        test_case c = test_usual;
        double loss;
        assert_int_equal(ppl_data_queue(2, names[i], types[i], 2, &c.data), PPL_OK);
        ppl_status st = test_trainer_open(&c, &t);
        test_refused(st, i ? PPL_ERR_SHAPE : PPL_ERR_ARG, words[i]);
        test_refused(ppl_run_evaluate(good.run, c.data, 1, &loss), st, words[i]);
        ppl_data_close(c.data);
    }
    test_steps(&good, 1);
    test_trainer_close(&good);
}

// ---- what is recorded ----

// Bytes that cross from rank to rank in a step, from the edges.
static int64_t crossing(const ppl_plan *p) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++)
        for (int32_t k = 0; k < p->stages->edges[i].n_readers; k++)
            if (p->stage_rank[p->stages->edges[i].readers[k].stage] != p->stage_rank[p->stages->edges[i].src])
                bytes += (int64_t)p->stages->edges[i].bytes * ppl_plan_uses(p, i);
    return bytes;
}

static void test_records(void **state) {
    (void)state;
    for (order o = ORDER_NAIVE; o <= ORDER_ZB_H1; o++)
        for (int32_t copy = 0; copy < 2; copy++) {
            test_case c = test_usual;
            test_trainer t;
            c.order = o;
            c.copy_links = copy;
            test_open(&c, &t);
            test_steps(&t, TRAINER_STEPS + 1);
            const ppl_plan *p = ppl_run_plan(t.run);
            int32_t peak = 0;
            for (int32_t rank = 0; rank < 4; rank++) {
                ppl_rank_stats s;
                assert_int_equal(ppl_run_rank_stats(t.run, rank, &s), PPL_OK);
                assert_int_equal(s.peak_live, s.planned_live);
                assert_int_equal(s.peak_live, ppl_plan_peak_live(p, rank));
                if (o == ORDER_1F1B) assert_int_equal(s.peak_live, 4 - rank);
                if (o == ORDER_ZB_H1) assert_int_equal(s.peak_live, 4);
                if (o == ORDER_GPIPE) assert_int_equal(s.peak_live, 8);
                assert_true(s.busy > 0 && s.iteration >= s.busy && s.memory[PPL_MEM_PARAMETERS] > 0);
                if (s.peak_live > peak) peak = s.peak_live;
            }
            double end = 0;
            for (int32_t i = 1; i <= TRAINER_STEPS; i++) {
                ppl_step_record s;
                assert_int_equal(ppl_run_record(t.run, i, &s), PPL_OK);
                assert_int_equal(s.step, i);
                assert_int_equal(s.link_bytes, crossing(p));
                assert_int_equal(s.peak_live, peak);
                assert_int_equal(s.tokens, TRAINER_SAMPLES * GPT_CONTEXT);
                assert_true(s.weight == TRAINER_SAMPLES * GPT_CONTEXT);
                assert_true(s.begin < s.end && s.end > end && s.begin > end - 1e-9); // they are behind one another
                assert_true(s.bubble_ratio >= 0 && s.bubble_ratio < 1);
                assert_true(isfinite(s.loss) && isfinite(s.grad_norm) && s.clipped == (s.grad_norm > 1));
                end = s.end;
            }
            ppl_step_record s;
            test_refused(ppl_run_record(t.run, 0, &s), PPL_ERR_ARG, "step 0 has no record, want one of the newest 6");
            test_refused(ppl_run_record(t.run, 7, &s), PPL_ERR_ARG, "step 7 has no record");
            test_trainer_close(&t);
        }
}

static void test_stats(void **state) {
    (void)state;
    test_trainer t;
    test_open(&test_usual, &t);
    test_steps(&t, 5);
    int64_t parameters = 0, all = 0;
    for (int32_t s = 0; s < 4; s++) {
        ppl_stage_stats stage;
        assert_int_equal(ppl_run_stage_stats(t.run, s, &stage), PPL_OK);
        assert_int_equal(stage.rank, s);
        assert_int_equal(stage.first_layer, s * GPT_LAYERS / 4);
        assert_int_equal(stage.samples, 4 * 8); // traced steps, microbatches
        assert_true(stage.f_median > 0 && stage.f_p95 >= stage.f_median && stage.i_median > 0 && stage.w_median > 0);
        assert_true(stage.u_median > 0 && stage.flops_f > 0 && stage.flops_b > stage.flops_f);
        assert_true(stage.activation_bytes > 0);
        parameters += stage.parameters;
    }
    for (int32_t l = 0; l < GPT_LAYERS; l++) all += ppl_graph_layer_parameters(t.graph, l);
    assert_int_equal(parameters, all);
    int32_t count = 0, crossing_edges = 0;
    ppl_edge_stats edges[64];
    assert_int_equal(ppl_run_edge_stats(t.run, edges, 64, &count), PPL_OK);
    assert_in_range(count, 6, 64);
    for (int32_t i = 0; i < count; i++) {
        crossing_edges += edges[i].src_rank != edges[i].dst_rank;
        assert_true(edges[i].bytes > 0 && edges[i].median >= 0 && edges[i].buffers > 0);
    }
    assert_int_equal(crossing_edges, count);
    int64_t events = 0;
    assert_int_equal(ppl_run_events(t.run, 4, NULL, 0, &events), PPL_OK);
    int64_t tasks = 0;
    for (int32_t rank = 0; rank < 4; rank++) tasks += ppl_plan_length(ppl_run_plan(t.run), rank);
    assert_int_equal(events, tasks);
    assert_int_not_equal(ppl_run_events(t.run, 0, NULL, 0, &events), PPL_OK); // the newest 4 are traced
    ppl_stage_stats stage;
    ppl_rank_stats rank;
    test_refused(ppl_run_stage_stats(t.run, 4, &stage), PPL_ERR_ARG, "stage 4");
    test_refused(ppl_run_rank_stats(t.run, -1, &rank), PPL_ERR_ARG, "rank -1");
    char path[96];
    snprintf(path, sizeof path, "%s.json", test_text());
    assert_int_equal(ppl_run_write_trace(t.run, path), PPL_OK);
    unlink(path);
    test_trainer_close(&t);
}

// ---- parameters ----

static void test_parameters(void **state) {
    (void)state;
    static double x[GPT_VOCABULARY * GPT_WIDTH], y[GPT_VOCABULARY * GPT_WIDTH];
    test_trainer t;
    test_case c = test_usual;
    c.clip = PPL_CLIP_NONE;
    test_open(&c, &t);
    ppl_param_info info;
    int32_t wte = test_param(t.run, "embed.wte", &info);
    assert_int_equal(info.first_stage, 0);
    assert_int_equal(info.last_stage, 3);
    assert_int_equal(info.type.dim[0], GPT_VOCABULARY);
    test_refused(ppl_run_read(t.run, wte, PPL_PART_GRADIENT, x), PPL_ERR_ARG, "no gradient before the first step");
    test_steps(&t, 1);
    double sum = 0;
    ppl_step_record record;
    assert_int_equal(ppl_run_record(t.run, 0, &record), PPL_OK);
    for (int32_t i = 0; i < ppl_run_parameters(t.run); i++) {
        assert_int_equal(ppl_run_parameter(t.run, i, &info), PPL_OK);
        assert_int_equal(ppl_run_read(t.run, i, PPL_PART_GRADIENT, x), PPL_OK);
        for (int64_t k = 0; k < info.type.dim[0] * info.type.dim[1]; k++) sum += x[k] * x[k];
    }
    assert_true(fabs(sqrt(sum) / record.grad_norm - 1) < 1e-6);
    // what is written is what the next step uses, on both ranks that hold it
    assert_int_equal(ppl_run_read(t.run, wte, PPL_PART_WEIGHT, x), PPL_OK);
    memset(y, 0, sizeof y);
    assert_int_equal(ppl_run_write(t.run, wte, PPL_PART_WEIGHT, y), PPL_OK);
    test_steps(&t, 1);
    assert_int_equal(ppl_run_record(t.run, 1, &record), PPL_OK);
    assert_true(fabs(record.loss - log(GPT_VOCABULARY)) < 1e-5); // all logits are zero
    assert_int_equal(ppl_run_write(t.run, wte, PPL_PART_WEIGHT, x), PPL_OK);
    assert_int_equal(ppl_run_read(t.run, wte, PPL_PART_WEIGHT, y), PPL_OK);
    assert_memory_equal(x, y, sizeof x);
    test_refused(ppl_run_read(t.run, 1000, PPL_PART_WEIGHT, x), PPL_ERR_ARG, "parameter 1000");
    test_refused(ppl_run_write(t.run, wte, PPL_PART_GRADIENT, x), PPL_ERR_ARG, "part 1");
    test_trainer_close(&t);
}

// ---- going on ----

static void test_checkpoint(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s.safetensors", test_text());
    for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++) {
        test_trainer from, to;
        test_case c = test_usual, other = test_usual;
        c.dtype = other.dtype = dtype;
        c.order = ORDER_ZB_H1;
        other.ranks = 3;
        other.clip = c.clip = PPL_CLIP_AFTER;
        test_open(&c, &from);
        test_steps(&from, 3);
        assert_int_equal(ppl_run_save(from.run, path, 1), PPL_OK);
        test_open(&other, &to);
        test_steps(&to, 1);
        assert_int_equal(ppl_run_load(to.run, path), PPL_OK);
        test_goes_on(&to, &other, 3, 2);
        // and back: to an earlier step of the run that saved it
        test_steps(&from, 2);
        assert_int_equal(ppl_run_load(from.run, path), PPL_OK);
        test_goes_on(&from, &c, 3, 2);
        assert_int_not_equal(ppl_run_load(from.run, test_text()), PPL_OK);
        assert_int_equal(ppl_run_step(from.run), 5);
        test_trainer_close(&from);
        test_trainer_close(&to);
    }
    unlink(path);
}

// The mean over held-out data, by steps of a run without dropout whose learning rate is too small to change anything.
static void test_evaluate(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s.safetensors", test_text());
    test_trainer t, manual;
    test_case c = test_usual, still = test_usual;
    ppl_data *held = test_text_data(1);
    enum { STEPS = 5 }; // 74 windows: the last step has 10 samples
    test_open(&c, &t);
    test_steps(&t, 3);
    double loss = 0, again = 0, sum = 0, weight = 0;
    assert_int_equal(ppl_run_evaluate(t.run, held, STEPS, &loss), PPL_OK);
    assert_int_equal(ppl_run_evaluate(t.run, held, STEPS, &again), PPL_OK);
    assert_true(loss == again);
    assert_int_equal(ppl_run_save(t.run, path, 0), PPL_OK);
    still.data = held;
    still.dropout = 0;
    still.ranks = 1;
    still.lr = 1e-300;
    test_open(&still, &manual);
    assert_int_equal(ppl_run_load(manual.run, path), PPL_OK);
    test_steps(&manual, STEPS);
    for (int32_t i = 0; i < STEPS; i++) {
        ppl_step_record s;
        assert_int_equal(ppl_run_record(manual.run, i, &s), PPL_OK);
        assert_int_equal(s.tokens, (i < 4 ? 16 : 10) * GPT_CONTEXT);
        sum += s.loss * s.weight;
        weight += s.weight;
    }
    assert_true(fabs(loss - sum / weight) < 1e-12);
    test_refused(ppl_run_evaluate(t.run, held, STEPS + 1, &loss), PPL_ERR_DATA, "held-out part has 74 samples");
    test_refused(ppl_run_evaluate(t.run, held, 0, &loss), PPL_ERR_ARG, "evaluation of 0 steps");
    int64_t done = 0;
    test_refused(ppl_run_steps(manual.run, 1, &done), PPL_ERR_DATA, "held-out part has 74 samples");
    assert_int_equal(done, 0);
    test_goes_on(&t, &c, 3, 3);
    test_trainer_close(&manual);
    test_trainer_close(&t);
    ppl_data_close(held);
    unlink(path);
}

static void test_use_schedule(void **state) {
    (void)state;
    test_case c = test_usual;
    c.clip = PPL_CLIP_AFTER;
    c.ranks = 8;
    c.dtype = PPL_BF16;
    test_trainer t;
    test_open(&c, &t);
    test_steps(&t, 1);
    ppl_schedule *others[] = {
        schedule_make(ORDER_V, 4, 8, 2),
        schedule_make(ORDER_ZB_H1, 8, 8, 1),
        schedule_make(ORDER_INTERLEAVED, 2, 8, 4),
    };
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(ppl_run_use_schedule(t.run, others[i]), PPL_OK);
        assert_int_equal(ppl_plan_ranks(ppl_run_plan(t.run)), ppl_schedule_ranks(others[i]));
        test_steps(&t, 1);
    }
    ppl_schedule *bad = schedule_make(ORDER_1F1B, 4, 8, 1);
    test_refused(ppl_run_use_schedule(t.run, bad), PPL_ERR_ARG, "has 4 stages, the cut 8");
    ppl_schedule_close(bad);
    bad = schedule_make(ORDER_1F1B, 8, 4, 1);
    test_refused(ppl_run_use_schedule(t.run, bad), PPL_ERR_ARG,
                 "has 4 microbatches, the model's inputs are made for 8");
    ppl_schedule_close(bad);
    bad = schedule_make(ORDER_1F1B, 8, 8, 1);
    assert_int_equal(ppl_schedule_add(bad, 0, PPL_F, 0, 0, 0), PPL_OK);
    assert_int_equal(ppl_run_use_schedule(t.run, bad), PPL_ERR_SCHEDULE);
    ppl_schedule_close(bad);
    for (int32_t i = 0; i < 3; i++) ppl_schedule_close(others[i]);
    test_goes_on(&t, &c, 4, 2);
    test_trainer_close(&t);
}

static void *interrupter(void *run) {
    usleep(30000);
    ppl_run_interrupt(run);
    return NULL;
}

static void test_interrupt(void **state) {
    (void)state;
    test_case c = test_usual;
    test_trainer t;
    test_open(&c, &t);
    pthread_t thread;
    int64_t done = 0;
    pthread_create(&thread, NULL, interrupter, t.run);
    test_refused(ppl_run_steps(t.run, 100000, &done), PPL_ERR_STOPPED, "interrupted");
    pthread_join(thread, NULL);
    assert_in_range(done, 0, 99999);
    assert_int_equal(ppl_run_step(t.run), done);
    ppl_run_interrupt(t.run); // between steps: seen by the next call, once
    int64_t none = 1;
    test_refused(ppl_run_steps(t.run, 5, &none), PPL_ERR_STOPPED, "interrupted");
    assert_int_equal(none, 0);
    double loss;
    ppl_data *held = test_text_data(1);
    ppl_run_interrupt(t.run);
    test_refused(ppl_run_evaluate(t.run, held, 1, &loss), PPL_ERR_STOPPED, "interrupted");
    ppl_data_close(held);
    test_goes_on(&t, &c, (int32_t)done, 2);
    test_trainer_close(&t);
}

// ---- memory ----

static atomic_bool counting;
static atomic_int allocations, fails_at; // fails_at: the allocation, counted from 1, that fails; 0 none
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static bool count(void) { // false: this one fails
    return !atomic_load(&counting) || atomic_fetch_add(&allocations, 1) + 1 != atomic_load(&fails_at);
}
void *__wrap_malloc(size_t bytes) {
    return count() ? __real_malloc(bytes) : NULL;
}
void *__wrap_calloc(size_t n, size_t bytes) {
    return count() ? __real_calloc(n, bytes) : NULL;
}
void *__wrap_realloc(void *p, size_t bytes) {
    return count() ? __real_realloc(p, bytes) : NULL;
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return count() ? __real_aligned_alloc(alignment, bytes) : NULL;
}

static void count_from(int32_t failing) {
    atomic_store(&fails_at, failing);
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
}

// Each allocation of a call fails once (of many, some): the call says so, gives everything back, and works the next time.
static void fail_each(const char *name, ppl_status (*call)(void *), void *arg) {
    for (int32_t n = 1;; n += 1 + n / 40) {
        count_from(n);
        ppl_status st = call(arg);
        atomic_store(&counting, false);
        bool failed = atomic_load(&allocations) >= n;
        if (failed && st != PPL_ERR_MEMORY)
            fail_msg("%s, allocation %d: status %d, '%s'", name, n, st, st ? ppl_error() : "");
        if (!failed && st != PPL_OK) fail_msg("%s: %s", name, ppl_error());
        if (!failed) break;
    }
}

typedef struct parts {
    test_trainer t;
    ppl_run_options o;
    ppl_schedule *other;
    char path[96];
} parts;

static ppl_status open_again(void *arg) {
    parts *p = arg;
    ppl_run *r = NULL;
    ppl_status st = ppl_run_open(&p->o, p->t.graph, p->t.schedule, p->t.data, &r);
    ppl_run_close(r);
    return st;
}
static ppl_status change_schedule(void *arg) {
    return ppl_run_use_schedule(((parts *)arg)->t.run, ((parts *)arg)->other);
}
static ppl_status save(void *arg) {
    return ppl_run_save(((parts *)arg)->t.run, ((parts *)arg)->path, 1);
}
static ppl_status load(void *arg) {
    return ppl_run_load(((parts *)arg)->t.run, ((parts *)arg)->path);
}

static void test_memory_ends(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_SYNC; weights <= PPL_WEIGHTS_STASH; weights++) {
        test_case c = test_usual;
        c.weights = weights;
        c.untied = weights != PPL_WEIGHTS_SYNC;
        if (weights != PPL_WEIGHTS_SYNC) c.clip = PPL_CLIP_STAGE;
        parts p = {.other = schedule_make(ORDER_V, 2, 8, 2), .o = test_options(&c)};
        ppl_schedule_set_weights(p.other, weights ? PPL_WEIGHTS_2BW : PPL_WEIGHTS_SYNC);
        snprintf(p.path, sizeof p.path, "%s.safetensors", test_text());
        test_open(&c, &p.t);
        test_steps(&p.t, 2);
        fail_each("open", open_again, &p);
        fail_each("use_schedule", change_schedule, &p);
        fail_each("save", save, &p);
        fail_each("load", load, &p);
        unlink(p.path);
        ppl_schedule_close(p.other);
        if (weights == PPL_WEIGHTS_SYNC) test_goes_on(&p.t, &c, 2, 2);
        test_trainer_close(&p.t);
    }
}

static void test_no_allocation(void **state) {
    (void)state;
    static const int32_t clips[][2] = {{PPL_WEIGHTS_SYNC, PPL_CLIP_NONE},   {PPL_WEIGHTS_SYNC, PPL_CLIP_BEFORE},
                                       {PPL_WEIGHTS_SYNC, PPL_CLIP_AFTER},  {PPL_WEIGHTS_STASH, PPL_CLIP_NONE},
                                       {PPL_WEIGHTS_STASH, PPL_CLIP_STAGE}, {PPL_WEIGHTS_2BW, PPL_CLIP_STAGE}};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++)
        for (int32_t dtype = PPL_F32; dtype <= PPL_BF16; dtype++) {
            test_case c = test_usual;
            test_trainer t;
            c.dtype = dtype;
            c.weights = clips[i][0];
            c.untied = c.weights != PPL_WEIGHTS_SYNC;
            c.clip = clips[i][1];
            c.copy_links = dtype == PPL_BF16;
            count_from(0);
            test_open(&c, &t);
            assert_true(atomic_load(&allocations) > 100); // the count counts
            atomic_store(&counting, false);
            test_steps(&t, 1);
            count_from(0);
            test_steps(&t, 10);
            atomic_store(&counting, false);
            assert_int_equal(atomic_load(&allocations), 0);
            test_trainer_close(&t);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_refused), cmocka_unit_test(test_data_refused), cmocka_unit_test(test_records),
        cmocka_unit_test(test_stats),           cmocka_unit_test(test_parameters),   cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_evaluate),        cmocka_unit_test(test_use_schedule), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_no_allocation),   cmocka_unit_test(test_memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
