// test_vec_avx512.c - test_vec.c once more, on AVX-512.
#define TEST_VEC_AVX512
#include "device/test_vec.c"
