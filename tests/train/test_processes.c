// test_processes.c - runs over several processes, played by threads over a wire whose sends are synchronous: bit-equal to
// one process in every schedule, with clipping, rollbacks, delays, changed schedules and checkpoints; and what goes wrong in
// one process ends all with the same words.
#include "support/trainer.h"
#include "support/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
enum { SEEDS = 3, MOST = 2 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 6, MOST = 2 };
#else
enum { SEEDS = 30, MOST = 4 };
#endif

static test_case played;    // by all processes
static test_outcome wanted; // of one process
static char file[96];       // a checkpoint
static char wrong[16][768]; // what a process found; reported on the test's own thread

#define WANT(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition) && !wrong[process][0])                                                                        \
            snprintf(wrong[process], sizeof *wrong, "line %d: %s; error text: %.500s", __LINE__, #condition,           \
                     ppl_error());                                                                                     \
    } while (0)

static void play(int32_t processes, test_process main_of) {
    char text[192];
    memset(wrong, 0, sizeof wrong);
    test_net_run(processes, main_of, NULL);
    for (int32_t p = 0; p < processes; p++)
        if (wrong[p][0]) fail_msg("process %d of %d, %s, %s", p, processes, test_case_print(&played, text), wrong[p]);
}

// ---- the same bits ----

static void same_main(void *self, int32_t process) {
    (void)self;
    test_trainer t;
    test_outcome is = {0};
    WANT(test_trainer_open(&played, &t) == PPL_OK);
    if (!t.run) return;
    WANT(test_trainer_run(&t, TRAINER_STEPS, played.delay_seed % 2 ? 2 : TRAINER_STEPS, &is) == PPL_OK);
    const char *differ = is.weights ? test_outcome_differ(&wanted, &is) : "it failed";
    if (differ) snprintf(wrong[process], sizeof *wrong, "%s; %s", differ, ppl_error());
    WANT(is.clipped == wanted.clipped);
    test_outcome_clear(&is);
    test_trainer_close(&t);
}

static void same(const test_case *c, int32_t processes) {
    played = *c;
    play(processes, same_main);
}

static void baseline(test_case c) {
    c.order = ORDER_NAIVE;
    c.ranks = 1;
    c.chunks = 0;
    c.delay_seed = 0;
    if (c.clip == PPL_CLIP_AFTER) c.clip = PPL_CLIP_BEFORE;
    test_train(&c, &wanted);
}

static const test_case usual = {
    .dtype = PPL_F32, .ranks = 4, .microbatches = 4, .optimizer = PPL_ADAMW, .dropout = 0.1, .order = ORDER_1F1B};

// A process may hold one rank or several; the number of ranks need not divide.
static void test_schedules(void **state) {
    (void)state;
    test_case c = usual;
    baseline(c);
    for (int32_t processes = 2; processes <= MOST; processes++) {
        for (c.order = ORDER_NAIVE; c.order <= ORDER_ZB_H1; c.order++) same(&c, processes);
        if (processes == 3) continue;
        for (c.order = ORDER_LOOP; c.order <= ORDER_V; c.order++) {
            c.ranks = processes;
            c.chunks = 8 / c.ranks;
            same(&c, processes);
        }
        c.ranks = 4;
        c.chunks = 0;
    }
    test_outcome_clear(&wanted);
}

static void test_bf16(void **state) {
    (void)state;
    test_case c = usual;
    c.dtype = PPL_BF16;
    baseline(c);
    same(&c, 2);
    c.order = ORDER_ZB_H1;
    same(&c, 4);
    test_outcome_clear(&wanted);
}

// Some steps are clipped, some are not: rolled back over processes with values underway.
static void test_clip(void **state) {
    (void)state;
    test_case c = usual;
    c.clip_norm = 1;
    c.clip = PPL_CLIP_BEFORE;
    baseline(c);
    assert_true(wanted.clipped > 0);
    for (c.clip = PPL_CLIP_BEFORE; c.clip <= PPL_CLIP_AFTER; c.clip++)
        for (c.order = ORDER_GPIPE; c.order <= ORDER_ZB_H1; c.order++)
            for (int32_t processes = 2; processes <= 4; processes += 2) same(&c, processes);
    test_outcome_clear(&wanted);
    c = (test_case){
        .dtype = PPL_F32, .microbatches = 8, .optimizer = PPL_SGD, .lr = 1e28, .clip_norm = 1e-29, .ranks = 4};
    c.clip = PPL_CLIP_AFTER; // every step would wreck the weights
    baseline(c);
    assert_int_equal(wanted.clipped, TRAINER_STEPS);
    for (c.order = ORDER_GPIPE; c.order <= ORDER_ZB_H1; c.order++) same(&c, 3);
    test_outcome_clear(&wanted);
}

