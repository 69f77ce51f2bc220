// measure.c - times how a value gets from one GPU to another by a copy, and from one stream to another of one GPU by an event;
// and that what arrives is what was sent. Before it: device/measure.c. After it: measure_nccl.c.
#include "device/cuda/measure.h"
#include "base/clock.h"
#include "device/measure.h"

// ---- the two sides ----

static ppl_status on(const ppl_cuda_pair *p, int32_t side) {
    return ppl_cuda_check("cudaSetDevice", cudaSetDevice(p->gpu[side]));
}

static ppl_status side_open(ppl_cuda_pair *p, int32_t side) {
    PPL_TRY(ppl_cuda_usable(p->gpu[side]));
    PPL_TRY(ppl_cuda_check("cudaStreamCreateWithFlags",
                           cudaStreamCreateWithFlags(&p->stream[side], cudaStreamNonBlocking)));
    PPL_TRY(ppl_cuda_check("cudaMalloc", cudaMalloc(&p->buffer[side], p->bytes)));
    return ppl_cuda_check("cudaEventCreateWithFlags",
                          cudaEventCreateWithFlags(&p->ready[side], cudaEventDisableTiming));
}

// Whether nothing is under way any more; what does not end is waited for a while, and then left to the process's end.
static bool quiet(const ppl_cuda_pair *p) {
    enum { GRACE = 5 }; // seconds
    int64_t until = ppl_now() + (int64_t)GRACE * 1000000000;
    for (int32_t i = 0; i < 2; i++) {
        while (p->stream[i] && cudaStreamQuery(p->stream[i]) == cudaErrorNotReady) {
            if (ppl_now() > until) return false;
            ppl_wait_until(ppl_now() + 100000, NULL);
        }
    }
    return true;
}

// A buffer is of use to both sides: nothing goes before both are quiet.
static void pair_close(ppl_cuda_pair *p) {
    bool still = quiet(p);
    for (int32_t i = 0; i < 2 && still; i++) {
        if (on(p, i) != PPL_OK) continue;
        if (p->stream[i]) cudaStreamDestroy(p->stream[i]);
        if (p->buffer[i]) cudaFree(p->buffer[i]);
        if (p->ready[i]) cudaEventDestroy(p->ready[i]);
        if (i == 1 && p->timer[0]) cudaEventDestroy(p->timer[0]);
        if (i == 1 && p->timer[1]) cudaEventDestroy(p->timer[1]);
    }
    ppl_free(p->host);
    cudaGetLastError();
}

// Work of the null stream, which the pair's streams do not wait for, is done.
static ppl_status null_stream_await(const ppl_cuda_pair *p, int32_t side) {
    PPL_TRY(on(p, side));
    return ppl_cuda_check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// Numbers without order, the same every time.
static ppl_status pattern_send(ppl_cuda_pair *p) {
    uint32_t state = 1;
    for (size_t i = 0; i < p->bytes; i++) p->host[i] = (char)((state = state * 1664525 + 1013904223) >> 24);
    PPL_TRY(on(p, 1));
    PPL_TRY(ppl_cuda_check("cudaMemset", cudaMemset(p->buffer[1], 0, p->bytes)));
    PPL_TRY(on(p, 0));
    PPL_TRY(ppl_cuda_check("cudaMemcpy", cudaMemcpy(p->buffer[0], p->host, p->bytes, cudaMemcpyHostToDevice)));
    PPL_TRY(null_stream_await(p, 0));
    return null_stream_await(p, 1);
}

static ppl_status pattern_check(ppl_cuda_pair *p, const char *what) {
    char *back = ppl_alloc(p->bytes);
    if (!back) return PPL_ERR_MEMORY;
    ppl_status st = on(p, 1);
    if (st == PPL_OK)
        st = ppl_cuda_check("cudaMemcpy", cudaMemcpy(back, p->buffer[1], p->bytes, cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; st == PPL_OK && i < p->bytes; i++) wrong += back[i] != p->host[i];
    ppl_free(back);
    if (st != PPL_OK || !wrong) return st;
    return ppl_fail(
        PPL_ERR_DEVICE,
        "link: %s from GPU %d to GPU %d: %zu of %zu bytes arrived wrong, want direct access between GPUs to work: "
        "the IOMMU and PCIe access control keep it from that (nvidia-smi topo -p2p r); NCCL_P2P_DISABLE=1 goes "
        "through the host",
        what, p->gpu[0], p->gpu[1], wrong, p->bytes);
}

static ppl_status pair_open(ppl_cuda_pair *p, int32_t from, int32_t to, size_t bytes, double seconds) {
    *p = (ppl_cuda_pair){.gpu = {from, to}, .bytes = bytes};
    p->until = ppl_now() + (int64_t)(seconds * 1e9);
    p->host = ppl_alloc(bytes);
    if (!p->host) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < 2; i++) PPL_TRY(side_open(p, i));
    for (int32_t i = 0; i < 2; i++)
        PPL_TRY(ppl_cuda_check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&p->timer[i], cudaEventDefault)));
    return pattern_send(p);
}

