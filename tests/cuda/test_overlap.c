// test_overlap.c - actions that may overlap run on two streams: both are in flight at once, with the bits of one after the
// other, without a wait of the host or an allocation; pairs that need one another stay in order. PPL_TEST_FULL=1, as make
// cuda-test has it, runs all cases, else some.
#include "runs.h"
#include "device/cuda/cuda.h"
#include "train/run.h"
#include <stdatomic.h>
#include <unistd.h>

// ---- programs pass through here: ld --wrap ----

ppl_status __real_ppl_cuda_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run);
ppl_status __wrap_ppl_cuda_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run);

static atomic_int on_second, met;
static atomic_bool meets, came[2];

static void CUDART_CB meet(void *arg) {
    atomic_bool *own = arg, *other = own == &came[0] ? &came[1] : &came[0];
    atomic_store(own, true);
    for (int32_t i = 0; i < 10000 && !atomic_load(other); i++) usleep(500);
    if (atomic_load(other)) atomic_fetch_add(&met, 1);
}

// Asked to, the first program of stage 0's backward of microbatch 1 and the forward of microbatch 3 wait for one another on
// the device.
static bool is_met(const ppl_program_run *run, int32_t *which) {
    *which = run->stream;
    if (!atomic_load(&meets) || run->stage != 0) return false;
    return run->kind == PPL_PHASE_F ? run->microbatch == 3 : run->kind == PPL_PHASE_I && run->microbatch == 1;
}

ppl_status __wrap_ppl_cuda_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run) {
    int32_t which;
    if (run->stream) atomic_fetch_add(&on_second, 1);
    if (is_met(run, &which)) cudaLaunchHostFunc(((ppl_cuda_device *)self)->stream[run->stream], meet, &came[which]);
    return __real_ppl_cuda_program_run(self, program, run);
}

// ---- runs ----

// Stage 0 and 1 on two ranks; with four stages in a V. Forwards first, backwards first, and pairs that need one another.
static const int32_t v[] = {0, 1, 1, 0};
static const char *const apart[] = {"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"};
static const char *const pairs[] = {"0F0 0F1 (0F2;0B0) (0F3;0B1) 0B2 0B3", "1F0 (1F1;1B0) (1F2;1B1) (1F3;1B2) 1B3"};
static const char *const split[] = {"0F0 0F1 0F2 (0F3;0I0) 0W0 0I1 0W1 0B2 0B3",
                                    "1F0 (1F1;1I0) 1W0 (1F2;1B1) (1F3;1B2) 1B3"};
static const char *const behind[] = {"0F0 0F1 0F2 (0B0;0F3) 0B1 0B2 0B3", "1F0 (1B0;1F1) (1B1;1F2) 1B2 (1F3;1B3)"};
static const char *const vee[] = {"0F0 0F1 3F0 (3B0;0F2) (3F1;0B0) (0F3;3B1) (3F2;0B1) 3B2 3F3 3B3 0B2 0B3",
                                  "1F0 2F0 1F1 2F1 (1F2;2B0) (2F2;1B0) (1F3;2B1) (2F3;1B1) 2B2 1B2 2B3 1B3"};

static ppl_status open_run(const char *const *rows, int32_t stages, int32_t dtype, int32_t copies, test_trainer *t) {
    test_case c = test_usual;
    int32_t cut[GPT_LAYERS];
    c.device = "cuda";
    c.dtype = dtype;
    c.ranks = 2;
    c.microbatches = c.samples = 4;
    c.copy_links = copies;
    ppl_run_options o = test_options(&c);
    for (int32_t s = 0; s < stages; s++) cut[s] = s * GPT_LAYERS / stages;
    o.first_layer = cut;
    o.stages = stages;
    *t = (test_trainer){.graph = test_gpt(dtype, 1, 0.1), .data = test_text_data(0)};
    t->schedule = schedule_from(2, stages, stages == 4 ? v : NULL, 4, rows);
    return ppl_run_open(&o, t->graph, t->schedule, t->data, &t->run);
}

