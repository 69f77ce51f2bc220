// trainer.h - a whole training run in one struct, for tests: the small GPT over a file of made-up text.
#ifndef PPL_TESTS_SUPPORT_TRAINER_H
#define PPL_TESTS_SUPPORT_TRAINER_H
#include "support/gpt.h"
#include "support/schedules.h"

enum { TRAINER_SAMPLES = 16, TRAINER_STEPS = 6 };

typedef struct test_case {
    const char *device; // NULL: "cpu"
    int32_t dtype;
    order order;
    int32_t ranks, chunks, microbatches; // of the schedule; chunks 0: one, two in a V
    int32_t clip;
    double clip_norm;
    int32_t optimizer;                    // ppl_optimizer, SGD with momentum
    int32_t copy_links, threads, samples; // samples of a step; 0: TRAINER_SAMPLES
    uint64_t delay_seed;
    double stall_seconds; // 0: 60
    double dropout, lr;   // lr 0: 0.01 with a warm-up, a decay and weight decay
    bool recompute;       // the blocks' values are computed again
    bool untied;          // no parameter is on two stages
    int32_t weights;      // ppl_weights of the schedule
    ppl_data *data;       // NULL: the text
} test_case;

typedef struct test_trainer {
    ppl_graph *graph;
    ppl_schedule *schedule;
    ppl_data *data; // its own; NULL when the case gave one
    ppl_run *run;
} test_trainer;

typedef struct test_outcome {
    double loss[TRAINER_STEPS], norm[TRAINER_STEPS];
    int32_t steps, clipped;
    double *weights; // of all parameters, one after the other
    int64_t n;
} test_outcome;

// A text of 6000 bytes, made at the first call in a directory that is removed at exit.
const char *test_text(void);
ppl_data *test_text_data(int32_t part); // a tenth is held out
int32_t test_stages(const test_case *c);
int32_t test_samples(const test_case *c); // of a step
const char *test_case_print(const test_case *c, char text[192]);
ppl_run_options test_options(const test_case *c); // first_layer is valid until the next call
ppl_status test_trainer_open(const test_case *c, test_trainer *out);
void test_trainer_close(test_trainer *t);
// Does n steps in all, `at_once` of them in a call, and reads losses, norms and weights.
ppl_status test_trainer_run(test_trainer *t, int32_t n, int32_t at_once, test_outcome *out);
// Opens, runs TRAINER_STEPS, closes; fails the test where it cannot.
void test_train(const test_case *c, test_outcome *out);
void test_outcome_clear(test_outcome *o);
// NULL when equal bit by bit, else what differs first.
const char *test_outcome_differ(const test_outcome *a, const test_outcome *b);

// Four stages of f32 in 1F1B, 8 microbatches, AdamW, dropout, clip before.
extern const test_case test_usual;
// The same, each failing the test where it cannot.
void test_open(const test_case *c, test_trainer *t);
void test_steps(test_trainer *t, int64_t n);
int32_t test_param(const ppl_run *r, const char *name, ppl_param_info *info);
// That a call failed with this status and with these words in its text.
void test_refused(ppl_status st, ppl_status want, const char *words);
// That `after` further steps have the outcome of a run that does before + after of them in one go.
void test_goes_on(test_trainer *t, const test_case *c, int32_t before, int32_t after);

#endif
