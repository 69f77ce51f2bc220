// ranks.h - ranks as threads, for the tests of NCCL's emulation: what a thread wants and does not get is kept, and fails
// the test when all have ended (cmocka's own checks may not leave another thread).
#ifndef PPL_TESTS_CUDA_RANKS_H
#define PPL_TESTS_CUDA_RANKS_H
#include "support.h"
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic(const char *) rank_wanted; // the first thing that was not so
#define TEXT_OF_(x) #x
#define TEXT_OF(x)  TEXT_OF_(x)
#define WANT(x)                                                                                                        \
    do {                                                                                                               \
        const char *none_ = NULL;                                                                                      \
        if (!(x)) atomic_compare_exchange_strong(&rank_wanted, &none_, "line " TEXT_OF(__LINE__) ": " #x);             \
    } while (0)
#define GO(call) WANT((int)(call) == 0)

static pthread_barrier_t rank_barrier;
// All ranks come here before one goes on.
static inline void ranks_meet(void) {
    pthread_barrier_wait(&rank_barrier);
}

typedef struct rank_start {
    void (*main)(int rank, int size);
    int rank, size;
} rank_start;

static void *rank_thread(void *at) {
    rank_start *r = at;
    GO(cudaSetDevice(r->rank));
    r->main(r->rank, r->size);
    return NULL;
}

// Runs main in a thread for each rank, rank r on device r, and waits for all.
static inline void run_ranks(int size, void (*main)(int rank, int size)) {
    pthread_t thread[16];
    rank_start start[16];
    atomic_store(&rank_wanted, NULL);
    pthread_barrier_init(&rank_barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        start[r] = (rank_start){main, r, size};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_thread, &start[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&rank_barrier);
    const char *wanted = atomic_load(&rank_wanted);
    if (wanted) fail_msg("%s", wanted);
}

static inline cudaStream_t rank_stream(void) {
    cudaStream_t s = NULL;
    GO(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static inline float *rank_buffer(int n, float value) {
    float *p = NULL, host[64];
    for (int i = 0; i < n; i++) host[i] = value + (float)i;
    GO(cudaMalloc((void **)&p, (size_t)n * sizeof *p));
    GO(cudaMemcpy(p, host, (size_t)n * sizeof *p, cudaMemcpyHostToDevice));
    return p;
}
// The number at p, when all that the stream has is done.
static inline float rank_value(const float *p, cudaStream_t s) {
    float v = 0;
    GO(cudaStreamSynchronize(s));
    GO(cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}
#endif
