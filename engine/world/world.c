// world.c - the processes of a run: words between them, rounds, and what becomes of a process that is lost. Before: main.c.
// After: meet.c, where all of them agree.
#include "world/world.h"
#include "base/clock.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local ppl_world *current;

ppl_world *ppl_world_current(void) {
    return current;
}

void ppl_world_use(ppl_world *w) {
    current = w;
}

ppl_status ppl_world_check_ranks(const ppl_world *w, int32_t ranks) {
    if (!w || ranks >= w->processes) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG,
                    "run: %d processes and %d rank%s: a process holds one rank at least, want no more processes than "
                    "ranks",
                    w->processes, ranks, ranks == 1 ? "" : "s");
}

// ---- clocks ----

// Nanoseconds from this process's clock to that of process 0, from the quickest of some exchanges: right within half of its
// time. Processes of one machine share a clock; there the answer is within the noise, and is taken as nothing.
static ppl_status clock_measure(ppl_world *w) {
    enum { TIMES = 8 };
    int64_t best = INT64_MAX;
    for (int32_t other = 1; other < w->processes; other++)
        for (int32_t i = 0; i < TIMES; i++) {
            int64_t begin = ppl_now(), theirs = begin, token = 0;
            PPL_TRY(ppl_world_move(w, other, 0, &token, sizeof token)); // here now: the answer finds us waiting
            begin = ppl_now();
            theirs = begin;
            PPL_TRY(ppl_world_move(w, 0, other, &theirs, sizeof theirs));
            PPL_TRY(ppl_world_move(w, other, 0, &token, sizeof token));
            int64_t took = ppl_now() - begin;
            if (w->process != other || took >= best) continue;
            best = took;
            w->clock = theirs - begin;
        }
    int64_t apart = w->clock < 0 ? -w->clock : w->clock;
    if (best == INT64_MAX || apart < best + 1000000) w->clock = 0;
    return PPL_OK;
}

// Which processes share this one's host: a name that the system gives, and its boot.
static ppl_status host_find(ppl_world *w) {
    char own[160] = "", other[160];
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(own, 64, f)) own[0] = 0;
    if (f) fclose(f);
    gethostname(own + strlen(own), sizeof own - 1 - strlen(own));
    w->place = w->neighbours = 0;
    for (int32_t p = 0; p < w->processes; p++) {
        memcpy(other, own, sizeof other);
        PPL_TRY(ppl_world_share(w, p, other, sizeof other));
        bool same = !strcmp(own, other);
        w->place += same && p < w->process;
        w->neighbours += same;
    }
    return PPL_OK;
}

ppl_status ppl_world_open(const ppl_wire *wire, ppl_world **out) {
    ppl_world *w = ppl_alloc(sizeof *w);
    if (!w) return PPL_ERR_MEMORY;
    *w = (ppl_world){.wire = *wire, .process = wire->process, .processes = wire->processes, .next_tag = PPL_WORLD_TAGS};
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&w->lock, &kind);
    pthread_mutexattr_destroy(&kind);
    *out = w;
    PPL_TRY(host_find(w));
    return clock_measure(w);
}

ppl_status ppl_world_close(ppl_world *w, ppl_status status, const char *text) {
    if (!w) return status;
    ppl_vote end = {.what = "end"};
    // Whoever calls something else learns that this process has ended, fails and comes here too.
    do {
        if (text) ppl_fail_text(status, text);
        end.status = status;
        end.any = 0;
        ppl_world_vote(w, &end);
    } while (w->lost == PPL_OK && end.any == PPL_VOTE_DIFFERS);
    ppl_status st = w->lost == PPL_OK ? end.status : w->lost;
    w->wire.ops->close(w->wire.self, w->lost == PPL_OK);
    pthread_mutex_destroy(&w->lock);
    ppl_free(w->early.data);
    ppl_free(w->scratch);
    ppl_free(w);
    return st;
}

ppl_status ppl_world_lose(ppl_world *w, ppl_status status) {
    if (status == PPL_OK || w->lost != PPL_OK) return status;
    w->lost = status;
    snprintf(w->lost_text, sizeof w->lost_text, "%s", ppl_error());
    return status;
}

// ---- words ----

static ppl_status room_make(void **data, size_t *room, size_t bytes) {
    if (*room >= bytes) return PPL_OK;
    void *more = ppl_alloc(2 * bytes);
    if (!more) return PPL_ERR_MEMORY;
    ppl_free(*data);
    *data = more;
    *room = 2 * bytes;
    return PPL_OK;
}

