// test_device_kernels.c - every kernel of the cuda device against the reference device: the cases of support/kernel_check.h in
// f32 and bf16. On the emulation with the threads of a block going on in three orders; make CUDA=1 gpu_bins builds it for a GPU.
#include "device/device.h"
#include "machine.h"
#include "support/kernel_check.h"
#include <stdlib.h>

typedef struct setting {
    int order;
    int32_t dtype;
    bool rare; // by make cuda-test alone, which sets PPL_TEST_FULL
} setting;

static void test_kernels(void **state) {
    const setting *s = *state;
    const char *only = getenv("PPL_TEST_ONLY");
    if (s->rare && !getenv("PPL_TEST_FULL")) {
        print_message("skipped: in this order only with PPL_TEST_FULL=1\n");
        skip();
    }
    machine_start(s->order);
    ppl_kernel_check check = {.ops = &ppl_device_cuda,
                              .dtype = s->dtype,
                              .threads = 1,
                              .multiplies_bf16 = true,
                              .only = only && *only ? only : NULL};
    ppl_kernel_check_run(&check);
    machine_sound();
}

int main(void) {
    static setting settings[] = {{0, PPL_F32, false}, {1, PPL_F32, true},  {2, PPL_F32, true},
                                 {0, PPL_BF16, true}, {1, PPL_BF16, true}, {2, PPL_BF16, false}};
    const struct CMUnitTest tests[] = {
        {.name = "f32", .test_func = test_kernels, .initial_state = &settings[0]},
#ifdef PPL_EMULATION
        {.name = "bf16, greedy", .test_func = test_kernels, .initial_state = &settings[5]},
#ifndef __SANITIZE_ADDRESS__ // fibers are slow there, and an order changes no address
        {.name = "f32, reverse", .test_func = test_kernels, .initial_state = &settings[1]},
        {.name = "f32, greedy", .test_func = test_kernels, .initial_state = &settings[2]},
        {.name = "bf16, ring", .test_func = test_kernels, .initial_state = &settings[3]},
        {.name = "bf16, reverse", .test_func = test_kernels, .initial_state = &settings[4]},
#endif
#else
        {.name = "bf16", .test_func = test_kernels, .initial_state = &settings[3]},
#endif
    };
    setenv("PPL_CUDA_ATTENTION", "own", 0); // cuDNN's is test_cudnn.c's, and on a GPU gpu_check's
    return cmocka_run_group_tests(tests, NULL, NULL);
}
