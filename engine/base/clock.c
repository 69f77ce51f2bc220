// clock.c - absolute waits and doorbells (futex).
#include "base/clock.h"
#include "ppl.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

double ppl_clock(void) {
    return (double)ppl_now() * 1e-9;
}

int32_t ppl_cpu_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

void ppl_wait_until(int64_t when, const atomic_bool *stop) {
    enum { SPIN = 80000, SLICE = 20000000 }; // nanoseconds; a slice bounds how late `stop` is seen
    for (;;) {
        int64_t left = when - ppl_now();
        if (left <= 0 || (stop && atomic_load_explicit(stop, memory_order_relaxed))) return;
        if (left <= SPIN) {
            __builtin_ia32_pause();
            continue;
        }
        int64_t sleep = left - SPIN < SLICE ? left - SPIN : SLICE;
        struct timespec t = {.tv_sec = 0, .tv_nsec = sleep};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
}

// The waiter announces itself before it re-reads `rung`, the ringer bumps `rung` before it looks for a waiter: with
// both in sequentially consistent order one of them sees the other.
void ppl_bell_ring(ppl_bell *b) {
    atomic_fetch_add(&b->rung, 1);
    if (atomic_load(&b->asleep)) syscall(SYS_futex, &b->rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ppl_bell_sleep(ppl_bell *b, unsigned seen, int64_t timeout_ns) {
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    atomic_store(&b->asleep, 1);
    if (atomic_load(&b->rung) == seen) syscall(SYS_futex, &b->rung, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    atomic_store(&b->asleep, 0);
}
