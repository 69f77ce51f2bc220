// samples.h - what samples.cu has: launches of small kernels, sound ones and ones with a fault planted.
#ifndef PPL_TESTS_CUDA_SAMPLES_H
#define PPL_TESTS_CUDA_SAMPLES_H
#include <driver_types.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

void sample_row_sum(float *y, const float *x, int rows, int n, bool barrier, cudaStream_t s);
void sample_ring(int *out, int warps, int turns, bool barrier, cudaStream_t s);
void sample_divergent_barrier(int *out, cudaStream_t s); // out: 64
void sample_two_barriers(int *out, cudaStream_t s);      // out: 64
void sample_wrong_mask(int *out, cudaStream_t s);        // out: 32
void sample_halves(int *out, cudaStream_t s);            // out: 32
void sample_ended_lanes(float *out, cudaStream_t s);     // out: 24
void sample_product(float *c, const void *a, const void *b, int k, bool shared, cudaStream_t s);
void sample_late_copy(uint32_t *to, const uint32_t *from, bool wait, cudaStream_t s); // 16 each
void sample_overrun(int *out, bool dynamic, cudaStream_t s);
void sample_number_blocks(int *out, int *next, cudaStream_t s); // out: 12
void sample_add(float *x, float v, int n, cudaStream_t s);
void sample_much_shared(int *out, int bytes, bool allowed, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
