// sequential.h - asynchronous training as a plain program: one device, one microbatch after the other, every version of the
// weights kept. What pipelines of PipeDream and 2BW are held against, bit by bit.
#ifndef PPL_TESTS_SEQUENTIAL_H
#define PPL_TESTS_SEQUENTIAL_H
#include "support/interpret.h"
#include "support/trainer.h"

typedef struct sequential_param {
    int32_t stage;
    int64_t n;
    float **version; // all since the last restart, oldest first: masters
    int32_t versions;
    float *moment1, *moment2;
} sequential_param;

typedef struct sequential {
    const test_case *c;
    ppl_optimizer_options o;
    ppl_interpret t;
    ppl_data *data;
    sequential_param *param; // [graph's parameters]
    int32_t params;
    int64_t step, updates; // done
    int64_t stream;        // steps since the last restart
} sequential;

// Begins with a run's present weights, its graph and its stages, at step 0 and with the optimizer's state zero.
void sequential_open(sequential *s, const test_case *c, const test_trainer *from);
void sequential_close(sequential *s);
// All versions are the newest: where a run is loaded or changes its schedule. c: the case from here on.
void sequential_restart(sequential *s, const test_case *c);
// n steps handed over at once.
void sequential_call(sequential *s, int32_t n, double *losses, double *norms);
// What differs from the run's weights; NULL nothing.
const char *sequential_differ(const sequential *s, const ppl_run *run);
// n steps in one call on both sides, then their records and weights side by side: the test fails where they differ.
void sequential_both(sequential *s, test_trainer *t, const test_case *c, int32_t n);
const char *sequential_name(const test_case *c); // until the next call

#endif
