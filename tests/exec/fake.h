// fake.h - a client that counts what the executor tells it, and a run of a chain of stages on the emulated device, for
// tests of everything but values.
#ifndef PPL_TESTS_EXEC_FAKE_H
#define PPL_TESTS_EXEC_FAKE_H
#include "exec/exec.h"
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

enum { FAKE_STEPS = 64, FAKE_MICROBATCHES = 64, FAKE_RANKS = 64 };

typedef struct fake {
    atomic_int fills, weights;
    atomic_int loss[FAKE_STEPS][FAKE_MICROBATCHES]; // how often told, by step % FAKE_STEPS
    atomic_int norm[FAKE_STEPS];
    atomic_llong done[FAKE_RANKS];  // steps ended
    atomic_int order_broken;        // a rank whose steps did not end one after the other
    atomic_int peak[FAKE_RANKS];    // the largest told
    atomic_llong bytes[FAKE_RANKS]; // of all steps
} fake;

static inline ppl_status fake_fill(void *self, int64_t step, int32_t microbatch, ppl_value input, void *dst) {
    (void)step, (void)microbatch, (void)input, (void)dst;
    atomic_fetch_add(&((fake *)self)->fills, 1);
    return PPL_OK;
}
static inline double fake_weight(void *self, int64_t step) {
    (void)step;
    atomic_fetch_add(&((fake *)self)->weights, 1);
    return 1;
}
static inline void fake_loss(void *self, int64_t step, int32_t microbatch, double sum) {
    atomic_fetch_add(&((fake *)self)->loss[step % FAKE_STEPS][microbatch], sum == 0 ? 1 : 1000);
}
static inline void fake_norm(void *self, int64_t step, double norm, bool clipped) {
    atomic_fetch_add(&((fake *)self)->norm[step % FAKE_STEPS], norm == 0 && !clipped ? 1 : 1000);
}
static inline void fake_done(void *self, int32_t rank, int64_t step, int32_t peak_live, int64_t link_bytes) {
    fake *f = self;
    if (atomic_fetch_add(&f->done[rank], 1) != step) atomic_store(&f->order_broken, 1);
    if (peak_live > atomic_load(&f->peak[rank])) atomic_store(&f->peak[rank], peak_live);
    atomic_fetch_add(&f->bytes[rank], link_bytes);
}

static inline ppl_exec_client fake_client(fake *f, int32_t clip) {
    memset(f, 0, sizeof *f);
    return (ppl_exec_client){.self = f,
                             .fill = fake_fill,
                             .step_weight = fake_weight,
                             .loss = fake_loss,
                             .norm = fake_norm,
                             .rank_done = fake_done,
                             .optimizer = {.kind = PPL_SGD, .lr = 0.1, .clip = clip, .clip_norm = 1}};
}

static inline ppl_exec_options fake_options(const ppl_plan *eval) {
    return (ppl_exec_options){.device = &ppl_device_emulated,
                              .device_options = {.threads = 1},
                              .link = &ppl_link_local,
                              .eval_plan = eval,
                              .stall_seconds = 30,
                              .samples_per_microbatch = 1,
                              .trace_steps = 2,
                              .fail_task = -1,
                              .stall_task = -1};
}

typedef struct chain { // a schedule over stages in a chain, with its plans
    ppl_schedule *schedule;
    ppl_stages *stages;
    ppl_plan *plan, *eval;
} chain;

static inline chain chain_of(ppl_schedule *schedule, bool copies, bool validate) {
    chain c = {.schedule = schedule};
    OK(ppl_stages_chain(schedule->stages, &c.stages));
    OK(ppl_plan_build(schedule, c.stages, &(ppl_plan_options){.copy_links = copies, .validate = validate}, &c.plan));
    OK(ppl_plan_build(schedule, c.stages, &(ppl_plan_options){.copy_links = copies, .forward_only = true}, &c.eval));
    return c;
}

static inline void chain_close(chain *c) {
    ppl_plan_close(c->eval);
    ppl_plan_close(c->plan);
    ppl_stages_free(c->stages);
    ppl_schedule_close(c->schedule);
}

#endif
