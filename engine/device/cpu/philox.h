// philox.h - Philox4x32-10 for neighbouring counters: the words that base/random.h's single calls give, in their
// order. Before it: dropout.c; after it: vec.h. Counters and products are 32-bit numbers in 64-bit lanes, since that is
// what the multiplication wants; what gathers above the low 32 bits of a lane is not read.
#ifndef PPL_DEVICE_CPU_PHILOX_H
#define PPL_DEVICE_CPU_PHILOX_H
#include "device/cpu/vec.h"

#ifdef __AVX512F__
typedef __m512i wide;
enum { WIDE = 8 }; // 64-bit lanes
#define WIDE_OP(op) _mm512_##op
#define WIDE_XOR    _mm512_xor_si512
PPL_VEC wide wide_set(uint64_t x) {
    return _mm512_set1_epi64((long long)x);
}
// Even 32-bit words of one, odd ones of the other.
PPL_VEC wide wide_blend(wide even, wide odd) {
    return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}
// What is added to the first counter: in this order the words come out in theirs.
PPL_VEC wide wide_count(void) {
    return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
}
#else
typedef __m256i wide;
enum { WIDE = 4 };
#define WIDE_OP(op) _mm256_##op
#define WIDE_XOR    _mm256_xor_si256
PPL_VEC wide wide_set(uint64_t x) {
    return _mm256_set1_epi64x((long long)x);
}
PPL_VEC wide wide_blend(wide even, wide odd) {
    return _mm256_blend_epi32(even, odd, 0xaa);
}
PPL_VEC wide wide_count(void) {
    return _mm256_setr_epi64x(0, 2, 1, 3);
}
#endif

typedef struct philox { // what stays the same from block to block
    wide key[10][2];    // of each round
    wide hi[2];         // the counter's upper half
} philox;

PPL_VEC philox philox_make(uint64_t key, uint64_t hi) {
    philox p = {.hi = {wide_set((uint32_t)hi), wide_set(hi >> 32)}};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        p.key[round][0] = wide_set(k0), p.key[round][1] = wide_set(k1);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return p;
}

// Two blocks of WIDE counters side by side: one alone would wait for its own products most of the time.
enum { PHILOX_WORDS = 8 * WIDE };

// The words of counters lo .. lo + PHILOX_WORDS / 4 - 1.
PPL_VEC void philox_words(const philox *p, uint64_t lo, w16 words[PHILOX_WORDS / 16]) {
    const wide m0 = wide_set(0xD2511F53u), m1 = wide_set(0xCD9E8D57u);
    wide c0[2], c1[2], c2[2], c3[2];
    for (int b = 0; b < 2; b++) {
        c0[b] = WIDE_OP(add_epi64)(wide_set(lo + (uint64_t)(b * WIDE)), wide_count());
        c1[b] = WIDE_OP(srli_epi64)(c0[b], 32), c2[b] = p->hi[0], c3[b] = p->hi[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < 2; b++) {
            wide p0 = WIDE_OP(mul_epu32)(m0, c0[b]), p1 = WIDE_OP(mul_epu32)(m1, c2[b]);
            c0[b] = WIDE_XOR(WIDE_XOR(WIDE_OP(srli_epi64)(p1, 32), c1[b]), p->key[round][0]);
            c2[b] = WIDE_XOR(WIDE_XOR(WIDE_OP(srli_epi64)(p0, 32), c3[b]), p->key[round][1]);
            c1[b] = p1, c3[b] = p0;
        }
    }
    for (int b = 0; b < 2; b++) {
        wide even = wide_blend(c0[b], WIDE_OP(slli_epi64)(c1[b], 32)); // words 0 and 1 of each counter
        wide odd = wide_blend(c2[b], WIDE_OP(slli_epi64)(c3[b], 32));  // words 2 and 3
        wide low = WIDE_OP(unpacklo_epi64)(even, odd), high = WIDE_OP(unpackhi_epi64)(even, odd);
#ifdef __AVX512F__
        words[2 * b] = (w16){low}, words[2 * b + 1] = (w16){high};
#else
        words[b] = (w16){low, high};
#endif
    }
}

#endif
