// support.h - what the tests of the emulation share: a call that must succeed, a stream and memory for each test, and a
// run of this very program as a child, for what ends a program.
#ifndef PPL_TESTS_CUDA_SUPPORT_H
#define PPL_TESTS_CUDA_SUPPORT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "emulation/emulation.h"
#include "samples.h"

#define OK(call) assert_int_equal((call), 0)

// Whether text is said, with the text shown where it is not.
#define assert_says(text, part)                                                                                        \
    do {                                                                                                               \
        if (!strstr((text), (part))) fail_msg("'%s' says nothing of '%s'", (text), (part));                            \
    } while (0)

// Device memory with a copy of n bytes; the caller frees it.
static inline void *device_copy(const void *from, size_t n) {
    void *p;
    OK(cudaMalloc(&p, n));
    OK(cudaMemcpy(p, from, n, cudaMemcpyHostToDevice));
    return p;
}
static inline void *device_room(size_t n) {
    void *p;
    OK(cudaMalloc(&p, n));
    return p;
}
static inline void host_copy(void *to, const void *from, size_t n) {
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(to, from, n, cudaMemcpyDeviceToHost));
}

// Runs this program with one argument; what it said on both outputs.
static inline const char *said_by_child(const char *argument) {
    static char text[16384];
    char command[600], self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(command, sizeof command, "'%s' %s 2>&1", self, argument);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t got = fread(text, 1, sizeof text - 1, f);
    text[got] = 0;
    pclose(f);
    return text;
}
#endif
