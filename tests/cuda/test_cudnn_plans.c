// test_cudnn_plans.c - attention's graphs before the real cuDNN, without a GPU: for the description of an H200 it has to find
// an engine for every usual shape and to make a plan, whose workspace is held against what is known of it. Nothing runs. A
// plan takes a second, most of it in the library's compiler: two by default, all of them with PPL_TEST_FULL=1.
#include "device/cuda/cudnn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char h200[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"deviceVer\": 900, "
    "\"driverVer\": 13000, \"multiProcessorCount\": 132, \"regsPerBlock\": 65536, \"smClockRateKHz\": 1980000, "
    "\"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
    "\"pciDeviceId\": 0, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"cudaDeviceId\": 0, \"totalGlobalMem\": 150754820096, "
    "\"deviceName\": \"NVIDIA H200\"}";

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

static ppl_cudnn_shape shape_of(int64_t time, int64_t size, int64_t kv_heads, bool causal, bool backward) {
    ppl_cudnn_shape s = {.batch = 2, .time = time, .heads = 8, .kv_heads = kv_heads, .size = size};
    s.q_row = s.kv_row = (s.heads + 2 * kv_heads) * size; // as one projection gives them
    s.o_row = s.heads * size;
    s.causal = causal;
    s.backward = backward;
    return s;
}

static void served(ppl_cudnn *c, ppl_cudnn_shape s) {
    ppl_cudnn_plan *p, *again;
    OK(ppl_cudnn_plan_get(c, &s, &p));
    size_t bytes = ppl_cudnn_plan_workspace(p), numbers = (size_t)(s.batch * s.heads * s.time);
    const char *why = ppl_cudnn_plan_why(p);
    if (why) fail_msg("%d positions, heads of %d: %s", (int)s.time, (int)s.size, why);
    assert_true(ppl_cudnn_plan_engine(p) >= 0);
    if (!s.backward) {
        assert_true(bytes < 1 << 20);
    } else { // what a score's gradient takes in bf16, tiles of 64 x 128; dk and dv of all heads; and little more
        size_t tiles = (size_t)(s.batch * s.heads * ((s.time + 63) / 64 * 64) * ((s.time + 127) / 128 * 128)) * 2;
        assert_true(bytes >= numbers * (size_t)s.time * 2);
        assert_true(bytes <= tiles + (s.heads == s.kv_heads ? 0 : 2 * numbers * (size_t)s.size * 2) + (1 << 16));
        assert_true(ppl_cudnn_plan_scratch(p) >= bytes + numbers * 4);
    }
    OK(ppl_cudnn_plan_get(c, &s, &again));
    assert_ptr_equal(p, again);
}

static bool full(void) {
    return getenv("PPL_TEST_FULL") != NULL;
}

static ppl_cudnn *opened(void) {
    ppl_cudnn *c;
    OK(ppl_cudnn_open(h200, &c));
    return c;
}

static void every_served(ppl_cudnn *c) {
    static const int64_t times[] = {128, 512, 1000, 1024, 2048, 4096};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 8; k++) served(c, shape_of(times[i], k & 1 ? 128 : 64, k & 2 ? 2 : 8, true, k & 4));
    for (int k = 0; k < 4; k++) served(c, shape_of(256, k & 1 ? 128 : 64, 8, false, k & 2));
    for (int k = 0; k < 2; k++) served(c, shape_of(96, 40, 1, true, k));
}

static void test_served(void **state) {
    (void)state;
    ppl_cudnn *c = opened();
    if (full()) {
        every_served(c);
    } else {
        served(c, shape_of(1024, 64, 8, true, false));
        served(c, shape_of(100, 128, 2, true, true));
    }
    ppl_cudnn_close(c);
}

// What it has no plan for, or none within bounds, and the words of that.
static void test_unserved(void **state) {
    (void)state;
    ppl_cudnn *c = opened();
    ppl_cudnn_shape s[] = {shape_of(64, 264, 8, true, true), shape_of(64, 12, 8, true, false),
                           shape_of(32768, 64, 8, true, true)};
    static const char *const words[] = {"has no engine for it", "heads of a multiple of 8 numbers",
                                        "GiB of workspace for it, want 8.78 at most, 1/16 of the GPU's"};
    for (int i = 0; i < (full() ? 3 : 2); i++) {
        ppl_cudnn_plan *p;
        OK(ppl_cudnn_plan_get(c, &s[i], &p));
        const char *why = ppl_cudnn_plan_why(p);
        if (!why || !strstr(why, words[i])) fail_msg("\"%s\" does not say \"%s\"", why ? why : "served", words[i]);
    }
    ppl_cudnn_close(c);
    assert_int_not_equal(ppl_cudnn_open("{}", &c), PPL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_served), cmocka_unit_test(test_unserved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