static void test_delays(void **state) {
    (void)state;
    test_case c = usual;
    c.clip_norm = 1;
    c.clip = PPL_CLIP_BEFORE;
    baseline(c);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        c.delay_seed = seed;
        c.order = (order)(seed % 4);
        c.clip = seed / 2 % 2 ? PPL_CLIP_AFTER : PPL_CLIP_BEFORE;
        same(&c, 2 + (int32_t)(seed % 3));
    }
    test_outcome_clear(&wanted);
}

// Weights that are stashed: steps overlap, over processes too.
static void test_async(void **state) {
    (void)state;
    for (int32_t weights = PPL_WEIGHTS_STASH; weights <= PPL_WEIGHTS_2BW; weights++) {
        test_case c = usual;
        c.untied = true;
        c.weights = weights;
        test_train(&c, &wanted);
        same(&c, 2);
        same(&c, 4);
        c.delay_seed = 4; // all steps in one call: where it ends, nothing runs ahead
        same(&c, 4);
        test_outcome_clear(&wanted);
    }
}

// ---- between steps ----

static void schedule_change(test_trainer *t, order o, int32_t ranks, int32_t chunks, int32_t process) {
    ppl_schedule *s = schedule_make(o, ranks, played.microbatches, chunks);
    WANT(ppl_run_use_schedule(t->run, s) == PPL_OK);
    ppl_schedule_close(t->schedule);
    t->schedule = s;
}

// Evaluates, saves, changes to a placement that moves weights between processes, loads, and goes on; all see the same.
static void between_main(void *self, int32_t process) {
    (void)self;
    test_trainer t;
    int64_t done = 0;
    double loss = 0, again = 0, gradient[GPT_WIDTH];
    char own[128];
    ppl_param_info info;
    WANT(test_trainer_open(&played, &t) == PPL_OK);
    if (!t.run) return;
    ppl_data *held = NULL;
    const char *path = test_text();
    WANT(ppl_data_text(&path, 1, GPT_CONTEXT, 0.1, 1, 11, &held) == PPL_OK);
    WANT(ppl_run_steps(t.run, 2, &done) == PPL_OK && done == 2);
    WANT(ppl_run_evaluate(t.run, held, 1, &loss) == PPL_OK && loss > 0);
    WANT(ppl_run_save(t.run, file, 1) == PPL_OK);
    schedule_change(&t, ORDER_V, 2, 2, process);
    WANT(ppl_run_evaluate(t.run, held, 1, &again) == PPL_OK && memcmp(&loss, &again, sizeof loss) == 0);
    WANT(ppl_run_steps(t.run, 1, &done) == PPL_OK);
    snprintf(own, sizeof own, "%s.again", file);
    WANT(ppl_run_load(t.run, file) == PPL_OK && ppl_run_step(t.run) == 2);
    WANT(ppl_run_save(t.run, own, 1) == PPL_OK);
    schedule_change(&t, ORDER_GPIPE, 4, 0, process);
    WANT(ppl_run_load(t.run, "/nowhere") == PPL_ERR_IO);
    WANT(ppl_run_steps(t.run, TRAINER_STEPS - 2, &done) == PPL_OK);
    ppl_step_record record = {0};
    WANT(ppl_run_record(t.run, TRAINER_STEPS - 1, &record) == PPL_OK);
    WANT(memcmp(&record.loss, &wanted.loss[TRAINER_STEPS - 1], sizeof(double)) == 0);
    WANT(record.bubble_ratio >= 0 && record.bubble_ratio < 1 && record.end > record.begin && record.link_bytes > 0);
    for (int32_t i = 0; i < ppl_run_parameters(t.run); i++)
        if (ppl_run_parameter(t.run, i, &info) == PPL_OK && strcmp(info.name, "final.w") == 0)
            WANT(ppl_run_read(t.run, i, PPL_PART_GRADIENT, gradient) == PPL_OK);
    ppl_data_close(held);
    test_trainer_close(&t);
}

