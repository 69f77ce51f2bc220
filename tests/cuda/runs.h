// runs.h - what tests of training on the emulated GPUs share: a small case, its outcome with nothing found wrong and nothing
// left open, the same bits, steps that neither allocate nor wait, a fault that ends in its words with all threads gone.
#ifndef PPL_TESTS_CUDA_RUNS_H
#define PPL_TESTS_CUDA_RUNS_H
#include "emulation/emulation.h"
#include "support/trainer.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 3 };

// make cuda-test has PPL_TEST_FULL=1: all cases, else some.
static inline bool runs_full(void) {
    return getenv("PPL_TEST_FULL") != NULL;
}

// So many GPUs; streams and blocks in a random order with a seed.
static inline void runs_start(int gpus, uint64_t seed) {
    emu_reset();
    emu_set_devices(gpus);
    emu_set_seed(seed);
}

static inline test_case runs_case(int32_t dtype, order o, int32_t ranks, int32_t chunks) {
    test_case c = test_usual;
    c.device = "cuda";
    c.dtype = dtype;
    c.order = o;
    c.ranks = ranks;
    c.chunks = chunks;
    c.microbatches = 4;
    c.samples = 4;
    return c;
}

static inline void runs_nothing_left(void) {
    emu_open open = emu_still_open();
    assert_string_equal(emu_report(), "");
    assert_int_equal(open.communicators, 0);
    assert_int_equal(open.allocations, 0);
    assert_int_equal(open.streams, 0);
    assert_int_equal(open.events, 0);
}

static inline void runs_outcome(const test_case *c, test_outcome *out) {
    test_trainer t;
    char text[192];
    if (test_trainer_open(c, &t) != PPL_OK || test_trainer_run(&t, STEPS, STEPS, out) != PPL_OK)
        fail_msg("%s: %s", test_case_print(c, text), ppl_error());
    test_trainer_close(&t);
    runs_nothing_left();
}

static inline void runs_same_bits(const test_case *c, const test_outcome *want) {
    test_outcome is;
    char text[192];
    runs_outcome(c, &is);
    const char *differ = test_outcome_differ(want, &is);
    if (differ) fail_msg("%s: %s", test_case_print(c, text), differ);
    test_outcome_clear(&is);
}

// Does n steps of a run that is open, which allocate nothing and never make the host wait.
static inline emu_counts runs_steps_alone(test_trainer *t, int64_t n) {
    emu_count_from_here();
    test_steps(t, n);
    emu_counts is = emu_counted();
    assert_int_equal(is.mallocs, 0);
    assert_int_equal(is.frees, 0);
    assert_int_equal(is.host_waits, 0);
    assert_int_equal(is.null_stream, 0);
    assert_true(is.launches > 100);
    return is;
}

static inline int runs_threads(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// Four ranks on so many GPUs; the fault is planted once all is open.
static inline void runs_fault(int gpus, emu_fault what, uint64_t nth, const char *words) {
    runs_start(gpus, 0);
    test_case c = runs_case(PPL_F32, ORDER_1F1B, 4, 1);
    test_trainer t;
    int64_t done;
    test_open(&c, &t);
    int with = runs_threads();
    emu_fail(what, nth);
    test_refused(ppl_run_steps(t.run, STEPS, &done), PPL_ERR_DEVICE, words);
    test_trainer_close(&t);
    assert_true(runs_threads() <= with - 4);
    assert_int_equal(emu_still_open().communicators, 0);
}

#endif
