// measure_nccl.c - times NCCL between two GPUs of one process as links use it: one two-rank communicator a direction, made
// without blocking and polled to a deadline. Before it: measure.c. After it: NCCL.
#include "device/cuda/measure.h"
#include "base/clock.h"
#include <nccl.h>

enum { FORTH = 0, BACK = 1, WAYS = 2, CTAS = 8 };

typedef struct channel {
    ppl_cuda_pair *pair;
    ncclComm_t comm[WAYS][2]; // by direction and side; a side's rank is its number
} channel;

// comm: whose words are asked for; NULL: the last that NCCL said.
static ppl_status check_of(const channel *c, ncclComm_t comm, const char *what, ncclResult_t e) {
    if (e == ncclSuccess || e == ncclInProgress) return PPL_OK;
    const char *more = ncclGetLastError(comm);
    return ppl_fail(PPL_ERR_DEVICE, "link nccl: %s between GPU %d and GPU %d: %s%s%.200s", what, c->pair->gpu[0],
                    c->pair->gpu[1], ncclGetErrorString(e), more && *more ? ": " : "", more ? more : "");
}

static ppl_status check(const channel *c, const char *what, ncclResult_t e) {
    return check_of(c, NULL, what, e);
}

// All communicators have done what they were asked for.
static ppl_status settle(const channel *c, const char *what) {
    for (int32_t i = 0; i < WAYS * 2; i++) {
        ncclResult_t e = ncclInProgress;
        ncclComm_t comm = c->comm[i / 2][i % 2];
        while (comm && e == ncclInProgress) {
            PPL_TRY(check(c, "ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &e)));
            if (e != ncclInProgress) break;
            if (ppl_now() > c->pair->until)
                return ppl_fail(
                    PPL_ERR_STALL,
                    "link nccl: %s between GPU %d and GPU %d does not end, want NCCL to reach from one to the "
                    "other: NCCL_DEBUG=INFO says how it tries",
                    what, c->pair->gpu[0], c->pair->gpu[1]);
            ppl_wait_until(ppl_now() + 20000, NULL);
        }
        if (comm) PPL_TRY(check_of(c, comm, what, e));
    }
    return PPL_OK;
}

static ppl_status communicators_open(channel *c) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = CTAS;
    config.splitShare = 0;
    for (int32_t way = 0; way < WAYS; way++) {
        ncclUniqueId id;
        PPL_TRY(check(c, "ncclGetUniqueId", ncclGetUniqueId(&id)));
        PPL_TRY(check(c, "ncclGroupStart", ncclGroupStart()));
        ppl_status st = PPL_OK;
        for (int32_t side = 0; side < 2 && st == PPL_OK; side++) {
            st = ppl_cuda_check("cudaSetDevice", cudaSetDevice(c->pair->gpu[side]));
            if (st == PPL_OK)
                st = check(c, "ncclCommInitRankConfig",
                           ncclCommInitRankConfig(&c->comm[way][side], 2, id, side, &config));
        }
        ncclResult_t e = ncclGroupEnd(); // in any case: a group may not stay open
        PPL_TRY(st);
        PPL_TRY(check(c, "ncclCommInitRankConfig", e));
        PPL_TRY(settle(c, "ncclCommInitRankConfig"));
    }
    return PPL_OK;
}

// One message one way: the sender's first buffer is the receiver's second.
static ppl_status pass(const channel *c, int32_t way, size_t bytes) {
    const ppl_cuda_pair *p = c->pair;
    int32_t from = way, to = 1 - way;
    PPL_TRY(check(c, "ncclGroupStart", ncclGroupStart()));
    ncclResult_t sent = ncclSend(p->buffer[from], bytes, ncclInt8, to, c->comm[way][from], p->stream[from]);
    ncclResult_t got = ncclRecv(p->buffer[to], bytes, ncclInt8, from, c->comm[way][to], p->stream[to]);
    ncclResult_t both = ncclGroupEnd();
    PPL_TRY(check(c, "ncclSend", sent));
    PPL_TRY(check(c, "ncclRecv", got));
    PPL_TRY(check(c, "ncclGroupEnd", both));
    return settle(c, "a message");
}

static ppl_status there_and_back(const channel *c, int32_t rounds) {
    for (int32_t i = 0; i < rounds; i++) {
        PPL_TRY(pass(c, FORTH, PPL_MEASURE_SMALL));
        PPL_TRY(pass(c, BACK, PPL_MEASURE_SMALL));
    }
    return PPL_OK;
}

static ppl_status measure(channel *c, ppl_link_cost *out) {
    ppl_cuda_pair *p = c->pair;
    double seconds = 0;
    PPL_TRY(communicators_open(c));
    PPL_TRY(there_and_back(c, 2)); // connects
    PPL_TRY(ppl_cuda_pair_mark(p, 0));
    PPL_TRY(there_and_back(c, PPL_MEASURE_ROUNDS));
    PPL_TRY(ppl_cuda_pair_mark(p, 1));
    PPL_TRY(ppl_cuda_pair_time(p, "NCCL", &seconds));
    out->latency = seconds / (2 * PPL_MEASURE_ROUNDS);
    PPL_TRY(pass(c, FORTH, p->bytes));
    PPL_TRY(ppl_cuda_pair_mark(p, 0));
    for (int32_t i = 0; i < PPL_MEASURE_COPIES; i++) PPL_TRY(pass(c, FORTH, p->bytes));
    PPL_TRY(ppl_cuda_pair_mark(p, 1));
    PPL_TRY(ppl_cuda_pair_time(p, "NCCL", &seconds));
    out->bandwidth = seconds > 0 ? (double)p->bytes * PPL_MEASURE_COPIES / seconds : 0;
    return PPL_OK;
}

// Both sides let go at once; after a failure, without asking.
static void communicators_close(channel *c, bool failed) {
    for (int32_t i = 0; i < WAYS * 2 && !failed; i++)
        if (c->comm[i / 2][i % 2])
            failed = check(c, "ncclCommFinalize", ncclCommFinalize(c->comm[i / 2][i % 2])) != PPL_OK;
    if (!failed) failed = settle(c, "ncclCommFinalize") != PPL_OK;
    for (int32_t i = 0; i < WAYS * 2; i++) {
        ncclComm_t comm = c->comm[i / 2][i % 2];
        if (comm) failed ? ncclCommAbort(comm) : ncclCommDestroy(comm);
    }
}

ppl_status ppl_cuda_measure_nccl(ppl_cuda_pair *p, ppl_link_cost *out) {
    PPL_TRY(ppl_nccl_version_check());
    channel c = {.pair = p};
    ppl_status st = measure(&c, out);
    communicators_close(&c, st != PPL_OK);
    return st;
}
