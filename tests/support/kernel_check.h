// kernel_check.h - every kernel of a device against the reference device, forward and backward, over a table of cases: what
// tests/device and tests/cuda hold their kernels to. Each case is a small graph: the reference runs it, then each of its
// nodes runs alone on the device with the reference's inputs.
#ifndef PPL_TESTS_KERNEL_CHECK_H
#define PPL_TESTS_KERNEL_CHECK_H
#include "support/cases.h"

typedef struct ppl_kernel_check {
    const ppl_device_ops *ops;
    int32_t dtype;
    int32_t threads;                  // from 1 to this many
    bool multiplies_bf16;             // attention rounds between its products, as bf16 hardware does
    const char *only;                 // an operator's name: its cases alone, and no check of coverage; NULL: all
    bool (*wants)(const ppl_case *c); // of those; NULL: all
} ppl_kernel_check;

// Fails the test where a number is off, where bits differ from run to run, where something is written behind an output, and
// where an operator has no case.
void ppl_kernel_check_run(const ppl_kernel_check *check);

#endif
