// machine.h - what a test that runs on a GPU and on the emulation alike says of the machine: how threads take turns, and
// whether anything was found wrong. On a GPU threads run as they do, and the runtime's last error is all there is.
#ifndef PPL_TESTS_CUDA_MACHINE_H
#define PPL_TESTS_CUDA_MACHINE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef PPL_EMULATION
#include "emulation/emulation.h"

// Threads of a block go on in order `order`, its blocks in a random one.
static inline void machine_start(int order) {
    emu_reset();
    emu_set_order((emu_order)order);
    emu_set_seed(7);
}
// Nothing was found wrong, and nothing is still open.
static inline void machine_sound(void) {
    assert_string_equal(emu_report(), "");
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events, 0);
}
#else
#include <cuda_runtime_api.h>

static inline void machine_start(int order) {
    (void)order;
}
static inline void machine_sound(void) {
    cudaError_t e = cudaDeviceSynchronize();
    if (e == cudaSuccess) e = cudaGetLastError();
    assert_string_equal(cudaGetErrorString(e), cudaGetErrorString(cudaSuccess));
}
#endif
#endif
