// wire.h - a wire between threads of one process, each of which plays a process: the whole of several processes under the
// sanitizers. Sends are synchronous, values of different tags overtake each other, cancels work.
#ifndef PPL_TESTS_WIRE_H
#define PPL_TESTS_WIRE_H
#include "world/world.h"

typedef struct test_net test_net;
// Every process runs main_of(self, its number) on a thread with a world of its own, opened and closed around it.
typedef void (*test_process)(void *self, int32_t process);
void test_net_run(int32_t processes, test_process main_of, void *self);
// What closing the world said to each process of the last run.
extern ppl_status test_net_ends[16];
// For the process that calls: its world's end is a failure with these words.
void test_net_fail(ppl_status status, const char *text);
#endif
