// watchdog.c - the caller's side of a command: hands it to the ranks, waits for them, and looks whether they live. Before:
// exec.c. When no rank has begun a task for too long, the run ends with a report of who waits for whom.
#include "exec/rank.h"
#include <stdio.h>

enum { LOOK_NS = 50000000 }; // at most so long between two looks

static bool is_waiting(const ppl_task *task, int32_t where) {
    if (where != PPL_AT_TASK) return where != PPL_AT_REST;
    return task->kind == PPL_TASK_CREDIT || task->kind == PPL_TASK_RECEIVE;
}

// The rank waits for its device, of which timers tell how far it is.
static bool is_behind(const ppl_exec *e, int32_t rank) {
    const ppl_rank *r = &e->rank[rank];
    return atomic_load_explicit(&r->where, memory_order_relaxed) == PPL_AT_DEVICE && r->ahead && r->ahead->timer;
}

// The task that the rank is at, or that its device is at while the rank waits for it; tick: of its step.
static int64_t at_of(const ppl_exec *e, int32_t rank, int64_t *tick) {
    const ppl_rank *r = &e->rank[rank];
    int64_t count = e->side[e->range_side].plan->rank[rank].count;
    int64_t at = atomic_load_explicit(&r->at, memory_order_relaxed);
    *tick = atomic_load_explicit(&r->tick, memory_order_relaxed);
    if (!is_behind(e, rank)) return at;
    int64_t seen = atomic_load_explicit(&r->ahead->seen, memory_order_relaxed);
    if (seen > *tick * count + at) return at; // all of it is done
    *tick = seen / count;
    return seen % count;
}

static const ppl_task *task_of(const ppl_exec *e, int32_t rank) {
    int64_t tick;
    return &e->side[e->range_side].plan->rank[rank].tasks[at_of(e, rank, &tick)];
}

// The rank that another one waits for; -1: none, it works.
static int32_t waits_for(const ppl_exec *e, int32_t rank) {
    int32_t where = atomic_load_explicit(&e->rank[rank].where, memory_order_relaxed), peer = -1;
    if (where == PPL_AT_DEVICE && !is_behind(e, rank)) return -1;
    if (where == PPL_AT_DEVICE) where = PPL_AT_TASK;
    if (!is_waiting(task_of(e, rank), where)) return -1;
    if (where == PPL_AT_TASK) {
        int64_t tick;
        at_of(e, rank, &tick);
        e->options.link->waits_for(e->side[e->range_side].link, task_of(e, rank), tick, &peer);
        return peer;
    }
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < e->plan->ranks; i++) { // the first that is not there yet; before a step, the last one
        int32_t other = atomic_load_explicit(&e->rank[i].where, memory_order_relaxed);
        int64_t completed = atomic_load_explicit(&e->rank[i].completed, memory_order_relaxed);
        if (i == rank || other == where || completed >= least) continue;
        least = where == PPL_AT_WINDOW ? completed : INT64_MIN;
        peer = i;
    }
    return peer;
}

// "rank 1 at step 3, task 7 receive 2F5 edge 4 buffer 1"
static int describe(const ppl_exec *e, int32_t rank, char *text, size_t room) {
    static const char *const waits[] = {[PPL_AT_REST] = "between steps",
                                        [PPL_AT_TASK] = "",
                                        [PPL_AT_NORM] = ", for the gradients of all ranks",
                                        [PPL_AT_MEET] = ", for all ranks to roll back",
                                        [PPL_AT_WINDOW] = "before its next step",
                                        [PPL_AT_DEVICE] = ", for its device"};
    const ppl_rank *r = &e->rank[rank];
    int32_t where = atomic_load_explicit(&r->where, memory_order_relaxed);
    int64_t tick = atomic_load_explicit(&r->tick, memory_order_relaxed);
    char task[160] = "";
    if (where != PPL_AT_REST && where != PPL_AT_WINDOW) {
        task[0] = ' ';
        ppl_task_print(e->side[e->range_side].plan, rank, at_of(e, rank, &tick), task + 1);
    }
    int64_t step = atomic_load_explicit(&r->step, memory_order_relaxed);
    step -= atomic_load_explicit(&r->tick, memory_order_relaxed) - tick;
    if (is_behind(e, rank))
        return snprintf(text, room, "rank %d, whose device is at step %lld,%s", rank, (long long)step, task);
    return snprintf(text, room, "rank %d at step %lld,%s%s%s", rank, (long long)step, task,
                    where == PPL_AT_REST || where == PPL_AT_WINDOW ? " " : "", waits[where]);
}

