// test_train.c - ranks train on the cuda device over the emulation, through the executor: within a tolerance of the cpu
// device, with the same bits whatever the stages and the schedule; a step neither allocates nor makes the host wait; faults
// end in their words with all threads gone. PPL_TEST_FULL=1, as make cuda-test has it, runs all cases, else some: schedules.sh
// has others.
#include "runs.h"
#include "support/llama.h"
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

// Ranks share the one GPU.
static void start(void) {
    runs_start(1, 0);
}

static void near(const test_outcome *is, const test_outcome *want, double tolerance) {
    for (int32_t i = 0; i < STEPS; i++) {
        if (!(fabs(is->loss[i] - want->loss[i]) <= tolerance * want->loss[i]))
            fail_msg("step %d: the loss is %.9g, want %.9g", i, is->loss[i], want->loss[i]);
        if (!(fabs(is->norm[i] - want->norm[i]) <= 10 * tolerance * want->norm[i]))
            fail_msg("step %d: the norm is %.9g, want %.9g", i, is->norm[i], want->norm[i]);
    }
}

static void near_cpu(const test_case *c, const test_outcome *is, double tolerance) {
    test_outcome want;
    test_case cpu = *c;
    cpu.device = "cpu";
    runs_outcome(&cpu, &want);
    near(is, &want, tolerance);
    test_outcome_clear(&want);
}

static const struct {
    order order;
    int32_t ranks, chunks;
} layouts[] = {{ORDER_1F1B, 2, 1},  {ORDER_1F1B, 4, 1},        {ORDER_NAIVE, 4, 1},
               {ORDER_GPIPE, 4, 1}, {ORDER_INTERLEAVED, 2, 2}, {ORDER_ZB_H1, 4, 1}};

// every: of the layouts one in so many.
static void check_dtype(int32_t dtype, double tolerance, size_t every) {
    test_case one = runs_case(dtype, ORDER_1F1B, 1, 1);
    test_outcome want;
    start();
    runs_outcome(&one, &want);
    near_cpu(&one, &want, tolerance);
    for (size_t i = every - 1; i < sizeof layouts / sizeof *layouts; i += every) {
        start();
        emu_set_seed(i + 1); // streams and blocks in a random order
        test_case c = runs_case(dtype, layouts[i].order, layouts[i].ranks, layouts[i].chunks);
        runs_same_bits(&c, &want);
    }
    test_outcome_clear(&want);
}

static void test_f32(void **state) {
    (void)state;
    check_dtype(PPL_F32, 1e-4, runs_full() ? 1 : 3);
}

static void test_bf16(void **state) {
    (void)state;
    check_dtype(PPL_BF16, 2e-2, 6);
}

static ppl_data *llama_data(void) {
    static const char *const names[] = {"tokens", "targets"};
    static const ppl_type types[] = {{PPL_I32, 1, {LLAMA_CONTEXT}}, {PPL_I32, 1, {LLAMA_CONTEXT}}};
    enum { TOKENS = 4 * LLAMA_CONTEXT };
    int32_t tokens[TOKENS], targets[TOKENS];
    ppl_data *queue = NULL;
    assert_int_equal(ppl_data_queue(2, names, types, STEPS, &queue), PPL_OK);
    for (int32_t step = 0; step < STEPS; step++) {
        for (int32_t i = 0; i < TOKENS; i++) {
            tokens[i] = (step * 7 + i * i) % LLAMA_VOCABULARY;
            targets[i] = (tokens[i] + 1) % LLAMA_VOCABULARY;
        }
        assert_int_equal(ppl_data_push(queue, 4, (const void *const[]){tokens, targets}), PPL_OK);
    }
    return queue;
}

static void llama_outcome(const char *device, order o, int32_t ranks, test_outcome *out) {
    test_case c = runs_case(PPL_F32, o, ranks, 1);
    c.device = device;
    ppl_run_options options = test_options(&c);
    int32_t cut[] = {0, ranks == 2 ? 2 : 1, 2, 3}; // embed, two blocks, head
    options.first_layer = cut;
    test_trainer t = {.graph = test_llama(PPL_F32, 1), .schedule = schedule_make(o, ranks, 4, 1), .data = llama_data()};
    if (ppl_run_open(&options, t.graph, t.schedule, t.data, &t.run) != PPL_OK ||
        test_trainer_run(&t, STEPS, STEPS, out) != PPL_OK)
        fail_msg("llama on %d ranks of %s: %s", ranks, device, ppl_error());
    test_trainer_close(&t);
}

static void test_llama_f32(void **state) {
    (void)state;
    static const order orders[] = {ORDER_1F1B, ORDER_ZB_H1, ORDER_GPIPE};
    test_outcome want, is;
    start();
    llama_outcome("cuda", ORDER_1F1B, 1, &want);
    llama_outcome("cpu", ORDER_1F1B, 1, &is);
    near(&want, &is, 1e-4);
    test_outcome_clear(&is);
    for (int32_t i = 0; i < (runs_full() ? 3 : 1); i++) {
        llama_outcome("cuda", orders[i], i == 0 ? 2 : 4, &is);
        const char *differ = test_outcome_differ(&want, &is);
        if (differ) fail_msg("llama, %s: %s", order_name[orders[i]], differ);
        test_outcome_clear(&is);
    }
    test_outcome_clear(&want);
}

