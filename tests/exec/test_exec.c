// test_exec.c - the task loop over chains of stages on the emulated device: every order of work, shared and copying links,
// delays, faults and stalls at every place, interrupts, evaluation in between.
#include "exec/fake.h"
#include "sim/costs.h"
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static int threads_now(void) {
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    int n = -2; // . and ..
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

// A joined thread may be listed a moment longer, in `most` too.
static void assert_threads(int most) {
    for (int i = 0; i < 1000 && threads_now() > most; i++) ppl_wait_until(ppl_now() + 1000000, NULL);
    assert_in_range(threads_now(), 1, most);
}

static int64_t planned_bytes(const ppl_plan *p, int32_t rank) {
    int64_t bytes = 0;
    for (int64_t at = 0; at < p->rank[rank].count; at++) {
        const ppl_task *t = &p->rank[rank].tasks[at];
        for (int32_t i = 0; t->kind == PPL_TASK_SEND && i < p->edge[t->edge].n_readers; i++)
            if (p->edge[t->edge].reader_rank[i] != rank) bytes += (int64_t)p->stages->edges[t->edge].bytes;
    }
    return bytes;
}

static void assert_told(const chain *c, fake *f, int64_t steps) {
    const ppl_plan *p = c->plan;
    assert_int_equal(f->order_broken, 0);
    assert_int_equal(f->weights, steps * p->ranks);
    for (int64_t s = 0; s < steps; s++) {
        assert_int_equal(f->norm[s], 1);
        for (int32_t mb = 0; mb < p->microbatches; mb++) assert_int_equal(f->loss[s][mb], 1);
    }
    for (int32_t r = 0; r < p->ranks; r++) {
        assert_int_equal(f->done[r], steps);
        assert_int_equal(f->peak[r], p->rank[r].peak_live);
        assert_int_equal(f->bytes[r], steps * planned_bytes(p, r));
    }
}

// Tasks of a rank follow each other in time, and no value is seen before it was sent.
static void assert_traced(const chain *c, ppl_exec *e, int64_t step) {
    const ppl_plan *p = c->plan;
    const ppl_trace *t = ppl_exec_trace(e);
    for (int32_t r = 0; r < p->ranks; r++) {
        const ppl_span *s = ppl_trace_find(t, r, step);
        assert_non_null(s);
        for (int64_t at = 0; at < p->rank[r].count; at++) {
            const ppl_task *task = &p->rank[r].tasks[at];
            assert_true(s[at].begin > 0 && s[at].end >= s[at].begin);
            assert_true(at == 0 || s[at].begin >= s[at - 1].end);
            if (task->kind == PPL_TASK_B) assert_true(s[at].middle >= s[at].begin && s[at].middle <= s[at].end);
            if (task->kind != PPL_TASK_RECEIVE) continue;
            int32_t from = ppl_plan_edge_rank(p, task->edge);
            for (int64_t k = 0; k < p->rank[from].count; k++) {
                const ppl_task *send = &p->rank[from].tasks[k];
                if (send->kind == PPL_TASK_SEND && send->edge == task->edge && send->microbatch == task->microbatch)
                    assert_true(s[at].end >= ppl_trace_find(t, from, step)[k].begin);
            }
        }
    }
}

static void run_chain(ppl_schedule *schedule, bool copies, int32_t clip) {
    chain c = chain_of(schedule, copies, clip == PPL_CLIP_AFTER);
    fake f;
    ppl_exec_client client = fake_client(&f, clip);
    ppl_exec_options o = fake_options(c.eval);
    ppl_exec *e;
    int64_t done;
    OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
    OK(ppl_exec_steps(e, 0, 3, &done));
    assert_int_equal(done, 3);
    OK(ppl_exec_steps(e, 3, 1, &done));
    OK(ppl_exec_steps(e, 4, 0, &done));
    assert_int_equal(done, 0);
    assert_told(&c, &f, 4);
    assert_traced(&c, e, 3);
    assert_traced(&c, e, 2);
    ppl_exec_close(e);
    chain_close(&c);
}

static void test_orders(void **state) {
    (void)state;
    int n = 0;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t m = 1; m <= 6; m++) {
                if (o == ORDER_INTERLEAVED && m % p) continue;
                for (int copies = 0; copies < 2; copies++, n++) run_chain(schedule_make(o, p, m, 2), copies, n % 4);
            }
}

static void test_many_ranks(void **state) {
    (void)state;
    run_chain(schedule_make(ORDER_1F1B, 24, 30, 1), false, PPL_CLIP_BEFORE);
    run_chain(schedule_make(ORDER_1F1B, 16, 3, 1), true, PPL_CLIP_AFTER);
}

