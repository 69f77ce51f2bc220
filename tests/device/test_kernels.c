// test_kernels.c - every kernel of the cpu device against the reference device, f32 and bf16, on each instruction set of
// this machine, with one thread and with two: the cases of support/kernel_check.h.
#include "device/cpu/cpu.h"
#include "support/kernel_check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct setting {
    const char *isa;
    int32_t dtype;
} setting;

static void test_kernels(void **state) {
    const setting *s = *state;
    if (ppl_cpu_isa_set(s->isa) != PPL_OK) {
        print_message("skipped: %s\n", ppl_error());
        skip();
    }
    ppl_kernel_check check = {
        .ops = &ppl_device_cpu, .dtype = s->dtype, .threads = PPL_TEST_THREADS, .multiplies_bf16 = ppl_cpu_bf16() != 0};
    ppl_kernel_check_run(&check);
}

int main(void) {
    static setting settings[] = {{"avx2", PPL_F32}, {"avx2", PPL_BF16}, {"avx512", PPL_F32}, {"avx512", PPL_BF16}};
    const struct CMUnitTest tests[] = {
        {.name = "avx2 f32", .test_func = test_kernels, .initial_state = &settings[0]},
        {.name = "avx2 bf16", .test_func = test_kernels, .initial_state = &settings[1]},
        {.name = "avx512 f32", .test_func = test_kernels, .initial_state = &settings[2]},
        {.name = "avx512 bf16", .test_func = test_kernels, .initial_state = &settings[3]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
