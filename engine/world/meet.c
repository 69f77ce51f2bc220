// meet.c - what all processes do together: votes, and bytes of one that all get. Before: train, exec and the Lua library,
// which call these in the same order everywhere. After: wire.h.
//
// A vote goes to process 0, which compares all and sends back what they amount to. A process that calls something else than
// the others is found there, before anything waits for what never comes.
#include "base/clock.h"
#include "base/memory.h"
#include "world/world.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TAG_VOTE = 0, TAG_VERDICT, TAG_SHARE, TAG_MOVE };

typedef struct ballot { // of a process, and the verdict for all
    char what[32];
    uint64_t key;
    int32_t status, any;
    int64_t first, least;
    char text[8192];
} ballot;

// Polls until a request is done.
static ppl_status request_wait(ppl_world *w, ppl_wire_request *r, int64_t deadline) {
    for (int64_t begin = ppl_now(); r->active;) {
        pthread_mutex_lock(&w->lock);
        ppl_status st = w->wire.ops->test(w->wire.self, r);
        bool active = r->active;
        pthread_mutex_unlock(&w->lock);
        PPL_TRY(st);
        if (!active) return PPL_OK;
        PPL_TRY(ppl_world_poll(w));
        int64_t now = ppl_now();
        if (deadline && now > deadline)
            return ppl_fail(PPL_ERR_STALL, "another process did not answer in time, want it to");
        ppl_world_nap(now - begin);
    }
    return PPL_OK;
}

static ppl_status value_begin(ppl_world *w, bool send, int32_t other, int64_t tag, void *data, size_t bytes,
                              ppl_wire_request *r) {
    pthread_mutex_lock(&w->lock);
    const ppl_wire_ops *ops = w->wire.ops;
    ppl_status st = send ? ops->send(w->wire.self, other, tag, data, bytes, r)
                         : ops->receive(w->wire.self, other, tag, data, bytes, r);
    pthread_mutex_unlock(&w->lock);
    return st;
}

static size_t ballot_bytes(const ballot *b) {
    return offsetof(ballot, text) + strlen(b->text) + 1;
}

// ---- votes ----

// Joins another process's ballot into the verdict. own: what process 0 says.
static void ballot_join(ballot *verdict, const ballot *own, const ballot *b, int32_t process, const char *key_words) {
    char words[sizeof b->text];
    if (b->any > verdict->any) verdict->any = b->any;
    if (b->least < verdict->least) verdict->least = b->least;
    if (verdict->status != PPL_OK) return; // the first stands
    if (b->status != PPL_OK) {
        snprintf(words, sizeof words, "process %d: %.8000s", process, b->text);
        verdict->status = b->status;
    } else if (strcmp(own->what, b->what) != 0) {
        snprintf(
            words, sizeof words,
            "process %d comes to \"%s\" while process 0 comes to \"%s\": want every process to do the same, whatever "
            "its number, time or machine",
            process, b->what, own->what);
        verdict->status = PPL_ERR_ARG;
    } else if (own->key != b->key) {
        snprintf(words, sizeof words,
                 "process %d differs from process 0 in %s, want the same script, settings and files "
                 "everywhere",
                 process, key_words ? key_words : own->what);
        verdict->status = PPL_ERR_ARG;
    } else {
        return;
    }
    memcpy(verdict->text, words, sizeof words);
}

static ppl_status votes_count(ppl_world *w, ballot *b, const char *key_words, int64_t deadline) {
    size_t others = (size_t)w->processes;
    ballot *all = ppl_alloc(others * sizeof *all), *verdict = ppl_alloc(sizeof *verdict);
    ppl_wire_request *r = ppl_alloc(others * sizeof *r);
    ppl_status st = all && verdict && r ? PPL_OK : PPL_ERR_MEMORY;
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++)
        st = value_begin(w, false, p, TAG_VOTE, &all[p], sizeof *all, &r[p]);
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++) st = request_wait(w, &r[p], deadline);
    if (st == PPL_OK) *verdict = *b;
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++)
        if (strcmp(all[p].what, b->what) != 0) verdict->any = PPL_VOTE_DIFFERS;
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++) ballot_join(verdict, b, &all[p], p, key_words);
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++)
        st = value_begin(w, true, p, TAG_VERDICT, verdict, ballot_bytes(verdict), &r[p]);
    for (int32_t p = 1; p < w->processes && st == PPL_OK; p++) st = request_wait(w, &r[p], deadline);
    if (st == PPL_OK) *b = *verdict;
    if (st == PPL_OK || st == PPL_ERR_MEMORY)
        ppl_free(all), ppl_free(verdict), ppl_free(r); // else they may still arrive
    return st;
}

