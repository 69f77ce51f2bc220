// check_nccl.c - what one GPU can show of NCCL: a communicator of one rank made without blocking, a send and a receive to itself
// in a group, one split off it, an abort with the device still usable. Prints rows for scripts/gpu_check; exit status 1 where
// one is wrong.
#include "device/cuda/errors.h"
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 20, SECONDS = 30 };

static cudaStream_t stream;
static char *from, *to;

static void row(const char *what, const char *figure, const char *wrong) {
    printf("#row\tNCCL\t%s\t%s\t%s%s\n", what, figure, wrong ? "WRONG: " : "ok", wrong ? wrong : "");
    fflush(stdout);
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t e_ = (call);                                                                                       \
        if (e_ != cudaSuccess) return cudaGetErrorString(e_);                                                          \
    } while (0)
#define NCCL(call)                                                                                                     \
    do {                                                                                                               \
        ncclResult_t e_ = (call);                                                                                      \
        if (e_ != ncclSuccess && e_ != ncclInProgress) return ncclGetErrorString(e_);                                  \
    } while (0)

static const char *settle(ncclComm_t c) {
    ncclResult_t e = ncclInProgress;
    time_t until = time(NULL) + SECONDS;
    while (e == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(c, &e));
        if (e == ncclInProgress && time(NULL) > until) return "does not end";
        if (e == ncclInProgress) usleep(100);
    }
    return e == ncclSuccess ? NULL : ncclGetErrorString(e);
}
#define SETTLE(c)                                                                                                      \
    do {                                                                                                               \
        const char *wrong_ = settle(c);                                                                                \
        if (wrong_) return wrong_;                                                                                     \
    } while (0)

static const char *make(ncclComm_t *out, ncclConfig_t *config) {
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRankConfig(out, 1, id, 0, config));
    return settle(*out);
}

// From one buffer to the other; what arrives is what was sent.
static const char *pass(ncclComm_t c, int fill) {
    char *back = malloc(BYTES), *want = malloc(BYTES);
    memset(want, fill, BYTES);
    CUDA(cudaMemcpy(from, want, BYTES, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(to, 0, BYTES));
    CUDA(cudaDeviceSynchronize()); // the stream does not wait for the null stream
    NCCL(ncclGroupStart());
    NCCL(ncclSend(from, BYTES, ncclInt8, 0, c, stream));
    NCCL(ncclRecv(to, BYTES, ncclInt8, 0, c, stream));
    NCCL(ncclGroupEnd());
    SETTLE(c);
    time_t until = time(NULL) + SECONDS;
    cudaError_t e;
    while ((e = cudaStreamQuery(stream)) == cudaErrorNotReady && time(NULL) <= until) usleep(100);
    if (e == cudaErrorNotReady) return "a message to itself does not arrive";
    CUDA(e);
    CUDA(cudaMemcpy(back, to, BYTES, cudaMemcpyDeviceToHost));
    bool same = memcmp(back, want, BYTES) == 0;
    free(back), free(want);
    return same ? NULL : "what arrives is not what was sent";
}

static const char *prepare(ncclComm_t *c, ncclConfig_t *config) {
    if (ppl_nccl_version_check() != PPL_OK) return ppl_error();
    CUDA(cudaSetDevice(0));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&from, BYTES));
    CUDA(cudaMalloc((void **)&to, BYTES));
    return make(c, config);
}

static const char *split(ncclComm_t c, ncclConfig_t *config) {
    ncclComm_t part = NULL;
    NCCL(ncclCommSplit(c, 0, 0, &part, config));
    SETTLE(c);
    SETTLE(part);
    const char *wrong = pass(part, 5);
    if (wrong) return wrong;
    NCCL(ncclCommFinalize(part));
    SETTLE(part);
    NCCL(ncclCommDestroy(part));
    return NULL;
}

static const char *abort_one(ncclComm_t c, ncclConfig_t *config) {
    ncclComm_t other = NULL;
    NCCL(ncclCommAbort(c));
    const char *wrong = make(&other, config);
    if (!wrong) wrong = pass(other, 7);
    if (wrong) return wrong;
    NCCL(ncclCommFinalize(other));
    SETTLE(other);
    NCCL(ncclCommDestroy(other));
    return NULL;
}

int main(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = 8;
    config.splitShare = 0;
    ncclComm_t c = NULL;
    int version = 0;
    char figure[32];
    ncclGetVersion(&version);
    snprintf(figure, sizeof figure, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    const char *wrong = prepare(&c, &config);
    row("a communicator of one rank, not blocking", figure, wrong);
    if (!wrong) row("1 MiB to itself, in a group", "", wrong = pass(c, 3));
    if (!wrong) row("one split off it", "", wrong = split(c, &config));
    if (!wrong) row("another after an abort", "", wrong = abort_one(c, &config));
    return wrong ? 1 : 0;
}
