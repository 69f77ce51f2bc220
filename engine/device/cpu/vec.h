// vec.h - 16 numbers of f32 at a time: one register on AVX-512, two on AVX2, and the same bits on both. Before it: the
// kernels of this folder, compiled once per instruction set; after it: vec_math.h (exp and what is made of it).
//
// Where the order of a sum matters it is fixed here: lane i holds elements i, i + 16, i + 32, ..., and lanes are folded
// as 8 + 8, 4 + 4, 2 + 2, 1 + 1. Nothing is contracted (-ffp-contract=off): a fused multiply-add is written v16_fma.
#ifndef PPL_DEVICE_CPU_VEC_H
#define PPL_DEVICE_CPU_VEC_H
#include "base/numbers.h"
#include <immintrin.h>

#define PPL_VEC static inline __attribute__((always_inline))

#ifdef __AVX512F__
typedef struct v16 {
    __m512 v;
} v16; // f32
typedef struct w16 {
    __m512i v;
} w16; // 32-bit words
typedef struct m16 {
    __mmask16 v;
} m16; // a choice per lane

// OP applied to the whole of it.
#define PPL_VEC_1(type, op512, op256, x)       ((type){op512((x).v)})
#define PPL_VEC_2(type, op512, op256, x, y)    ((type){op512((x).v, (y).v)})
#define PPL_VEC_3(type, op512, op256, x, y, z) ((type){op512((x).v, (y).v, (z).v)})
#else
typedef struct v16 {
    __m256 a, b;
} v16; // lanes 0..7, 8..15
typedef struct w16 {
    __m256i a, b;
} w16;
typedef struct m16 {
    __m256 a, b;
} m16; // all bits of a lane set or none

#define PPL_VEC_1(type, op512, op256, x)       ((type){op256((x).a), op256((x).b)})
#define PPL_VEC_2(type, op512, op256, x, y)    ((type){op256((x).a, (y).a), op256((x).b, (y).b)})
#define PPL_VEC_3(type, op512, op256, x, y, z) ((type){op256((x).a, (y).a, (z).a), op256((x).b, (y).b, (z).b)})
#endif

// ---- arithmetic
// ------------------------------------------------------------------------------------------------------

PPL_VEC v16 v16_add(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_add_ps, _mm256_add_ps, x, y);
}
PPL_VEC v16 v16_sub(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_sub_ps, _mm256_sub_ps, x, y);
}
PPL_VEC v16 v16_mul(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_mul_ps, _mm256_mul_ps, x, y);
}
PPL_VEC v16 v16_div(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_div_ps, _mm256_div_ps, x, y);
}
// x y + z, and z - x y: rounded once.
PPL_VEC v16 v16_fma(v16 x, v16 y, v16 z) {
    return PPL_VEC_3(v16, _mm512_fmadd_ps, _mm256_fmadd_ps, x, y, z);
}
PPL_VEC v16 v16_fnma(v16 x, v16 y, v16 z) {
    return PPL_VEC_3(v16, _mm512_fnmadd_ps, _mm256_fnmadd_ps, x, y, z);
}
PPL_VEC v16 v16_sqrt(v16 x) {
    return PPL_VEC_1(v16, _mm512_sqrt_ps, _mm256_sqrt_ps, x);
}
// x > y ? x : y, and x < y ? x : y: y where either is NaN, so a bound stands first.
PPL_VEC v16 v16_max(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_max_ps, _mm256_max_ps, x, y);
}
PPL_VEC v16 v16_min(v16 x, v16 y) {
    return PPL_VEC_2(v16, _mm512_min_ps, _mm256_min_ps, x, y);
}

PPL_VEC w16 w16_add(w16 x, w16 y) {
    return PPL_VEC_2(w16, _mm512_add_epi32, _mm256_add_epi32, x, y);
}
PPL_VEC w16 w16_sub(w16 x, w16 y) {
    return PPL_VEC_2(w16, _mm512_sub_epi32, _mm256_sub_epi32, x, y);
}
PPL_VEC w16 w16_and(w16 x, w16 y) {
    return PPL_VEC_2(w16, _mm512_and_si512, _mm256_and_si256, x, y);
}
PPL_VEC w16 w16_or(w16 x, w16 y) {
    return PPL_VEC_2(w16, _mm512_or_si512, _mm256_or_si256, x, y);
}
PPL_VEC w16 w16_xor(w16 x, w16 y) {
    return PPL_VEC_2(w16, _mm512_xor_si512, _mm256_xor_si256, x, y);
}
// The same bits as the other type.
PPL_VEC w16 v16_bits(v16 x) {
    return PPL_VEC_1(w16, _mm512_castps_si512, _mm256_castps_si256, x);
}
PPL_VEC v16 w16_float(w16 x) {
    return PPL_VEC_1(v16, _mm512_castsi512_ps, _mm256_castsi256_ps, x);
}