static ppl_status vote_cast(ppl_world *w, ballot *b, int64_t deadline) {
    ballot *verdict = ppl_alloc(sizeof *verdict);
    if (!verdict) return PPL_ERR_MEMORY;
    ppl_wire_request in = {0}, out = {0};
    PPL_TRY(value_begin(w, false, 0, TAG_VERDICT, verdict, sizeof *verdict, &in));
    PPL_TRY(value_begin(w, true, 0, TAG_VOTE, b, ballot_bytes(b), &out));
    PPL_TRY(request_wait(w, &out, deadline));
    PPL_TRY(request_wait(w, &in, deadline));
    *b = *verdict;
    ppl_free(verdict);
    return PPL_OK;
}

ppl_status ppl_world_vote(ppl_world *w, ppl_vote *v) {
    if (!w) return v->status;
    if (w->lost != PPL_OK) return v->status = ppl_fail_text(w->lost, w->lost_text);
    ballot *b = ppl_alloc(sizeof *b);
    if (!b) return ppl_world_lose(w, PPL_ERR_MEMORY);
    *b = (ballot){.key = v->key, .status = v->status, .any = v->any, .first = v->first, .least = v->least};
    snprintf(b->what, sizeof b->what, "%s", v->what);
    if (v->status != PPL_OK) snprintf(b->text, sizeof b->text, "%s", ppl_error());
    int64_t deadline = v->seconds > 0 ? ppl_now() + (int64_t)(v->seconds * 1e9) : 0;
    ppl_status st = w->process == 0 ? votes_count(w, b, v->key_words, deadline) : vote_cast(w, b, deadline);
    if (st != PPL_OK) return v->status = ppl_world_lose(w, st); // b is left: it may still be sent
    v->status = (ppl_status)b->status;
    v->any = b->any;
    v->first = b->first;
    v->least = b->least;
    if (v->status != PPL_OK) ppl_fail_text(v->status, b->text);
    ppl_free(b);
    return v->status;
}

ppl_status ppl_world_settle(ppl_world *w, const char *what, ppl_status status) {
    ppl_vote v = {.what = what, .status = status};
    return ppl_world_vote(w, &v);
}

// ---- bytes ----

// One value after another of at most this much, so that none is too long for the wire.
enum { PIECE = 1 << 28 };

static ppl_status bytes_move(ppl_world *w, bool send, int32_t other, int64_t tag, void *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PIECE) {
        ppl_wire_request r = {0};
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        PPL_TRY(value_begin(w, send, other, tag, (char *)data + at, n, &r));
        PPL_TRY(request_wait(w, &r, 0));
    }
    return PPL_OK;
}

ppl_status ppl_world_share(ppl_world *w, int32_t root, void *data, size_t bytes) {
    if (!w) return PPL_OK;
    if (w->lost != PPL_OK) return ppl_fail_text(w->lost, w->lost_text);
    ppl_status st = PPL_OK;
    for (int32_t p = 0; w->process == root && p < w->processes && st == PPL_OK; p++)
        if (p != root) st = bytes_move(w, true, p, TAG_SHARE, data, bytes);
    if (w->process != root) st = bytes_move(w, false, root, TAG_SHARE, data, bytes);
    return ppl_world_lose(w, st);
}

ppl_status ppl_world_move(ppl_world *w, int32_t from, int32_t to, void *data, size_t bytes) {
    if (!w || from == to || (w->process != from && w->process != to)) return PPL_OK;
    if (w->lost != PPL_OK) return ppl_fail_text(w->lost, w->lost_text);
    bool send = w->process == from;
    return ppl_world_lose(w, bytes_move(w, send, send ? to : from, TAG_MOVE, data, bytes));
}
