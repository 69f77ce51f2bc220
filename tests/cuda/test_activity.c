// test_activity.c - how busy GPUs are, by counters that the made-up libnvml.so beside this program has: figures, which work
// they are of, why there are none; and a run's figures by rank.
#include "device/activity.h"
#include "emulation/emulation.h"
#include "support/trainer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

// The engine's clock: the machine's, or while a test sets it, that.
static atomic_llong set_ns;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    int64_t ns = atomic_load(&set_ns);
    if (!ns) return __real_clock_gettime(clock, t);
    *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

static const char *const settings[] = {"PPL_EMU_MIG", "PPL_EMU_GPM", "PPL_EMU_SAMPLE", "PPL_EMU_METRICS",
                                       "PPL_EMU_HOLE"};

static int start(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) unsetenv(settings[i]);
    atomic_store(&set_ns, 1000000000);
    emu_reset();
    emu_set_devices(2);
    return 0;
}

static int end(void **state) {
    (void)state;
    atomic_store(&set_ns, 0);
    return 0;
}

static void pass(int64_t ms) {
    atomic_fetch_add(&set_ns, ms * 1000000);
}

static void work(ppl_activity *a, int64_t ms) {
    ppl_activity_begin(a);
    pass(ms);
    ppl_activity_end(a);
}

static ppl_activity *opened(int32_t gpu) {
    ppl_activity *a = NULL;
    if (ppl_activity_open(gpu, &a) != PPL_OK) fail_msg("%s", ppl_error());
    return a;
}

static ppl_gpu_activity told(const ppl_activity *a) {
    ppl_gpu_activity is;
    ppl_activity_read(a, &is);
    return is;
}

static void is_about(double is, double want) {
    if (!(fabs(is - want) < 1e-9)) fail_msg("%.12g, want %.12g", is, want);
}

static void test_figures(void **state) {
    (void)state;
    ppl_activity *a = opened(1), *b = opened(0);
    work(a, 250);
    ppl_gpu_activity is = told(a);
    is_about(is.sm, 0.42); // of the GPU on bus 2
    is_about(is.occupancy, 0.22);
    is_about(is.tensor, 0.32);
    is_about(is.memory, 0.12);
    is_about(is.seconds, 0.25);
    assert_int_equal(is.gpu, 1);
    assert_string_equal(is.reason, "");
    setenv("PPL_EMU_HOLE", "10", 1);
    work(b, 200);
    is = told(b);
    is_about(is.sm, 0.41);
    assert_true(isnan(is.memory));
    ppl_activity_close(a);
    ppl_activity_close(b);
    ppl_activity_begin(NULL);
    ppl_activity_end(NULL);
    ppl_activity_close(NULL);
}

// Which work the figures are of.
static void test_spans(void **state) {
    (void)state;
    ppl_activity *a = opened(0);
    assert_true(told(a).seconds == 0);
    assert_non_null(strstr(told(a).reason, "not known yet"));
    ppl_activity_end(a); // nothing has begun
    work(a, 60);
    assert_true(told(a).seconds == 0);
    pass(6);
    work(a, 60); // at once after it: both
    is_about(told(a).seconds, 0.126);
    work(a, 60);
    pass(7);
    work(a, 60); // too late
    is_about(told(a).seconds, 0.126);
    pass(1000);
    work(a, 300);
    is_about(told(a).seconds, 0.3);
    work(a, 100); // just too short
    is_about(told(a).seconds, 0.3);
    ppl_activity_close(a);
}

static void cannot(const char *setting, const char *value, const char *words) {
    ppl_activity *a = NULL;
    start(NULL);
    setenv(setting, value, 1);
    test_refused(ppl_activity_open(1, &a), PPL_ERR_DEVICE, words);
    test_refused(ppl_gpu_activity_check(1), PPL_ERR_DEVICE, "GPU 1: its activity cannot be read: ");
}

static void test_unreadable(void **state) {
    (void)state;
    cannot("PPL_EMU_GPM", "0", "want a GPU for servers of compute capability 9.0 (Hopper) or later");
    cannot("PPL_EMU_GPM", "-3", "compute capability 9.0");
    cannot("PPL_EMU_GPM", "-2", "nvmlGpmQueryDeviceSupport: Some Error (NVML 2), want");
    cannot("PPL_EMU_MIG", "1", "it is divided (MIG), want a whole one");
    cannot("PPL_EMU_SAMPLE", "4", "nvmlGpmSampleGet: Insufficient Permissions (NVML 4), want the right to read");
    start(NULL);
    assert_int_equal(ppl_gpu_activity_check(0), PPL_OK);
    test_refused(ppl_gpu_activity_check(2), PPL_ERR_ARG, "GPU 2: there are 2, want 0..1");
    test_refused(ppl_gpu_activity_check(-1), PPL_ERR_ARG, "GPU -1: there are 2");
}