#ifdef __AVX512F__
PPL_VEC v16 v16_set(float x) {
    return (v16){_mm512_set1_ps(x)};
}
PPL_VEC w16 w16_set(uint32_t x) {
    return (w16){_mm512_set1_epi32((int)x)};
}
#define w16_left(x, bits)          ((w16){_mm512_slli_epi32((x).v, bits)})
#define w16_right(x, bits)         ((w16){_mm512_srli_epi32((x).v, bits)})
#define PPL_VEC_COMPARE(x, y, how) ((m16){_mm512_cmp_ps_mask((x).v, (y).v, how)})
PPL_VEC v16 v16_keep(m16 m, v16 x) {
    return (v16){_mm512_maskz_mov_ps(m.v, x.v)};
}
PPL_VEC v16 v16_select(m16 m, v16 yes, v16 no) {
    return (v16){_mm512_mask_blend_ps(m.v, no.v, yes.v)};
}
PPL_VEC m16 w16_less(w16 x, w16 y) {
    return (m16){_mm512_cmplt_epu32_mask(x.v, y.v)};
}
#else
PPL_VEC v16 v16_set(float x) {
    return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
PPL_VEC w16 w16_set(uint32_t x) {
    return (w16){_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)};
}
#define w16_left(x, bits)          ((w16){_mm256_slli_epi32((x).a, bits), _mm256_slli_epi32((x).b, bits)})
#define w16_right(x, bits)         ((w16){_mm256_srli_epi32((x).a, bits), _mm256_srli_epi32((x).b, bits)})
#define PPL_VEC_COMPARE(x, y, how) ((m16){_mm256_cmp_ps((x).a, (y).a, how), _mm256_cmp_ps((x).b, (y).b, how)})
PPL_VEC v16 v16_keep(m16 m, v16 x) {
    return (v16){_mm256_and_ps(m.a, x.a), _mm256_and_ps(m.b, x.b)};
}
PPL_VEC v16 v16_select(m16 m, v16 yes, v16 no) {
    return (v16){_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
PPL_VEC m16 w16_less(w16 x, w16 y) { // AVX2 compares signed words: both are shifted by 2^31
    w16 s = w16_set(0x80000000u), p = w16_xor(x, s), q = w16_xor(y, s);
    return (m16){_mm256_castsi256_ps(_mm256_cmpgt_epi32(q.a, p.a)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(q.b, p.b))};
}
#endif
// Comparisons; false where either is NaN, but for not_less. w16_less is of unsigned words. v16_keep: x, or 0.
PPL_VEC m16 v16_less(v16 x, v16 y) {
    return PPL_VEC_COMPARE(x, y, _CMP_LT_OQ);
}
PPL_VEC m16 v16_not_less(v16 x, v16 y) {
    return PPL_VEC_COMPARE(x, y, _CMP_NLT_UQ);
}
PPL_VEC m16 v16_isnan(v16 x) {
    return PPL_VEC_COMPARE(x, x, _CMP_UNORD_Q);
}

PPL_VEC v16 v16_abs(v16 x) {
    return w16_float(w16_and(v16_bits(x), w16_set(0x7fffffffu)));
}
PPL_VEC v16 v16_neg(v16 x) {
    return w16_float(w16_xor(v16_bits(x), w16_set(0x80000000u)));
}

// ---- memory
// ----------------------------------------------------------------------------------------------------------

// The first n lanes, 0 <= n <= 16.
PPL_VEC m16 m16_first(int n) {
#ifdef __AVX512F__
    return (m16){(__mmask16)((1u << n) - 1)};
#else
    __m256i a = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), c = _mm256_set1_epi32(n);
    __m256i b = _mm256_add_epi32(a, _mm256_set1_epi32(8));
    return (m16){_mm256_castsi256_ps(_mm256_cmpgt_epi32(c, a)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(c, b))};
#endif
}

// Full loads and stores want no alignment. The _part forms touch n numbers, 0 <= n <= 16; the other lanes read as 0.
#ifdef __AVX512F__
PPL_VEC v16 v16_load(const float *p) {
    return (v16){_mm512_loadu_ps(p)};
}
PPL_VEC void v16_store(float *p, v16 x) {
    _mm512_storeu_ps(p, x.v);
}
PPL_VEC v16 v16_load_part(const float *p, int n) {
    return (v16){_mm512_maskz_loadu_ps(m16_first(n).v, p)};
}
PPL_VEC void v16_store_part(float *p, v16 x, int n) {
    _mm512_mask_storeu_ps(p, m16_first(n).v, x.v);
}
PPL_VEC w16 w16_load(const void *p) {
    return (w16){_mm512_loadu_si512(p)};
}
PPL_VEC void w16_store(void *p, w16 x) {
    _mm512_storeu_si512(p, x.v);
}
#else
PPL_VEC v16 v16_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
PPL_VEC void v16_store(float *p, v16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
PPL_VEC v16 v16_load_part(const float *p, int n) {
    m16 m = m16_first(n);
    return (v16){_mm256_maskload_ps(p, _mm256_castps_si256(m.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
PPL_VEC void v16_store_part(float *p, v16 x, int n) {
    m16 m = m16_first(n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
PPL_VEC w16 w16_load(const void *p) {
    return (w16){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
PPL_VEC void w16_store(void *p, w16 x) {
    _mm256_storeu_si256(p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}
#endif

// bf16 is widened exactly, and rounded to nearest even as ppl_bf16_from_f32 does, to the bit.
PPL_VEC v16 v16_load_bf16(const ppl_bf16 *p) {
#ifdef __AVX512F__
    __m256i h = _mm256_loadu_si256((const __m256i *)p);
    return (v16){_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
#else
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
#endif
}
// Rounded to bf16, as words whose upper halves are 0.
PPL_VEC w16 v16_round_bf16(v16 x) {
    w16 u = v16_bits(x), high = w16_right(u, 16);
    w16 r = w16_right(w16_add(w16_add(u, w16_set(0x7fff)), w16_and(high, w16_set(1))), 16);
    return v16_bits(v16_select(v16_isnan(x), w16_float(w16_or(high, w16_set(0x40))), w16_float(r)));
}
PPL_VEC void v16_store_bf16(ppl_bf16 *p, v16 x) {
    w16 r = v16_round_bf16(x);
#ifdef __AVX512F__
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(r.v));
#else
    __m256i both = _mm256_packus_epi32(r.a, r.b); // per 128 bits: a low, b low, a high, b high
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xd8));
#endif
}
PPL_VEC v16 v16_load_bf16_part(const ppl_bf16 *p, int n) {
    ppl_bf16 h[16] = {0};
    for (int i = 0; i < n; i++) h[i] = p[i];
    return v16_load_bf16(h);
}
PPL_VEC void v16_store_bf16_part(ppl_bf16 *p, v16 x, int n) {
    ppl_bf16 h[16];
    v16_store_bf16(h, x);
    for (int i = 0; i < n; i++) p[i] = h[i];
}
// The value that a store in bf16 and a load give.
PPL_VEC v16 v16_as_bf16(v16 x) {
    return w16_float(w16_left(v16_round_bf16(x), 16));
}

// By dtype (F32 or BF16), n lanes from element i on: with both known where it is inlined, nothing is decided at run
// time.
PPL_VEC v16 v16_get(const void *p, int32_t dtype, int64_t i, int n) {
    if (dtype == PPL_BF16)
        return n == 16 ? v16_load_bf16((const ppl_bf16 *)p + i) : v16_load_bf16_part((const ppl_bf16 *)p + i, n);
    return n == 16 ? v16_load((const float *)p + i) : v16_load_part((const float *)p + i, n);
}
PPL_VEC void v16_put(void *p, int32_t dtype, int64_t i, v16 x, int n) {
    if (dtype == PPL_BF16) {
        if (n == 16) v16_store_bf16((ppl_bf16 *)p + i, x);
        else v16_store_bf16_part((ppl_bf16 *)p + i, x, n);
    } else if (n == 16) {
        v16_store((float *)p + i, x);
    } else {
        v16_store_part((float *)p + i, x, n);
    }
}

// ---- over the lanes
// --------------------------------------------------------------------------------------------------

#ifdef __AVX512F__
PPL_VEC __m256 v16_low(v16 x) {
    return _mm512_castps512_ps256(x.v);
}
PPL_VEC __m256 v16_high(v16 x) {
    return _mm512_extractf32x8_ps(x.v, 1);
}
#else
PPL_VEC __m256 v16_low(v16 x) {
    return x.a;
}
PPL_VEC __m256 v16_high(v16 x) {
    return x.b;
}
#endif
PPL_VEC float v16_sum(v16 x) {
    __m256 e = _mm256_add_ps(v16_low(x), v16_high(x));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
PPL_VEC float v16_largest(v16 x) { // no lane is NaN
    __m256 e = _mm256_max_ps(v16_low(x), v16_high(x));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// 16 sums in f64: where many f32 numbers meet and their errors would add up.
typedef struct d16 {
    __m256d q[4];
} d16; // lanes 4 i .. 4 i + 3
PPL_VEC d16 d16_zero(void) {
    __m256d z = _mm256_setzero_pd();
    return (d16){{z, z, z, z}};
}
PPL_VEC d16 v16_widen(v16 x) {
    __m256 a = v16_low(x), b = v16_high(x);
    return (d16){{_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)),
                  _mm256_cvtps_pd(_mm256_castps256_ps128(b)), _mm256_cvtps_pd(_mm256_extractf128_ps(b, 1))}};
}
PPL_VEC d16 d16_add(d16 x, d16 y) {
    for (int i = 0; i < 4; i++) x.q[i] = _mm256_add_pd(x.q[i], y.q[i]);
    return x;
}
PPL_VEC d16 d16_fma(d16 x, d16 y, d16 z) {
    for (int i = 0; i < 4; i++) z.q[i] = _mm256_fmadd_pd(x.q[i], y.q[i], z.q[i]);
    return z;
}
PPL_VEC double d16_sum(d16 x) {
    __m256d e = _mm256_add_pd(_mm256_add_pd(x.q[0], x.q[2]), _mm256_add_pd(x.q[1], x.q[3]));
    __m128d h = _mm_add_pd(_mm256_castpd256_pd128(e), _mm256_extractf128_pd(e, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
}

#endif
