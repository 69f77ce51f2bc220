// measure.c - what a value takes from one rank to another on this machine: between two threads on devices of the host, between
// GPUs by cuda/measure.c. Before it: `ppl devices --links`. After it: the costs that a simulation goes by.
#include "device/measure.h"
#include "base/clock.h"
#include "base/status.h"
#include <pthread.h>
#include <string.h>

// ---- between two threads: the pointer is handed over, and the other is woken as the executor wakes a rank ----

enum { WARM = 200, ROUNDS = 2000, SPIN = 100000 }; // rounds there and back; nanoseconds before a waiter sleeps

typedef struct table {
    ppl_bell bell[2];
    _Alignas(64) atomic_int turn; // handed over so many times: even ones wait for side 0
    bool spins;
} table;

static void turn_await(table *t, int32_t side, int turn) {
    int64_t sleeps = ppl_now() + (t->spins ? SPIN : 0);
    for (;;) {
        unsigned seen = atomic_load(&t->bell[side].rung);
        if (atomic_load_explicit(&t->turn, memory_order_acquire) == turn) return;
        if (ppl_now() >= sleeps) ppl_bell_sleep(&t->bell[side], seen, 1000000);
    }
}

static void play(table *t, int32_t side, int first, int count) {
    for (int i = first + side; i < first + count; i += 2) {
        turn_await(t, side, i);
        atomic_store_explicit(&t->turn, i + 1, memory_order_release);
        ppl_bell_ring(&t->bell[1 - side]);
    }
}

static void *other_side(void *at) {
    play(at, 1, 0, 2 * (WARM + ROUNDS));
    return NULL;
}

static ppl_status threads_measure(ppl_link_cost *out) {
    table t = {.spins = ppl_cpu_cores() > 1};
    pthread_t other;
    if (pthread_create(&other, NULL, other_side, &t) != 0)
        return ppl_fail(PPL_ERR_STALL, "link local: a thread cannot be started, want fewer processes of this user");
    play(&t, 0, 0, 2 * WARM);
    turn_await(&t, 0, 2 * WARM);
    int64_t begin = ppl_now();
    play(&t, 0, 2 * WARM, 2 * ROUNDS);
    turn_await(&t, 0, 2 * (WARM + ROUNDS));
    out->latency = (double)(ppl_now() - begin) * 1e-9 / (2 * ROUNDS);
    pthread_join(other, NULL);
    return PPL_OK;
}

// ---- all ----

ppl_status ppl_link_measure(const char *device, int32_t from, int32_t to, int32_t way, int64_t bytes, double seconds,
                            ppl_link_cost *out) {
    *out = (ppl_link_cost){.from = from, .to = to};
    if (way < 0 || way >= PPL_WAYS) return ppl_fail(PPL_ERR_ARG, "link: way %d, want 0..%d", way, PPL_WAYS - 1);
    if (bytes < 1 || !(seconds > 0))
        return ppl_fail(PPL_ERR_ARG, "link: %lld bytes in %g seconds, want 1 or more, and some time", (long long)bytes,
                        seconds);
    if (device && strcmp(device, "cuda") == 0) return ppl_cuda_link_measure(from, to, way, (size_t)bytes, seconds, out);
    if (way != PPL_WAY_POINTER)
        return ppl_fail(PPL_ERR_ARG, "link: way %d between ranks of device %s, want handing over", way,
                        device ? device : "");
    return threads_measure(out);
}