static ppl_status post_locked(ppl_world *w, int32_t to, const ppl_words *words, const void *data, size_t bytes) {
    if (w->lost != PPL_OK) return ppl_fail_text(w->lost, w->lost_text);
    PPL_TRY(room_make(&w->scratch, &w->scratch_room, sizeof *words + bytes));
    ppl_words *head = w->scratch;
    *head = *words;
    head->round = w->round;
    if (bytes) memcpy(head + 1, data, bytes);
    for (int32_t p = 0; p < w->processes; p++)
        if (p != w->process && (to < 0 || p == to))
            PPL_TRY(w->wire.ops->post(w->wire.self, p, head, sizeof *head + bytes));
    return PPL_OK;
}

ppl_status ppl_world_post(ppl_world *w, int32_t to, const ppl_words *words, const void *data, size_t bytes) {
    pthread_mutex_lock(&w->lock);
    ppl_status st = ppl_world_lose(w, post_locked(w, to, words, data, bytes));
    pthread_mutex_unlock(&w->lock);
    return st;
}

ppl_status ppl_world_tell(ppl_world *w, const ppl_words *words, const void *data, size_t bytes) {
    return ppl_world_post(w, -1, words, data, bytes);
}

static void words_hand_on(ppl_world *w, int32_t from, const void *data, size_t bytes) {
    const ppl_words *head = data;
    if (head->round == w->round && w->handler) w->handler(w->handler_self, from, head, head + 1, bytes - sizeof *head);
}

// Takes what has come until nothing is left, or until words of a coming round: those wait, and all behind them.
static ppl_status poll_locked(ppl_world *w) {
    if (w->lost != PPL_OK) return ppl_fail_text(w->lost, w->lost_text);
    while (!w->early.full) {
        int32_t from;
        const void *data;
        size_t bytes;
        PPL_TRY(w->wire.ops->take(w->wire.self, &from, &data, &bytes));
        if (from < 0) return PPL_OK;
        if (bytes < sizeof(ppl_words))
            return ppl_fail(PPL_ERR_DEVICE, "%s: words of %zu bytes from process %d, want %zu at least",
                            w->wire.ops->name, bytes, from, sizeof(ppl_words));
        if (((const ppl_words *)data)->round <= w->round) {
            words_hand_on(w, from, data, bytes);
            continue;
        }
        PPL_TRY(room_make(&w->early.data, &w->early.room, bytes));
        memcpy(w->early.data, data, bytes);
        w->early.from = from;
        w->early.bytes = bytes;
        w->early.full = true;
    }
    return PPL_OK;
}

ppl_status ppl_world_poll(ppl_world *w) {
    pthread_mutex_lock(&w->lock);
    ppl_status st = ppl_world_lose(w, poll_locked(w));
    pthread_mutex_unlock(&w->lock);
    return st;
}

void ppl_world_round(ppl_world *w, ppl_world_handler handler, void *self) {
    pthread_mutex_lock(&w->lock);
    w->round++;
    w->handler = handler;
    w->handler_self = self;
    if (w->early.full) {
        w->early.full = false;
        words_hand_on(w, w->early.from, w->early.data, w->early.bytes);
    }
    pthread_mutex_unlock(&w->lock);
}

void ppl_world_deaf(ppl_world *w, const void *handler_self) {
    pthread_mutex_lock(&w->lock);
    if (w->handler_self == handler_self) w->handler = NULL;
    pthread_mutex_unlock(&w->lock);
}

// Short naps while something is going on, longer ones while a person thinks. The system adds some 50 microseconds.
void ppl_world_nap(int64_t idle) {
    enum { SHORT = 5000, MIDDLE = 200000, LONG = 2000000 };
    int64_t ns = idle < 100000000 ? SHORT : idle < 2000000000 ? MIDDLE : LONG;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = ns}, NULL);
}

ppl_status ppl_world_tags(ppl_world *w, int64_t count, int64_t *first) {
    int64_t most = w->wire.ops->most_tag;
    if (count > most - PPL_WORLD_TAGS)
        return ppl_fail(PPL_ERR_PLAN, "%s: values of a step cross processes %lld times, want at most %lld",
                        w->wire.ops->name, (long long)count, (long long)(most - PPL_WORLD_TAGS));
    if (w->next_tag > most - count) w->next_tag = PPL_WORLD_TAGS; // whoever had these is closed by now
    *first = w->next_tag;
    w->next_tag += count;
    return PPL_OK;
}