static void outcome_of(const char *const *rows, int32_t stages, int32_t dtype, int32_t copies, test_outcome *out) {
    test_trainer t;
    atomic_store(&on_second, 0);
    if (open_run(rows, stages, dtype, copies, &t) != PPL_OK || test_trainer_run(&t, STEPS, STEPS, out) != PPL_OK)
        fail_msg("%s | %s: %s", rows[0], rows[1], ppl_error());
    test_trainer_close(&t);
    assert_string_equal(emu_report(), "");
}

// programs: how many run on stream 1 in a step, of both ranks.
static void check(const char *const *rows, int32_t stages, int32_t dtype, int32_t programs, const test_outcome *want) {
    for (int32_t k = runs_full() ? 0 : stages == 4; k < (runs_full() ? 2 : 1 + (stages == 4));
         k++) { // links that copy, or not
        test_outcome is;
        runs_start(1, (uint64_t)(7 + k));
        outcome_of(rows, stages, dtype, k, &is);
        assert_int_equal(atomic_load(&on_second), STEPS * programs);
        const char *differ = test_outcome_differ(want, &is);
        if (differ) fail_msg("%s | %s, links %d: %s", rows[0], rows[1], k, differ);
        test_outcome_clear(&is);
    }
}

static void test_bits(void **state) {
    (void)state;
    test_outcome want;
    for (int32_t dtype = PPL_F32; dtype <= (runs_full() ? PPL_BF16 : PPL_F32); dtype++) {
        runs_start(1, 0);
        outcome_of(apart, 2, dtype, 0, &want);
        assert_int_equal(atomic_load(&on_second), 0);
        check(pairs, 2, dtype, 10, &want); // a B is two programs
        if (runs_full() && dtype == PPL_F32) check(split, 2, dtype, 6, &want);
        if (runs_full() && dtype == PPL_F32)
            check(behind, 2, dtype, 0, &want); // slots pass from one to the other; one microbatch
        check(vee, 4, dtype, 15, &want);
        test_outcome_clear(&want);
    }
}

// Each program of the pair waits on the device for the other's begin: one stream, or a wait between them, would never end.
static void test_at_once(void **state) {
    (void)state;
    static const char *const alone[] = {"0F0 0F1 0F2 0B0 (0F3;0B1) 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"};
    test_outcome out;
    setenv("PPL_EMU_WORKERS", "4", 1);
    runs_start(1, 0);
    atomic_store(&meets, true);
    atomic_store(&came[0], false);
    atomic_store(&came[1], false);
    atomic_store(&met, 0);
    test_trainer t;
    if (open_run(alone, 2, PPL_F32, 0, &t) != PPL_OK || test_trainer_run(&t, 1, 1, &out) != PPL_OK)
        fail_msg("%s", ppl_error());
    test_trainer_close(&t);
    test_outcome_clear(&out);
    atomic_store(&meets, false);
    assert_int_equal(atomic_load(&met), 2);
    unsetenv("PPL_EMU_WORKERS");
    runs_start(1, 0);
}

// No allocation, no wait; memory is what the plan says; the other stream's times are its own, and a rank is busy once.
static void test_counts(void **state) {
    (void)state;
    test_trainer t;
    runs_start(1, 0);
    if (open_run(pairs, 2, PPL_F32, 0, &t) != PPL_OK) fail_msg("%s", ppl_error());
    test_steps(&t, 1);
    runs_steps_alone(&t, STEPS);
    const ppl_plan *p = ppl_run_plan(t.run);
    for (int32_t r = 0; r < 2; r++) {
        ppl_rank_stats stats;
        assert_int_equal(ppl_run_rank_stats(t.run, r, &stats), PPL_OK);
        assert_int_equal(p->rank[r].streams, 2);
        assert_int_equal(ppl_plan_memory(p, r, PPL_MEM_WORKSPACE), 2 * (int64_t)p->rank[r].work_bytes);
        assert_true(stats.memory[PPL_MEM_WORKSPACE] >= 2 * (int64_t)p->rank[r].work_bytes);
        assert_true(stats.span_idle > -1e-6);
        assert_true(stats.busy > 0 && stats.wait >= 0);
    }
    test_trainer_close(&t);
    assert_int_equal(emu_still_open().events, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