// Later readings fail: figures go, the reason is told, an error that is underway keeps its words; and they come back.
static void test_lost(void **state) {
    (void)state;
    static const struct {
        const char *setting, *words;
    } cases[] = {{"PPL_EMU_METRICS", "GPU 0: its activity cannot be read: nvmlGpmMetricsGet: Some Error (NVML 15)"},
                 {"PPL_EMU_SAMPLE", "nvmlGpmSampleGet: Some Error (NVML 15), want"}};
    ppl_activity *a = opened(0);
    ppl_fail(PPL_ERR_ARG, "words of another");
    for (size_t i = 0; i < 2; i++) {
        work(a, 200);
        is_about(told(a).seconds, 0.2);
        setenv(cases[i].setting, "15", 1);
        work(a, 300);
        assert_true(told(a).seconds == 0);
        if (!strstr(told(a).reason, cases[i].words)) fail_msg("%s", told(a).reason);
        unsetenv(cases[i].setting);
    }
    ppl_activity_begin(a);
    pass(200);
    setenv("PPL_EMU_SAMPLE", "15", 1); // the second alone
    ppl_activity_end(a);
    assert_true(told(a).seconds == 0);
    assert_string_equal(ppl_error(), "words of another");
    ppl_activity_close(a);
}

static test_case on(const char *device) {
    test_case c = test_usual;
    c.device = device;
    c.ranks = 4;
    c.microbatches = c.samples = 4;
    return c;
}

// By rank: ranks 0 and 2 are on GPU 0, the others on GPU 1. Steps are done until they have taken long enough.
static void test_run(void **state) {
    (void)state;
    ppl_gpu_activity is;
    test_case c = on("cuda");
    test_trainer t;
    atomic_store(&set_ns, 0);
    test_open(&c, &t);
    assert_int_equal(ppl_run_gpu_activity(t.run, 0, &is), PPL_OK);
    assert_true(is.seconds == 0 && is.gpu == 0);
    assert_non_null(strstr(is.reason, "not known yet"));
    for (is.seconds = 0; is.seconds == 0;) {
        test_steps(&t, 2);
        assert_int_equal(ppl_run_gpu_activity(t.run, 0, &is), PPL_OK);
    }
    for (int32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(ppl_run_gpu_activity(t.run, rank, &is), PPL_OK);
        assert_int_equal(is.gpu, rank % 2);
        is_about(is.sm, 0.41 + 0.01 * (rank % 2));
        assert_true(is.seconds > 0.1);
    }
    test_refused(ppl_run_gpu_activity(t.run, 4, &is), PPL_ERR_ARG, "rank 4, want 0 to 3");
    test_refused(ppl_run_gpu_activity(t.run, -1, &is), PPL_ERR_ARG, "rank -1");
    test_trainer_close(&t);
}

// Without counters a run goes as ever, and says why it has no figures; the cpu has none, and no reason.
static void test_run_without(void **state) {
    (void)state;
    ppl_gpu_activity is;
    test_case c = on("cuda"), cpu = on("cpu");
    test_trainer t;
    atomic_store(&set_ns, 0);
    setenv("PPL_EMU_GPM", "0", 1);
    test_open(&c, &t);
    test_steps(&t, 2);
    assert_int_equal(ppl_run_gpu_activity(t.run, 3, &is), PPL_OK);
    assert_true(is.seconds == 0 && is.gpu == 1);
    assert_non_null(strstr(is.reason, "GPU 1: its activity cannot be read"));
    test_trainer_close(&t);
    test_open(&cpu, &t);
    test_steps(&t, 2);
    assert_int_equal(ppl_run_gpu_activity(t.run, 0, &is), PPL_OK);
    assert_true(is.seconds == 0 && is.gpu == -1);
    assert_string_equal(is.reason, "");
    test_trainer_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_figures, start, end),
        cmocka_unit_test_setup_teardown(test_spans, start, end),
        cmocka_unit_test_setup_teardown(test_unreadable, start, end),
        cmocka_unit_test_setup_teardown(test_lost, start, end),
        cmocka_unit_test_setup_teardown(test_run, start, end),
        cmocka_unit_test_setup_teardown(test_run_without, start, end),
    };
    char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "/libnvml.so");
    char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (!slash) return 1;
    strcpy(slash, "/libnvml.so");
    setenv("PPL_NVML", path, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