// Random delays before tasks and sends: whatever the interleaving, the run ends and everybody has been told once.
static void test_delays(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        int32_t p = 2 + (int32_t)(seed % 3), m = 1 + (int32_t)(seed % 5), o = seed % 2 ? ORDER_1F1B : ORDER_V;
        chain c = chain_of(schedule_make(o, p, m, 2), seed % 4 > 1, seed % 5 == 0);
        fake f;
        ppl_exec_client client = fake_client(&f, seed % 5 == 0 ? PPL_CLIP_AFTER : PPL_CLIP_BEFORE);
        ppl_exec_options opts = fake_options(NULL);
        opts.delay_seed = seed;
        opts.delay = 50e-6;
        ppl_exec *e;
        int64_t done;
        OK(ppl_exec_open(c.plan, NULL, &opts, &client, &e));
        OK(ppl_exec_steps(e, 0, 2, &done));
        assert_told(&c, &f, 2);
        ppl_exec_close(e);
        chain_close(&c);
    }
}

static void test_forward(void **state) {
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        chain c = chain_of(schedule_make(ORDER_INTERLEAVED, 3, 6, 2), copies, false);
        fake f;
        ppl_exec_client client = fake_client(&f, PPL_CLIP_NONE);
        ppl_exec_options o = fake_options(c.eval);
        ppl_exec *e;
        int64_t done;
        OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
        OK(ppl_exec_steps(e, 0, 2, &done));
        OK(ppl_exec_forward(e, 10, 9)); // many more than the window
        OK(ppl_exec_steps(e, 2, 2, &done));
        OK(ppl_exec_forward(e, 20, 1));
        for (int64_t s = 10; s < 19; s++)
            for (int32_t mb = 0; mb < 6; mb++) assert_int_equal(f.loss[s][mb], 1);
        assert_int_equal(f.norm[10], 0);
        assert_int_equal(f.done[0], 4); // evaluation ends no step
        assert_traced(&c, e, 3);
        ppl_exec_close(e);
        o.eval_plan = NULL;
        OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
        assert_int_equal(ppl_exec_forward(e, 0, 1), PPL_ERR_ARG);
        assert_int_equal(ppl_exec_steps(e, 0, -1, &done), PPL_ERR_ARG);
        ppl_exec_close(e);
        chain_close(&c);
    }
}

// A failing program at every place of every rank: the run ends with that fault, and no thread is left.
static void test_faults(void **state) {
    (void)state;
    enum { P = 3, M = 4, STEPS = 2, RUNS = STEPS * M * 3 }; // a B runs two programs
    chain c = chain_of(schedule_make(ORDER_1F1B, P, M, 1), false, false);
    int threads = threads_now();
    for (int32_t rank = 0; rank < P; rank++)
        for (int64_t at = 0; at <= RUNS; at++) {
            fake f;
            ppl_exec_client client = fake_client(&f, PPL_CLIP_BEFORE);
            ppl_exec_options o = fake_options(NULL);
            o.fail_rank = rank;
            o.fail_task = at;
            ppl_exec *e;
            int64_t done = -1;
            OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
            ppl_status st = ppl_exec_steps(e, 0, STEPS, &done);
            if (at == RUNS) { // beyond the last
                assert_int_equal(st, PPL_OK);
            } else {
                assert_int_equal(st, PPL_ERR_DEVICE);
                char words[64];
                snprintf(words, sizeof words, "rank %d, step %d, %d", rank, (int)(at / (RUNS / STEPS)), rank);
                assert_int_equal(strncmp(ppl_error(), words, strlen(words)), 0);
                assert_non_null(strstr(ppl_error(), "fails, as asked for"));
                assert_true(done >= 0 && done <= at / (RUNS / STEPS));
                ppl_fail(PPL_ERR_ARG, "something else");
                assert_int_equal(ppl_exec_steps(e, 0, 1, &done), PPL_ERR_DEVICE); // the handle is spent
                assert_non_null(strstr(ppl_error(), "fails, as asked for"));
            }
            ppl_exec_close(e);
            assert_threads(threads);
        }
    chain_close(&c);
}