ppl_status ppl_cuda_pair_mark(ppl_cuda_pair *p, int32_t which) {
    PPL_TRY(on(p, 1));
    return ppl_cuda_check("cudaEventRecord", cudaEventRecord(p->timer[which], p->stream[1]));
}

ppl_status ppl_cuda_pair_time(ppl_cuda_pair *p, const char *what, double *out) {
    float ms = 0;
    cudaError_t e;
    while ((e = cudaEventQuery(p->timer[1])) == cudaErrorNotReady && ppl_now() < p->until)
        ppl_wait_until(ppl_now() + 20000, NULL);
    if (e == cudaErrorNotReady) {
        cudaGetLastError();
        return ppl_fail(PPL_ERR_STALL,
                        "link: %s from GPU %d to GPU %d does not end, want direct access between GPUs to work "
                        "(nvidia-smi topo -p2p r; NCCL_P2P_DISABLE=1 goes through the host; NCCL_DEBUG=INFO says more)",
                        what, p->gpu[0], p->gpu[1]);
    }
    PPL_TRY(ppl_cuda_check("cudaEventQuery", e));
    PPL_TRY(ppl_cuda_check("cudaEventElapsedTime", cudaEventElapsedTime(&ms, p->timer[0], p->timer[1])));
    *out = (double)ms * 1e-3;
    return PPL_OK;
}

// ---- handing over on one GPU ----

// One stream goes on where the other has come to.
static ppl_status hand_over(ppl_cuda_pair *p, int32_t from) {
    PPL_TRY(ppl_cuda_check("cudaEventRecord", cudaEventRecord(p->ready[from], p->stream[from])));
    return ppl_cuda_check("cudaStreamWaitEvent", cudaStreamWaitEvent(p->stream[1 - from], p->ready[from], 0));
}

static void CUDART_CB hold(void *open) {
    while (!atomic_load((atomic_bool *)open)) ppl_wait_until(ppl_now() + 10000, NULL);
}

static ppl_status hand_over_often(ppl_cuda_pair *p) {
    PPL_TRY(ppl_cuda_pair_mark(p, 0));
    for (int32_t i = 0; i < PPL_MEASURE_ROUNDS; i++) {
        PPL_TRY(hand_over(p, 1));
        PPL_TRY(hand_over(p, 0));
    }
    return ppl_cuda_pair_mark(p, 1);
}

static ppl_status measure_pointer(ppl_cuda_pair *p, ppl_link_cost *out) {
    double seconds = 0;
    for (int32_t turn = 0; turn < 2; turn++) { // the first warms up
        atomic_bool open = false;
        PPL_TRY(ppl_cuda_check("cudaLaunchHostFunc", cudaLaunchHostFunc(p->stream[1], hold, &open)));
        ppl_status st =
            hand_over_often(p); // the GPU begins when all of it is there: the host's own time does not count
        atomic_store(&open, true);
        ppl_status ended = ppl_cuda_check("cudaStreamSynchronize", cudaStreamSynchronize(p->stream[1]));
        PPL_TRY(st);
        PPL_TRY(ended);
        PPL_TRY(ppl_cuda_pair_time(p, "an event", &seconds));
    }
    out->latency = seconds / (2 * PPL_MEASURE_ROUNDS);
    return PPL_OK;
}

