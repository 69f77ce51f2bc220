// test_measure.c - links measured on the emulation: each way between GPUs and on one, between threads; what is refused, what
// fails and in which words, and that nothing stays open. Times mean nothing here and are not looked at.
#include "device/device.h"
#include "emulation/emulation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { BYTES = 100000 };

static int start(void **state) {
    (void)state;
    emu_reset();
    emu_set_devices(2);
    return 0;
}

static void nothing_open(void) {
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events + left.communicators, 0);
}

static void measures(const char *device, int32_t from, int32_t to, int32_t way, bool copies) {
    ppl_link_cost cost;
    if (ppl_link_measure(device, from, to, way, BYTES, 30, &cost) != PPL_OK) fail_msg("%s", ppl_error());
    assert_true(cost.latency > 0);
    assert_true(copies ? cost.bandwidth > 0 : cost.bandwidth == 0);
    assert_string_equal(emu_report(), "");
    nothing_open();
}

static void refuses(ppl_status want, const char *device, int32_t from, int32_t to, int32_t way, int64_t bytes,
                    const char *words) {
    ppl_link_cost cost;
    ppl_status is = ppl_link_measure(device, from, to, way, bytes, 30, &cost);
    if (is != want || !strstr(ppl_error(), words)) fail_msg("\"%s\" does not say \"%s\"", ppl_error(), words);
    nothing_open();
}

static void test_ways(void **state) {
    (void)state;
    measures("cpu", 0, 1, PPL_WAY_POINTER, false);
    for (uint64_t seed = 0; seed < 3; seed++) {
        emu_set_seed(seed);
        measures("cuda", 1, 1, PPL_WAY_POINTER, false);
        measures("cuda", 0, 1, PPL_WAY_COPY, true);
        measures("cuda", 1, 0, PPL_WAY_NCCL, true);
        measures("cuda", 0, 1, PPL_WAY_COPY, true); // access to the other is there already
    }
    emu_set_peers(0);
    measures("cuda", 0, 1, PPL_WAY_COPY, true);
}

static void test_refused(void **state) {
    (void)state;
    refuses(PPL_ERR_ARG, "cuda", 0, 2, PPL_WAY_COPY, 8, "GPU 2: there are 2, want 0..1");
    refuses(PPL_ERR_ARG, "cuda", -1, 0, PPL_WAY_COPY, 8, "GPU -1");
    refuses(PPL_ERR_ARG, "cuda", 1, 1, PPL_WAY_NCCL, 8, "want handing over");
    refuses(PPL_ERR_ARG, "cuda", 0, 1, PPL_WAY_POINTER, 8, "want a copy or NCCL");
    refuses(PPL_ERR_ARG, "cuda", 0, 1, PPL_WAYS, 8, "way 3, want 0..2");
    refuses(PPL_ERR_ARG, "cuda", 0, 1, PPL_WAY_COPY, 0, "0 bytes");
    refuses(PPL_ERR_ARG, "cpu", 0, 1, PPL_WAY_NCCL, 8, "want handing over");
    emu_set_probe(35);
    refuses(PPL_ERR_DEVICE, "cuda", 0, 1, PPL_WAY_NCCL, 8, "no NVIDIA driver");
}

static void test_failures(void **state) {
    (void)state;
    emu_fail(EMU_FAULT_MALLOC, 2);
    refuses(PPL_ERR_MEMORY, "cuda", 0, 1, PPL_WAY_COPY, BYTES, "out of memory");
    emu_set_nccl_version(21803);
    refuses(PPL_ERR_DEVICE, "cuda", 0, 1, PPL_WAY_NCCL, BYTES, "2.18.3");
    emu_set_nccl_version(0);
    emu_fail(EMU_FAULT_INIT, 1);
    refuses(PPL_ERR_DEVICE, "cuda", 0, 1, PPL_WAY_NCCL, BYTES,
            "link nccl: ncclCommInitRankConfig between GPU 0 and GPU 1");
    emu_fail(EMU_FAULT_NCCL, 9);
    refuses(PPL_ERR_DEVICE, "cuda", 0, 1, PPL_WAY_NCCL, BYTES, "a planted error");
    emu_fail(EMU_FAULT_NCCL_ASYNC, 9);
    refuses(PPL_ERR_DEVICE, "cuda", 0, 1, PPL_WAY_NCCL, BYTES, "a planted asynchronous error");
    measures("cuda", 0, 1, PPL_WAY_NCCL, true);
}

// A message that never arrives: the deadline ends it.
static void test_deadline(void **state) {
    (void)state;
    ppl_link_cost cost;
    assert_int_equal(ppl_link_measure("cuda", 0, 1, PPL_WAY_COPY, BYTES, 1e-9, &cost), PPL_ERR_STALL);
    assert_non_null(strstr(ppl_error(), "a copy from GPU 0 to GPU 1 does not end"));
    nothing_open();
    assert_int_equal(ppl_link_measure("cuda", 0, 1, PPL_WAY_NCCL, BYTES, 1e-9, &cost), PPL_ERR_STALL);
    assert_non_null(strstr(ppl_error(), "does not end"));
    nothing_open();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ways, start),
        cmocka_unit_test_setup(test_refused, start),
        cmocka_unit_test_setup(test_failures, start),
        cmocka_unit_test_setup(test_deadline, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
