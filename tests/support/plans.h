// plans.h - a plan's lists run in a random order of ranks, with every buffer and ticket watched.
#ifndef PPL_TESTS_PLANS_H
#define PPL_TESTS_PLANS_H
#include "plan/plan.h"

// Runs `steps` chained steps of all lists, picking at random which rank does its next task, and looks at every program: the
// edges it reads hold the right microbatch of the right step, in the producer's buffer or in its own, and none that it
// writes is still to be read. Tasks of stream 1 run in any order with those of the action beside them. NULL when all end well; else what was wrong, valid until the next call.
const char *plan_replay(const ppl_plan *p, int32_t steps, uint64_t seed);

#endif