// Each way of clipping, with norms that ask for it; buffers that are copied; delays.
static void test_clips(void **state) {
    (void)state;
    static const int32_t clips[] = {PPL_CLIP_NONE, PPL_CLIP_BEFORE, PPL_CLIP_AFTER};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        test_outcome want;
        start();
        test_case c = runs_case(PPL_F32, ORDER_1F1B, 1, 1);
        c.clip = clips[i];
        c.clip_norm = 0.5;
        runs_outcome(&c, &want);
        if (clips[i] != PPL_CLIP_NONE) assert_true(want.clipped > 0);
        c.ranks = 4;
        runs_same_bits(&c, &want);
        c.delay_seed = 5;
        c.copy_links = 1;
        runs_same_bits(&c, &want);
        test_outcome_clear(&want);
    }
}

// Steps after the first allocate nothing and never make the host wait.
static void test_counts(void **state) {
    (void)state;
    start();
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 4, 1);
    test_trainer t;
    test_open(&c, &t);
    runs_steps_alone(&t, 4);
    test_trainer_close(&t);
    runs_nothing_left();
}

// Spans are of the device: in order on each rank, a value's receive ends after its send began, a busy time above none.
static void test_times(void **state) {
    (void)state;
    start();
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 2, 1);
    test_trainer t;
    test_open(&c, &t);
    test_steps(&t, STEPS);
    enum { MOST = 4096 };
    static ppl_event events[MOST];
    int64_t count = 0;
    assert_int_equal(ppl_run_events(t.run, STEPS - 1, events, MOST, &count), PPL_OK);
    assert_in_range(count, 20, MOST);
    double last[2] = {0, 0}, busy = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(events[i].end >= events[i].begin);
        assert_true(events[i].begin >= last[events[i].rank] - 1e-6);
        last[events[i].rank] = events[i].end;
        if (events[i].kind == PPL_TASK_F) busy += events[i].end - events[i].begin;
    }
    assert_true(busy > 0);
    test_trainer_close(&t);
}

// Weights and moments come back from the device, and go there again.
static void test_weights(void **state) {
    (void)state;
    start();
    test_case c = runs_case(PPL_BF16, ORDER_ZB_H1, 2, 1);
    test_trainer t;
    test_open(&c, &t);
    test_steps(&t, 1);
    char path[] = "/tmp/ppl_cuda_XXXXXX";
    assert_true(mkstemp(path) >= 0);
    assert_int_equal(ppl_run_save(t.run, path, 1), PPL_OK);
    test_steps(&t, 1);
    assert_int_equal(ppl_run_load(t.run, path), PPL_OK);
    remove(path);
    test_goes_on(&t, &c, 1, 1);
    double sum = 0;
    assert_int_equal(ppl_run_norm(t.run, 0, PPL_PART_GRADIENT, &sum), PPL_OK);
    assert_true(sum > 0);
    ppl_data *data = test_text_data(0);
    double loss = 0;
    assert_int_equal(ppl_run_evaluate(t.run, data, 1, &loss), PPL_OK);
    assert_true(loss > 0 && loss < 10);
    test_trainer_close(&t);
    ppl_data_close(data);
}

static void test_faults(void **state) {
    (void)state;
    runs_fault(1, EMU_FAULT_REFUSED, 50, "too many resources requested for launch");
    runs_fault(1, EMU_FAULT_LAUNCH, 90, "unspecified launch failure");
    runs_fault(1, EMU_FAULT_MATMUL, 20, "rank ");
}

static void CUDART_CB hold(void *flag) {
    while (!atomic_load((atomic_bool *)flag)) usleep(1000);
}

// A device that stands still: the run says so, and its threads end as soon as the device goes on.
static void test_stall(void **state) {
    (void)state;
    setenv("PPL_EMU_WORKERS", "1", 1);
    start();
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 2, 1);
    test_trainer t;
    int64_t done;
    int before = runs_threads();
    static atomic_bool flag;
    cudaStream_t stream;
    c.stall_seconds = 2;
    test_open(&c, &t);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaLaunchHostFunc(stream, hold, &flag), cudaSuccess);
    test_refused(ppl_run_steps(t.run, 2, &done), PPL_ERR_STALL, "whose device is at step 0, ");
    atomic_store(&flag, true);
    test_trainer_close(&t);
    cudaStreamDestroy(stream);
    assert_in_range(runs_threads(), 1, before + 1); // the emulation's worker stays
    unsetenv("PPL_EMU_WORKERS");
    start();
}

// The plan is held against the memory before anything is taken.
static void test_room(void **state) {
    (void)state;
    start();
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 4, 1);
    test_trainer t;
    emu_set_memory(((size_t)4 * 96 << 20) + (1 << 16)); // workspaces, tables, and little else
    test_refused(test_trainer_open(&c, &t), PPL_ERR_MEMORY, "MiB are free, want smaller microbatches");
    assert_non_null(strstr(ppl_error(), "the 4 ranks on it"));
    start();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),     cmocka_unit_test(test_bf16),   cmocka_unit_test(test_llama_f32),
        cmocka_unit_test(test_clips),   cmocka_unit_test(test_counts), cmocka_unit_test(test_times),
        cmocka_unit_test(test_weights), cmocka_unit_test(test_faults), cmocka_unit_test(test_stall),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
