// wait.c - faults, and everything a rank may wait for besides links: the other ranks' sums, meetings, stragglers. All waits
// end when the run stops. Before: loop.c and norm.c.
#include "exec/rank.h"
#include <string.h>

void ppl_exec_ring_all(ppl_exec *e) {
    for (int32_t i = 0; i < e->plan->ranks; i++) ppl_bell_ring(&e->rank[i].bell);
}

void ppl_exec_fault(ppl_exec *e, ppl_status status) {
    bool first = false;
    pthread_mutex_lock(&e->mutex);
    // A rank that was stopped has no fault of its own.
    if (e->fault == PPL_OK && !(status == PPL_ERR_STOPPED && atomic_load(&e->stop))) {
        first = true;
        e->fault = status;
        size_t n = strlen(ppl_error());
        if (n >= sizeof e->fault_text) n = sizeof e->fault_text - 1;
        memcpy(e->fault_text, ppl_error(), n);
        e->fault_text[n] = 0;
    }
    pthread_mutex_unlock(&e->mutex);
    atomic_store(&e->stop, true);
    ppl_exec_ring_all(e);
    if (first && e->peers.world) ppl_peers_fault(e);
}

ppl_status ppl_rank_go_on(const ppl_rank *r) {
    return atomic_load_explicit(&r->exec->stop, memory_order_relaxed) ? PPL_ERR_STOPPED : PPL_OK;
}

enum {
    SLEEP_NS = 20000000, // a bell that is rung is never missed; this bounds how late a stop is seen
    NAP_NS = 50000       // a device rings no bell
};

ppl_status ppl_rank_pause(ppl_rank *r, int64_t *begin, unsigned seen) {
    PPL_TRY(ppl_rank_go_on(r));
    bool sums = false; // of this rank, still underway on its device: others may wait for them
    if (r->ahead) PPL_TRY(ppl_ahead_poll(r, &sums));
    if (r->spin_ns) {
        int64_t now = ppl_now();
        if (!*begin) *begin = now;
        if (now - *begin < r->spin_ns) {
            __builtin_ia32_pause();
            return r->exec->peers.world ? ppl_peers_poll(r->exec, true) : PPL_OK;
        }
    }
    ppl_bell_sleep(&r->bell, seen, sums ? NAP_NS : SLEEP_NS);
    return PPL_OK;
}

ppl_status ppl_rank_wait_count(ppl_rank *r, const atomic_llong *counter, int64_t target, ppl_where where) {
    if (atomic_load(counter) >= target) return PPL_OK;
    int was = atomic_exchange_explicit(&r->where, (int)where, memory_order_relaxed);
    ppl_status st = PPL_OK;
    for (int64_t begin = 0; st == PPL_OK;) {
        unsigned seen = ppl_rank_heard(r);
        if (atomic_load(counter) >= target) break;
        st = ppl_rank_pause(r, &begin, seen);
    }
    atomic_store_explicit(&r->where, was, memory_order_relaxed);
    return st;
}

// Whoever waits is counted before it looks, whoever finishes looks at the count after it has finished: both in
// sequentially consistent order, so that one of them sees the other.
ppl_status ppl_rank_window(ppl_rank *r, int64_t tick) {
    ppl_exec *e = r->exec;
    int64_t target = tick - PPL_EXEC_AHEAD + 2; // finished ticks of every rank
    ppl_status st = PPL_OK;
    for (int32_t i = 0; i < e->plan->ranks && st == PPL_OK; i++) {
        if (atomic_load_explicit(&e->rank[i].completed, memory_order_acquire) >= target) continue;
        atomic_fetch_add(&e->in_window, 1);
        st = ppl_rank_wait_count(r, &e->rank[i].completed, target, PPL_AT_WINDOW);
        atomic_fetch_sub(&e->in_window, 1);
    }
    return st;
}

void ppl_rank_finish(ppl_rank *r, int64_t tick) {
    atomic_store(&r->completed, tick + 1);
    if (atomic_load(&r->exec->in_window)) ppl_exec_ring_all(r->exec);
}

ppl_status ppl_rank_meet(ppl_rank *r) {
    ppl_exec *e = r->exec;
    int64_t own = e->end - e->first, meeting = ++r->meets;
    if (atomic_fetch_add(&e->met, 1) + 1 == meeting * own) {
        if (e->peers.world) PPL_TRY(ppl_peers_meet(e));
        else atomic_store(&e->meetings, meeting);
        ppl_exec_ring_all(e);
    }
    return ppl_rank_wait_count(r, &e->meetings, meeting, PPL_AT_MEET);
}

// The gate is one word, so that an interrupt, which may come from a signal handler, decides in one instruction which tick
// is the last: the newest that some rank has begun. All ranks go on to its end, none beyond it.
static const uint64_t interrupted = 1ull << 63;

void ppl_gate_open(ppl_exec *e, int64_t tick) {
    unsigned long long g = atomic_load(&e->gate);
    while (!atomic_compare_exchange_weak(&e->gate, &g, (g & interrupted) | (uint64_t)tick)) {
    }
}

// With several processes each freezes its gate first, and the limit is the newest tick that a rank of any has begun.
ppl_status ppl_gate_enter(ppl_rank *r, int64_t tick, bool *may) {
    ppl_exec *e = r->exec;
    unsigned long long g = atomic_load(&e->gate);
    *may = true;
    for (int64_t begin = 0;;) {
        unsigned seen = ppl_rank_heard(r);
        if ((uint64_t)tick < (g & ~interrupted)) return PPL_OK;
        if (g & interrupted) {
            int64_t limit = e->peers.world ? atomic_load(&e->peers.limit) : tick;
            *may = tick < limit;
            if (limit >= 0) return PPL_OK;
            PPL_TRY(ppl_rank_pause(r, &begin, seen));
            g = atomic_load(&e->gate);
        } else if (atomic_compare_exchange_weak(&e->gate, &g, (uint64_t)tick + 1)) {
            return PPL_OK;
        }
    }
}

int64_t ppl_gate_freeze(ppl_exec *e) {
    return (int64_t)(atomic_fetch_or(&e->gate, interrupted) & ~interrupted);
}

bool ppl_gate_close(ppl_exec *e) {
    return (atomic_fetch_and(&e->gate, ~interrupted) & interrupted) != 0;
}

void ppl_exec_interrupt(ppl_exec *e) {
    if (e->peers.world) atomic_store(&e->peers.wants_stop, true); // the caller's thread tells process 0
    else ppl_gate_freeze(e);
}
