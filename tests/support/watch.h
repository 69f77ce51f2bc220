// watch.h - what a replay of a plan looks at inside stages: activation slots, pending slots and versions of the weights.
#ifndef PPL_TESTS_WATCH_H
#define PPL_TESTS_WATCH_H
#include "plan/plan.h"

typedef struct watch watch;
watch *watch_open(const ppl_plan *p);
void watch_close(watch *w);
// A task that its rank runs for a step, steps being handed over at once from step 0. NULL when all is right; else what was
// wrong, valid until the next call.
const char *watch_task(watch *w, const ppl_task *t, int64_t step);
// That everything in flight has ended, and that as many activations were alive at once on a rank as the plan says.
const char *watch_end(const watch *w);
// What was wrong, in words that are valid until the next call.
const char *watch_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
