// measure.h - what a value takes from one GPU to another, or from one stream to another of the same: measure.c times handing
// over and copies, measure_nccl.c NCCL. For `ppl devices --links`, and for nothing that trains.
#ifndef PPL_DEVICE_CUDA_MEASURE_H
#define PPL_DEVICE_CUDA_MEASURE_H
#include "device/cuda/cuda.h"
#include "ppl.h"

enum {
    PPL_MEASURE_SMALL = 8,   // bytes of a message that takes a latency
    PPL_MEASURE_ROUNDS = 50, // there and back
    PPL_MEASURE_COPIES = 8   // of the large message
};

typedef struct ppl_cuda_pair { // [0] sends, [1] receives
    int32_t gpu[2];
    cudaStream_t stream[2];
    void *buffer[2];
    cudaEvent_t timer[2]; // of the receiver's GPU
    cudaEvent_t ready[2]; // by who records it
    size_t bytes;
    char *host;    // what is to arrive
    int64_t until; // ppl_now
} ppl_cuda_pair;

// Waits for the receiver's second timer, no longer than allowed; seconds between the two.
ppl_status ppl_cuda_pair_time(ppl_cuda_pair *p, const char *what, double *out);
// One of two timers into the stream of one side; times are of that side's GPU.
ppl_status ppl_cuda_pair_mark(ppl_cuda_pair *p, int32_t which);

// Latency and bandwidth through a communicator for each direction.
ppl_status ppl_cuda_measure_nccl(ppl_cuda_pair *p, ppl_link_cost *out);

#endif