// Whom the others wait for in the end: follows the first rank that waits until one works or the chain closes.
static int32_t culprit(const ppl_exec *e) {
    int32_t at = 0;
    while (at < e->plan->ranks && waits_for(e, at) < 0) at++;
    if (at == e->plan->ranks) return 0;
    for (int32_t i = 0; i < e->plan->ranks; i++) {
        int32_t next = waits_for(e, at);
        if (next < 0) break;
        at = next;
    }
    return at;
}

static ppl_status stall_report(const ppl_exec *e, double seconds) {
    char text[8000];
    size_t used = 0;
    int32_t bad = culprit(e);
    for (int32_t k = 0; k < e->plan->ranks && used + 400 < sizeof text; k++) {
        int32_t rank = k == 0 ? bad : k <= bad ? k - 1 : k; // the culprit first
        int32_t peer = waits_for(e, rank);
        used += (size_t)describe(e, rank, text + used, sizeof text - used);
        if (peer >= 0) used += (size_t)snprintf(text + used, sizeof text - used, ", waits for rank %d", peer);
        used += (size_t)snprintf(text + used, sizeof text - used, "; ");
    }
    text[used - 2] = 0;
    return ppl_fail(PPL_ERR_STALL, "run: no rank has begun a task for %.3g s, want one within %.3g s: %s", seconds,
                    seconds, text);
}

static int64_t pulses(const ppl_exec *e) {
    int64_t sum = 0;
    for (int32_t i = 0; i < e->plan->ranks; i++) sum += atomic_load_explicit(&e->rank[i].pulse, memory_order_relaxed);
    return sum;
}

// One look after the other processes, and a short sleep: words and values come without a ring.
static ppl_status peers_look(ppl_exec *e, unsigned seen, int64_t look, int64_t *told) {
    enum { NAP_NS = 20000 };
    PPL_TRY(ppl_peers_poll(e, false));
    PPL_TRY(ppl_peers_interrupt(e));
    int64_t now = ppl_now();
    if (now - *told >= look) {
        *told = now;
        PPL_TRY(ppl_peers_pulse(e));
    }
    ppl_bell_sleep(&e->caller, seen, NAP_NS);
    return PPL_OK;
}

static bool has_ended(const ppl_exec *e, bool steps) {
    return atomic_load(&e->running) == 0 && (!steps || ppl_peers_end(e));
}

static void wait_for_ranks(ppl_exec *e, bool watch) {
    double limit = e->options.stall_seconds > 0 ? e->options.stall_seconds : 120;
    int64_t look = limit * 1e9 / 8 < LOOK_NS ? (int64_t)(limit * 1e9 / 8) + 1 : LOOK_NS;
    int64_t last = pulses(e), changed = ppl_now(), told = 0;
    bool steps = watch;
    for (;;) {
        unsigned seen = atomic_load(&e->caller.rung);
        if (has_ended(e, steps)) return;
        ppl_status st = PPL_OK;
        if (steps && e->peers.world) st = peers_look(e, seen, look, &told);
        else ppl_bell_sleep(&e->caller, seen, look);
        int64_t now = ppl_now(), sum = pulses(e);
        if (sum != last) {
            last = sum;
            changed = now;
        }
        if (watch && st == PPL_OK && e->peers.world) st = ppl_peers_silent(e, now, limit);
        if (watch && st == PPL_OK && (double)(now - changed) >= limit * 1e9 && !has_ended(e, steps))
            st = ppl_exec_leads(e) ? stall_report(e, limit) : PPL_OK;
        if (st == PPL_OK) continue;
        ppl_exec_fault(e, st);
        watch = false;                                                       // the ranks end now
        if (e->peers.world && e->peers.world->lost != PPL_OK) steps = false; // the others are gone
    }
}

ppl_status ppl_exec_command(ppl_exec *e, ppl_command command) {
    int ranks = 0;
    for (int32_t i = 0; i < e->plan->ranks; i++) ranks += e->rank[i].started;
    atomic_store(&e->command, (int)command);
    atomic_store(&e->running, ranks);
    atomic_fetch_add(&e->orders, 1);
    ppl_exec_ring_all(e);
    wait_for_ranks(e, command == PPL_COMMAND_STEPS);
    return e->fault == PPL_OK ? PPL_OK : ppl_fail_text(e->fault, e->fault_text);
}