static void test_stall(void **state) {
    (void)state;
    enum { P = 3, M = 4 };
    chain c = chain_of(schedule_make(ORDER_1F1B, P, M, 1), false, false);
    int threads = threads_now();
    for (int32_t rank = 0; rank < P; rank++)
        for (int64_t at = rank; at < 2 * M * 3; at += 7) {
            fake f;
            ppl_exec_client client = fake_client(&f, PPL_CLIP_BEFORE);
            ppl_exec_options o = fake_options(NULL);
            o.fail_rank = rank;
            o.stall_task = at;
            o.stall_seconds = 0.2;
            ppl_exec *e;
            int64_t done;
            OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
            assert_int_equal(ppl_exec_steps(e, 0, 2, &done), PPL_ERR_STALL);
            char words[128];
            snprintf(words, sizeof words,
                     "run: no rank has begun a task for 0.2 s, want one within 0.2 s: rank %d at step %d,", rank,
                     (int)(at / (M * 3)));
            if (strncmp(ppl_error(), words, strlen(words)) != 0) fail_msg("%s\nwant %s", ppl_error(), words);
            assert_non_null(strstr(ppl_error(), "waits for rank"));
            for (int32_t i = 0; i < P; i++) { // everyone is in the report
                snprintf(words, sizeof words, "rank %d at step", i);
                assert_non_null(strstr(ppl_error(), words));
            }
            ppl_exec_close(e);
            assert_threads(threads);
        }
    chain_close(&c);
}

// ---- interrupts ----

typedef struct runner {
    ppl_exec *exec;
    int64_t first, done;
    ppl_status status;
} runner;

static void *runner_main(void *arg) {
    runner *r = arg;
    r->status = ppl_exec_steps(r->exec, r->first, 1000000, &r->done);
    return NULL;
}

static void test_interrupt(void **state) {
    (void)state;
    for (int32_t clip = PPL_CLIP_NONE; clip <= PPL_CLIP_AFTER; clip++) {
        chain c = chain_of(schedule_make(ORDER_ZB_H1, 4, 6, 1), false, clip == PPL_CLIP_AFTER);
        fake f;
        ppl_exec_client client = fake_client(&f, clip);
        ppl_exec_options o = fake_options(c.eval);
        ppl_exec *e;
        OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
        int64_t total = 0, done;
        for (int i = 0; i < 8; i++) {
            runner r = {.exec = e, .first = total};
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, runner_main, &r), 0);
            ppl_wait_until(ppl_now() + (1 + i) * 1000000, NULL);
            ppl_exec_interrupt(e);
            pthread_join(thread, NULL);
            assert_int_equal(r.status, PPL_ERR_STOPPED);
            total += r.done;
            for (int32_t rank = 0; rank < 4; rank++) assert_int_equal(f.done[rank], total); // all after the same step
            OK(ppl_exec_forward(e, 0, 1));
            OK(ppl_exec_steps(e, total, 2, &done)); // and all may go on
            total += done;
        }
        assert_true(total > 16);
        assert_int_equal(f.order_broken, 0);
        ppl_exec_interrupt(e); // between calls: the next one begins nothing
        assert_int_equal(ppl_exec_steps(e, total, 2, &done), PPL_ERR_STOPPED);
        assert_int_equal(done, 0);
        OK(ppl_exec_steps(e, total, 1, &done));
        ppl_exec_close(e);
        chain_close(&c);
    }
}

// ---- time ----

// Programs take what the table says: a step of one rank lasts as long as its parts.
static void test_costs(void **state) {
    (void)state;
    const double part[] = {1e-3};
    ppl_costs costs = {.f = part, .i = part, .w = part, .update = 2e-3};
    chain c = chain_of(schedule_make(ORDER_GPIPE, 1, 4, 1), false, false);
    fake f;
    ppl_exec_client client = fake_client(&f, PPL_CLIP_BEFORE);
    ppl_exec_options o = fake_options(NULL);
    o.device_options.costs = &costs;
    ppl_exec *e;
    int64_t done;
    OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
    OK(ppl_exec_steps(e, 0, 2, &done));
    ppl_trace_rank stats;
    ppl_trace_rank_stats(ppl_exec_trace(e), 0, &stats);
    assert_true(stats.busy >= 14e-3 && stats.busy < 40e-3); // 4 (F + I + W) + U
    double median, p95;
    int64_t n;
    ppl_trace_stage_stats(ppl_exec_trace(e), 0, PPL_PHASES, &median, &p95, &n);
    assert_true(median >= 2e-3 && n == 2);
    ppl_exec_close(e);
    chain_close(&c);
}

