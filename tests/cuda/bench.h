// bench.h - what the benchmarks of a GPU share: a device, numbers on it and on the host, a program of one node timed by the
// device's own events, and rows for scripts/gpu_check. They know the device table alone: `--device cpu` runs them too.
#ifndef PPL_TESTS_CUDA_BENCH_H
#define PPL_TESTS_CUDA_BENCH_H
#include "device/device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    const ppl_device_ops *ops;
    ppl_device *device;
    void *timer[2], *scratch;
    size_t scratch_bytes;
    const char *part;
    bool tiny; // sizes that the emulation manages
    int wrong;
} bench;

#define BENCH_OK(call)                                                                                                 \
    do {                                                                                                               \
        if ((call) != PPL_OK) {                                                                                        \
            printf("#row\t%s\t%s\t%s\tWRONG\n", "device", #call, ppl_error());                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// A row of the table: what was measured, its figure, and NULL or what is wrong with it.
static inline void bench_row(bench *b, const char *what, const char *figure, const char *wrong) {
    printf("#row\t%s\t%s\t%s\t%s%s\n", b->part, what, figure, wrong ? "WRONG: " : "ok", wrong ? wrong : "");
    fflush(stdout);
    b->wrong += wrong != NULL;
}

// "812.3 TFLOP/s, 82 % of peak", the latter where PPL_GPU_PEAK_BF16 or PPL_GPU_PEAK_F32 (TFLOP/s) says what that is.
static inline const char *bench_rate(double flops, double seconds, int32_t dtype) {
    static char text[80];
    const char *peak = getenv(dtype == PPL_BF16 ? "PPL_GPU_PEAK_BF16" : "PPL_GPU_PEAK_F32");
    double tera = seconds > 0 ? flops / seconds * 1e-12 : 0, of = peak ? atof(peak) : 0;
    int n = snprintf(text, sizeof text, tera < 1 ? "%.3f TFLOP/s" : "%.1f TFLOP/s", tera);
    if (of > 0) snprintf(text + n, sizeof text - (size_t)n, ", %.0f %% of peak", 100 * tera / of);
    return text;
}

static inline void bench_open(bench *b, const char *part, int argc, char **argv) {
    const char *device = "cuda";
    *b = (bench){.part = part};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tiny") == 0) b->tiny = true;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) device = argv[++i];
        else {
            fprintf(stderr, "usage: %s [--tiny] [--device NAME]\n", argv[0]);
            exit(2);
        }
    }
    BENCH_OK(ppl_device_find(device, &b->ops));
    BENCH_OK(b->ops->open(&(ppl_device_options){.threads = 1, .fail_task = -1, .stall_task = -1}, &b->device));
    for (int i = 0; i < 2; i++) BENCH_OK(b->ops->timer_open(b->device, &b->timer[i]));
}

static inline int bench_close(bench *b) {
    for (int i = 0; i < 2; i++) b->ops->event_close(b->device, b->timer[i]);
    b->ops->memory_free(b->device, b->scratch);
    b->ops->close(b->device);
    return b->wrong ? 1 : 0;
}

static inline size_t bench_bytes(int32_t dtype) {
    return dtype == PPL_BF16 ? 2 : 4;
}

static inline float bench_number(const void *x, int32_t dtype, int64_t i) {
    if (dtype != PPL_BF16) return ((const float *)x)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// n numbers from -0.5 to 0.5 without order: on the host (to be freed), and copied to the device. In bf16 they have 8 bits, in
// f32 24, so that products with fewer bits show.
static inline void *bench_numbers(bench *b, int32_t dtype, int64_t n, uint32_t seed, void **on_device) {
    size_t bytes = (size_t)n * bench_bytes(dtype);
    char *x = malloc(bytes);
    uint32_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        float f = dtype == PPL_BF16 ? (float)((int32_t)(state >> 24) - 128) / 256
                                    : (float)((int32_t)(state >> 8) - (1 << 23)) / (1 << 24);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (dtype == PPL_BF16) ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
        else ((float *)x)[i] = f;
    }
    BENCH_OK(b->ops->memory_get(b->device, bytes, on_device));
    BENCH_OK(b->ops->copy_in(b->device, *on_device, x, bytes, 0));
    BENCH_OK(b->ops->synchronize(b->device));
    return x;
}

static inline void *bench_room(bench *b, int32_t dtype, int64_t n) {
    void *p;
    BENCH_OK(b->ops->memory_get(b->device, (size_t)n * bench_bytes(dtype), &p));
    return p;
}

// Some numbers of an array on the device, from the first-th on.
static inline void bench_read(bench *b, const void *array, int32_t dtype, int64_t first, int64_t n, void *out) {
    size_t size = bench_bytes(dtype);
    BENCH_OK(b->ops->copy_out(b->device, out, (const char *)array + (size_t)first * size, (size_t)n * size, 0));
}

static inline ppl_device_program *bench_build(bench *b, const ppl_device_node *node) {
    ppl_device_program *p;
    ppl_program_needs needs = {0};
    BENCH_OK(b->ops->program_build(b->device, 0, 0, node, 1, &needs, &p));
    if (needs.scratch > b->scratch_bytes) {
        b->ops->memory_free(b->device, b->scratch);
        BENCH_OK(b->ops->memory_get(b->device, needs.scratch, &b->scratch));
        b->scratch_bytes = needs.scratch;
    }
    return p;
}

static inline void bench_run(bench *b, ppl_device_program *p, const ppl_call *call) {
    static const ppl_call_env env = {.training = true};
    BENCH_OK(b->ops->program_run(b->device, p, &(ppl_program_run){.calls = call, .scratch = b->scratch, .env = &env}));
}

// Seconds of one run, over some behind each other.
static inline double bench_time(bench *b, ppl_device_program *p, const ppl_call *call) {
    int runs = b->tiny ? 2 : 20;
    double seconds = 0, begin = ppl_clock();
    for (int i = 0; i < (b->tiny ? 1 : 3); i++) bench_run(b, p, call);
    BENCH_OK(b->ops->event_record(b->device, b->timer[0], 0));
    begin = ppl_clock();
    for (int i = 0; i < runs; i++) bench_run(b, p, call);
    BENCH_OK(b->ops->event_record(b->device, b->timer[1], 0));
    BENCH_OK(b->ops->synchronize(b->device));
    BENCH_OK(b->ops->timer_between(b->device, b->timer[0], b->timer[1], &seconds));
    return (seconds > 0 ? seconds : ppl_clock() - begin) / runs;
}
#endif