// ---- copies ----

// Direct access where the GPUs have it: without, the driver copies through the host.
static ppl_status peers_enable(ppl_cuda_pair *p) {
    for (int32_t i = 0; i < 2; i++) {
        int can = 0;
        PPL_TRY(ppl_cuda_check("cudaDeviceCanAccessPeer", cudaDeviceCanAccessPeer(&can, p->gpu[i], p->gpu[1 - i])));
        if (!can) continue;
        PPL_TRY(on(p, i));
        cudaError_t e = cudaDeviceEnablePeerAccess(p->gpu[1 - i], 0);
        if (e == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
        else PPL_TRY(ppl_cuda_check("cudaDeviceEnablePeerAccess", e));
    }
    return PPL_OK;
}

// Copies of so many bytes, one after the other; seconds of one.
static ppl_status copies(ppl_cuda_pair *p, size_t bytes, int32_t count, double *out) {
    double seconds = 0;
    for (int32_t turn = 0; turn < 2; turn++) {
        PPL_TRY(ppl_cuda_pair_mark(p, 0));
        for (int32_t i = 0; i < count; i++)
            PPL_TRY(ppl_cuda_check("cudaMemcpyPeerAsync", cudaMemcpyPeerAsync(p->buffer[1], p->gpu[1], p->buffer[0],
                                                                              p->gpu[0], bytes, p->stream[1])));
        PPL_TRY(ppl_cuda_pair_mark(p, 1));
        PPL_TRY(ppl_cuda_pair_time(p, "a copy", &seconds));
    }
    *out = seconds / count;
    return PPL_OK;
}

static ppl_status measure_copy(ppl_cuda_pair *p, ppl_link_cost *out) {
    double one = 0;
    PPL_TRY(peers_enable(p));
    PPL_TRY(
        copies(p, p->bytes < PPL_MEASURE_SMALL ? p->bytes : PPL_MEASURE_SMALL, 2 * PPL_MEASURE_ROUNDS, &out->latency));
    PPL_TRY(copies(p, p->bytes, PPL_MEASURE_COPIES, &one));
    out->bandwidth = one > 0 ? (double)p->bytes / one : 0;
    return pattern_check(p, "a copy");
}

// ---- all ----

static ppl_status way_check(int32_t from, int32_t to, int32_t way) {
    int32_t count = 0;
    PPL_TRY(ppl_gpu_count(&count));
    for (int32_t i = 0; i < 2; i++) {
        int32_t gpu = i ? to : from;
        if (gpu < 0 || gpu >= count)
            return ppl_fail(PPL_ERR_ARG, "GPU %d: there are %d, want 0..%d", gpu, count, count - 1);
    }
    if ((from == to) == (way == PPL_WAY_POINTER)) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "link: from GPU %d to GPU %d by way %d, want %s", from, to, way,
                    from == to ? "handing over" : "a copy or NCCL");
}

ppl_status ppl_cuda_link_measure(int32_t from, int32_t to, int32_t way, size_t bytes, double seconds,
                                 ppl_link_cost *out) {
    PPL_TRY(way_check(from, to, way));
    ppl_cuda_pair p;
    int before = 0;
    cudaGetDevice(&before);
    ppl_status st = pair_open(&p, from, to, bytes, seconds);
    if (st == PPL_OK && way == PPL_WAY_POINTER) st = measure_pointer(&p, out);
    if (st == PPL_OK && way == PPL_WAY_COPY) st = measure_copy(&p, out);
    if (st == PPL_OK && way == PPL_WAY_NCCL) st = ppl_cuda_measure_nccl(&p, out);
    if (st == PPL_OK && way == PPL_WAY_NCCL) st = pattern_check(&p, "NCCL");
    pair_close(&p);
    cudaSetDevice(before);
    return st;
}
