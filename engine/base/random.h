// random.h - counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). The same (key, counter) gives the same numbers on every device, at any p and in any order.
#ifndef PPL_BASE_RANDOM_H
#define PPL_BASE_RANDOM_H
#include "types.h"

// Four 32-bit numbers for a 64-bit key and a 128-bit counter (hi, lo).
void ppl_philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);
// Hash of a name, FNV-1a 64 with a final mix: what keys random operators and initial weights.
uint64_t ppl_name_key(const char *name);
// Mixes a seed with a key into a Philox key.
uint64_t ppl_mix_key(uint64_t seed, uint64_t key);
// Uniform in [0, 1) with 24 bits.
static inline float ppl_unit(uint32_t bits) {
    return (float)(bits >> 8) * 0x1p-24f;
}

// Dropout's contract, the same on every device: element e of sample n (in the step's batch) in step s under the node's
// key is kept iff word (e & 3) of philox(mix(seed, key), hi = s, lo = n << 40 | e >> 2) is >= p * 2^32 (as u32, rounded down).
#endif
