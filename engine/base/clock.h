// clock.h - time and waiting.
#ifndef PPL_BASE_CLOCK_H
#define PPL_BASE_CLOCK_H
#include "types.h"
#include <stdatomic.h>
#include <time.h>

static inline int64_t ppl_now(void) { // nanoseconds, monotonic
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
// Sleeps to an absolute time in nanoseconds and spins the last 80 microseconds, unless *stop becomes true.
void ppl_wait_until(int64_t when, const atomic_bool *stop);

// A doorbell: whoever waits sleeps on `rung`; whoever changes what it waits for rings. One waiter, many ringers.
typedef struct ppl_bell {
    _Alignas(64) atomic_uint rung;
    atomic_uint asleep;
} ppl_bell;
void ppl_bell_ring(ppl_bell *b); // after the change was stored with release order; a syscall only if the waiter sleeps
// Returns after a ring that came since `seen` was read, or after timeout_ns. Callers re-check their condition.
void ppl_bell_sleep(ppl_bell *b, unsigned seen, int64_t timeout_ns);

#endif
