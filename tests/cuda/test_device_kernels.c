// test_device_kernels.c - every kernel of the cuda device, on the emulation, against the reference device: the cases of
// support/kernel_check.h in f32 and bf16, with the threads of a block going on in three orders, and its blocks in a random one.
#include "device/device.h"
#include "emulation/emulation.h"
#include "support/kernel_check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct setting {
    emu_order order;
    int32_t dtype;
} setting;

static void test_kernels(void **state) {
    const setting *s = *state;
    emu_reset();
    emu_set_order(s->order);
    emu_set_seed(7);
    ppl_kernel_check check = {.ops = &ppl_device_cuda,
                              .dtype = s->dtype,
                              .threads = 1,
                              .multiplies_bf16 = true,
                              .only = getenv("PPL_TEST_ONLY")};
    ppl_kernel_check_run(&check);
    assert_string_equal(emu_report(), "");
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events, 0);
}

int main(void) {
    static setting settings[] = {{EMU_RING, PPL_F32},  {EMU_REVERSE, PPL_F32},  {EMU_GREEDY, PPL_F32},
                                 {EMU_RING, PPL_BF16}, {EMU_REVERSE, PPL_BF16}, {EMU_GREEDY, PPL_BF16}};
    const struct CMUnitTest tests[] = {
        {.name = "f32, ring", .test_func = test_kernels, .initial_state = &settings[0]},
        {.name = "bf16, greedy", .test_func = test_kernels, .initial_state = &settings[5]},
#ifndef __SANITIZE_ADDRESS__ // fibers are slow there, and an order changes no address
        {.name = "f32, reverse", .test_func = test_kernels, .initial_state = &settings[1]},
        {.name = "f32, greedy", .test_func = test_kernels, .initial_state = &settings[2]},
        {.name = "bf16, ring", .test_func = test_kernels, .initial_state = &settings[3]},
        {.name = "bf16, reverse", .test_func = test_kernels, .initial_state = &settings[4]},
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