// Every task of a run against what costs say it takes at least; a loaded machine may take longer.
static void assert_takes(const chain *c, const ppl_costs *costs, int64_t step, const ppl_event *e, int64_t count) {
    double transfer = costs->unit_bytes / costs->bandwidth;
    for (int64_t n = 0; n < count; n++) {
        double seconds = e[n].end - e[n].begin;
        if (e[n].kind == PPL_TASK_F || e[n].kind == PPL_TASK_I || e[n].kind == PPL_TASK_W) {
            int32_t phase = e[n].kind == PPL_TASK_F ? PPL_PHASE_F : e[n].kind == PPL_TASK_I ? PPL_PHASE_I : PPL_PHASE_W;
            double least = costs->f[0] * ppl_costs_program_jitter(costs, step, e[n].stage, phase, e[n].microbatch);
            assert_true(seconds >= least - 1e-6);
        }
        if (e[n].kind != PPL_TASK_RECEIVE) continue;
        int32_t sequence = c->plan->edge[e[n].edge].order[e[n].microbatch];
        double jitter = ppl_costs_message_jitter(costs, step, e[n].edge, 0, sequence);
        for (int64_t k = 0; k < count; k++)
            if (e[k].kind == PPL_TASK_SEND && e[k].edge == e[n].edge && e[k].microbatch == e[n].microbatch)
                assert_true(e[n].end >= e[k].begin + (costs->latency + transfer) * jitter - 1e-5);
    }
}

static void test_links(void **state) {
    (void)state;
    double part[FAKE_RANKS];
    for (int32_t i = 0; i < FAKE_RANKS; i++) part[i] = 2e-4;
    ppl_costs costs = {.f = part,
                       .i = part,
                       .w = part,
                       .latency = 3e-4,
                       .bandwidth = 1e6,
                       .unit_bytes = 200,
                       .jitter = 0.5,
                       .jitter_seed = 3};
    static const struct {
        int32_t order, p, m, clip;
    } cases[] = {{ORDER_ZB_H1, 4, 6, PPL_CLIP_BEFORE}, {ORDER_1F1B, 64, 8, PPL_CLIP_NONE}};
    for (size_t i = 0; i < 2; i++) {
        chain c = chain_of(schedule_make(cases[i].order, cases[i].p, cases[i].m, 1), false, false);
        fake f;
        ppl_exec_client client = fake_client(&f, cases[i].clip);
        ppl_exec_options o = fake_options(NULL);
        o.device_options.costs = &costs;
        ppl_exec *e;
        int64_t done, count;
        OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
        OK(ppl_exec_steps(e, 0, 2, &done));
        assert_told(&c, &f, 2);
        static ppl_event events[1 << 15];
        for (int64_t step = 0; step < 2; step++) {
            OK(ppl_trace_events(ppl_exec_trace(e), step, events, 1 << 15, &count));
            assert_takes(&c, &costs, step, events, count);
        }
        ppl_exec_close(e);
        chain_close(&c);
    }
}

// A rank that fails ends the waits for messages that would take forever.
static void test_links_stop(void **state) {
    (void)state;
    const double part[] = {1e-3, 1e-3};
    ppl_costs costs = {.f = part, .i = part, .w = part, .latency = 1e6};
    chain c = chain_of(schedule_make(ORDER_GPIPE, 2, 4, 1), false, false);
    fake f;
    ppl_exec_client client = fake_client(&f, PPL_CLIP_NONE);
    ppl_exec_options o = fake_options(NULL);
    o.device_options.costs = &costs;
    o.fail_rank = 0, o.fail_task = 2;
    ppl_exec *e;
    int64_t done;
    OK(ppl_exec_open(c.plan, NULL, &o, &client, &e));
    assert_int_equal(ppl_exec_steps(e, 0, 1, &done), PPL_ERR_DEVICE);
    assert_non_null(strstr(ppl_error(), "rank 0, stage 0, microbatch 2: program 2 of the rank fails, as asked for"));
    ppl_exec_close(e);
    chain_close(&c);
}

static void test_refusals(void **state) {
    (void)state;
    chain c = chain_of(schedule_make(ORDER_1F1B, 2, 2, 1), false, false);
    fake f;
    ppl_exec_client client = fake_client(&f, PPL_CLIP_AFTER);
    ppl_exec_options o = fake_options(NULL);
    ppl_exec *e;
    assert_int_equal(ppl_exec_open(c.plan, NULL, &o, &client, &e), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "exec: the plan lacks validate tasks, want them exactly when clip is after");
    client = fake_client(&f, PPL_CLIP_NONE);
    o = fake_options(c.plan);
    assert_int_equal(ppl_exec_open(c.plan, NULL, &o, &client, &e), PPL_ERR_ARG);
    ppl_exec_close(NULL);
    chain_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),     cmocka_unit_test(test_many_ranks), cmocka_unit_test(test_delays),
        cmocka_unit_test(test_forward),    cmocka_unit_test(test_faults),     cmocka_unit_test(test_stall),
        cmocka_unit_test(test_interrupt),  cmocka_unit_test(test_costs),      cmocka_unit_test(test_links),
        cmocka_unit_test(test_links_stop), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