static int64_t bytes_of(const char *path, char **out) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *out = malloc(1 << 22);
    int64_t n = (int64_t)fread(*out, 1, 1 << 22, f);
    fclose(f);
    return n;
}

static void files_equal(const char *a, const char *b) {
    char *x, *y;
    int64_t n = bytes_of(a, &x);
    assert_true(n > 1000);
    assert_int_equal(n, bytes_of(b, &y));
    assert_memory_equal(x, y, (size_t)n);
    free(x);
    free(y);
}

static void test_between(void **state) {
    (void)state;
    char one[128], again[128];
    snprintf(file, sizeof file, "%s.safetensors", test_text());
    snprintf(one, sizeof one, "%s.one", file);
    snprintf(again, sizeof again, "%s.again", file);
    played = usual;
    baseline(played);
    test_trainer t;
    test_open(&played, &t);
    test_steps(&t, 2);
    assert_int_equal(ppl_run_save(t.run, one, 1), PPL_OK);
    test_trainer_close(&t);
    play(2, between_main);
    files_equal(one, file);
    files_equal(one, again);
    unlink(one);
    unlink(file);
    unlink(again);
    test_outcome_clear(&wanted);
}

// What the tables are made of is the same everywhere, and has all ranks in it.
static void tables_main(void *self, int32_t process) {
    (void)self;
    test_trainer t;
    int64_t done = 0, count = 0, all = 0;
    WANT(test_trainer_open(&played, &t) == PPL_OK);
    if (!t.run) return;
    WANT(ppl_run_steps(t.run, 3, &done) == PPL_OK && done == 3);
    for (int32_t r = 0; r < played.ranks; r++) {
        ppl_rank_stats stats = {0};
        ppl_stage_stats stage = {0};
        WANT(ppl_run_rank_stats(t.run, r, &stats) == PPL_OK);
        WANT(stats.busy > 0 && stats.iteration > 0 && stats.peak_live > 0);
        WANT(stats.memory[PPL_MEM_PARAMETERS] > 0 && stats.memory[PPL_MEM_EDGES] > 0);
        WANT(ppl_run_stage_stats(t.run, r, &stage) == PPL_OK && stage.f_median > 0 && stage.w_median > 0);
        all += ppl_plan_length(ppl_run_plan(t.run), r);
    }
    ppl_event *events = calloc((size_t)all, sizeof *events);
    WANT(ppl_run_events(t.run, 2, events, all, &count) == PPL_OK && count == all);
    for (int64_t i = 1; i < count; i++) {
        WANT(events[i].end >= events[i].begin && events[i].begin > 0);
        WANT(events[i].rank != events[i - 1].rank || events[i].begin >= events[i - 1].begin);
    }
    free(events);
    test_trainer_close(&t);
}

static void test_tables(void **state) {
    (void)state;
    played = usual;
    play(2, tables_main);
    play(3, tables_main);
}

// An interrupt in one process ends the steps of all at the same one.
static void interrupt_main(void *self, int32_t process) {
    int32_t by = *(int32_t *)self;
    test_trainer t;
    int64_t done = 0, before;
    WANT(test_trainer_open(&played, &t) == PPL_OK);
    if (!t.run) return;
    if (process == by) ppl_run_interrupt(t.run);
    WANT(ppl_run_steps(t.run, 4, &done) == PPL_ERR_STOPPED && done == 0);
    WANT(ppl_run_steps(t.run, 2, &done) == PPL_OK && done == 2);
    before = ppl_run_step(t.run);
    ppl_status st = PPL_OK;
    for (int32_t i = 0; i < 50 && st == PPL_OK; i++) {
        if (i == 1 && process == by) ppl_run_interrupt(t.run);
        st = ppl_run_steps(t.run, 3, &done);
    }
    WANT(st == PPL_ERR_STOPPED && ppl_run_step(t.run) > before);
    WANT(ppl_world_settle(ppl_world_current(), "after", PPL_OK) == PPL_OK);
    int64_t step = ppl_run_step(t.run);
    WANT(ppl_world_share(ppl_world_current(), 0, &step, sizeof step) == PPL_OK && step == ppl_run_step(t.run));
    test_trainer_close(&t);
}

static void test_interrupts(void **state) {
    (void)state;
    played = usual;
    for (int32_t by = 0; by < 3; by++) {
        memset(wrong, 0, sizeof wrong);
        test_net_run(3, interrupt_main, &by);
        for (int32_t p = 0; p < 3; p++)
            if (wrong[p][0]) fail_msg("process %d, interrupted by %d: %s", p, by, wrong[p]);
    }
}

// ---- what goes wrong ----

typedef struct fault {
    int32_t rank;
    bool stalls;
    const char *words;
} fault;

static void fault_main(void *self, int32_t process) {
    const fault *f = self;
    double times[4] = {1e-3, 1e-3, 1e-3, 1e-3};
    ppl_costs costs = {.f = times, .i = times, .w = times};
    ppl_run_options o = test_options(&played);
    o.device = "emulated";
    o.costs = &costs;
    o.fail_rank = f->rank;
    o.fail_task = f->stalls ? -1 : 9;
    o.stall_task = f->stalls ? 9 : -1;
    o.stall_seconds = 0.5;
    test_trainer t = {.graph = test_gpt(played.dtype, TRAINER_SAMPLES / played.microbatches, 0)};
    t.schedule = schedule_make(played.order, played.ranks, played.microbatches, 1);
    const char *path = test_text();
    WANT(ppl_data_text(&path, 1, GPT_CONTEXT, 0.1, 0, 11, &t.data) == PPL_OK);
    WANT(ppl_run_open(&o, t.graph, t.schedule, t.data, &t.run) == PPL_OK);
    int64_t done = 0;
    ppl_status st = t.run ? ppl_run_steps(t.run, 3, &done) : PPL_OK;
    WANT(st == (f->stalls ? PPL_ERR_STALL : PPL_ERR_DEVICE) && strstr(ppl_error(), f->words));
    test_trainer_close(&t);
}

static void test_faults(void **state) {
    (void)state;
    played = usual;
    static const fault faults[] = {{3, false, "rank 3, step 0, 3"},
                                   {0, false, "rank 0, step 0, 0"},
                                   {1, true, "want one within 0.5 s: rank 1 at step 0, "},
                                   {2, true, "want one within 0.5 s: rank 2 at step 0, "}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int32_t processes = 2; processes <= 4; processes += 2) {
            memset(wrong, 0, sizeof wrong);
            test_net_run(processes, fault_main, (void *)&faults[i]);
            for (int32_t p = 0; p < processes; p++)
                if (wrong[p][0]) fail_msg("process %d of %d, fault %zu: %s", p, processes, i, wrong[p]);
        }
}

static void differ_main(void *self, int32_t process) {
    (void)self;
    test_trainer t;
    test_case c = played;
    char words[64] = "process 1 differs from process 0 in its plan";
    int64_t done;
    if (process == 1) c.dropout = 0.2;
    WANT(test_trainer_open(&c, &t) == PPL_ERR_ARG && strstr(ppl_error(), words));
    c = played;
    WANT(test_trainer_open(&c, &t) == PPL_OK);
    if (!t.run) return;
    WANT(ppl_run_steps(t.run, process == 1 ? 2 : 1, &done) == PPL_ERR_ARG);
    WANT(strstr(ppl_error(), "process 1 differs from process 0 in how many steps"));
    WANT(ppl_run_steps(t.run, 1, &done) == PPL_OK && done == 1); // nothing is broken
    ppl_status st = process == 1 ? ppl_run_save(t.run, "/nowhere/x", 1) : ppl_run_steps(t.run, 1, &done);
    WANT(st == PPL_ERR_ARG && strstr(ppl_error(), "process 1 comes to \"save\" while process 0 comes to \"steps\""));
    WANT(ppl_run_save(t.run, "/nowhere/x", 1) == PPL_ERR_IO);
    test_trainer_close(&t);
}

static void many_main(void *self, int32_t process) {
    (void)self;
    test_trainer t;
    WANT(test_trainer_open(&played, &t) == PPL_ERR_ARG);
    WANT(strstr(ppl_error(), "run: 3 processes and 2 ranks: a process holds one rank at least"));
}

static void test_misuse(void **state) {
    (void)state;
    played = usual;
    play(3, differ_main);
    played.ranks = 2;
    play(3, many_main);
}

int main(void) {
    test_text(); // made here, not by several threads at once
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules), cmocka_unit_test(test_bf16),       cmocka_unit_test(test_clip),
        cmocka_unit_test(test_delays),    cmocka_unit_test(test_async),      cmocka_unit_test(test_between),
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_interrupts), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
