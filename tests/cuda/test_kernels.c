// test_kernels.c - kernels on the emulation: what sound ones compute in each order of threads, and that planted faults
// are found and named. Before it: samples.cu.
#include "support.h"

static cudaStream_t stream;

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
}
static int end(void **unused) {
    (void)unused;
    emu_reset();
    return 0;
}

enum { ROWS = 5, N = 1000 };

// Whether the row sums come out right in this order of threads.
static bool sums_right(emu_order order, bool barrier) {
    emu_set_order(order);
    static float x[ROWS * N], y[ROWS];
    for (int i = 0; i < ROWS * N; i++) x[i] = (float)(i % 7 + i / N);
    float *dx = device_copy(x, sizeof x), *dy = device_room(sizeof y);
    sample_row_sum(dy, dx, ROWS, N, barrier, stream);
    OK(cudaGetLastError());
    host_copy(y, dy, sizeof y);
    bool right = true;
    for (int r = 0; r < ROWS; r++) {
        float want = 0;
        for (int i = 0; i < N; i++) want += x[r * N + i];
        right &= y[r] == want;
    }
    OK(cudaFree(dx));
    OK(cudaFree(dy));
    return right;
}

static void sums_in_every_order(void **unused) {
    (void)unused;
    for (int order = EMU_RING; order <= EMU_GREEDY; order++) assert_true(sums_right((emu_order)order, true));
    assert_string_equal(emu_report(), "");
}

static void a_missing_barrier_is_found(void **unused) {
    (void)unused;
    int found = 0;
    for (int order = EMU_RING; order <= EMU_GREEDY; order++) found += !sums_right((emu_order)order, false);
    assert_true(found > 0);
}

static bool ring_right(emu_order order, bool barrier) {
    enum { WARPS = 4, TURNS = 6 };
    emu_set_order(order);
    int out[WARPS], *d = device_room(sizeof out);
    sample_ring(d, WARPS, TURNS, barrier, stream);
    host_copy(out, d, sizeof out);
    OK(cudaFree(d));
    bool right = true;
    for (int w = 0; w < WARPS; w++) right &= out[w] == (w + TURNS) % WARPS;
    return right;
}

static void a_barrier_that_only_greedy_misses_is_found(void **unused) {
    (void)unused;
    for (int order = EMU_RING; order <= EMU_GREEDY; order++) assert_true(ring_right((emu_order)order, true));
    assert_true(ring_right(EMU_RING, false));
    assert_false(ring_right(EMU_GREEDY, false));
}

// Runs a kernel that breaks the device; its report.
static const char *report_of(void (*sample)(int *, cudaStream_t)) {
    int *d = device_room(64 * sizeof *d);
    sample(d, stream);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    void *p;
    assert_int_equal(cudaMalloc(&p, 1), cudaErrorLaunchFailure); // for ever
    return emu_report();
}

static void a_divergent_barrier_is_named(void **unused) {
    (void)unused;
    const char *said = report_of(sample_divergent_barrier);
    assert_says(said, "kernel divergent_barrier, block (0,0,0)");
    assert_says(said, "40 wait at __syncthreads (samples.cu:");
    assert_says(said, "24 in a warp operation (a shuffle, samples.cu:");
}

static void two_barriers_are_not_one(void **unused) {
    (void)unused;
    assert_says(report_of(sample_two_barriers),
                "kernel two_barriers, block (0,0,0): threads wait at two different __sync");
}

static void a_lane_outside_its_mask_is_named(void **unused) {
    (void)unused;
    assert_says(report_of(sample_wrong_mask), "lane 16 calls a shuffle");
}

static void halves_of_a_warp(void **unused) {
    (void)unused;
    for (int order = EMU_RING; order <= EMU_GREEDY; order++) {
        emu_set_order((emu_order)order);
        int out[32], *d = device_room(sizeof out);
        sample_halves(d, stream);
        host_copy(out, d, sizeof out);
        for (int i = 0; i < 32; i++) assert_int_equal(out[i], 1600 + (i < 16 ? (i + 3) % 16 : 16 + (i + 1) % 16));
        OK(cudaFree(d));
    }
}

static void ended_lanes_are_not_waited_for(void **unused) {
    (void)unused;
    float out[24], *d = device_room(sizeof out);
    sample_ended_lanes(d, stream);
    host_copy(out, d, sizeof out);
    for (int i = 0; i < 23; i++) assert_true(out[i] == 1);
    assert_true(out[23] != out[23]);
    OK(cudaFree(d));
}

// The upper half of a small number's f32: exact in bf16.
static uint16_t bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void products_by_fragments(void **unused) {
    (void)unused;
    enum { K = 48 };
    static uint16_t a[16 * K], b[8 * K];
    static float fa[16 * K], fb[8 * K];
    for (int i = 0; i < 16 * K; i++) a[i] = bf16(fa[i] = (float)(i * 7 % 13 - 6));
    for (int i = 0; i < 8 * K; i++) b[i] = bf16(fb[i] = (float)(i * 5 % 11 - 5));
    void *da = device_copy(a, sizeof a), *db = device_copy(b, sizeof b);
    for (int shared = 0; shared < 2; shared++)
        for (int order = EMU_RING; order <= EMU_GREEDY; order++) {
            emu_set_order((emu_order)order);
            float c[16 * 8], *dc = device_room(sizeof c);
            sample_product(dc, da, db, K, shared, stream);
            host_copy(c, dc, sizeof c);
            for (int i = 0; i < 16 * 8; i++) {
                float want = 0;
                for (int k = 0; k < K; k++) want += fa[i / 8 * K + k] * fb[i % 8 * K + k];
                assert_true(c[i] == want);
            }
            OK(cudaFree(dc));
        }
    assert_string_equal(emu_report(), "");
}

static void a_copy_that_is_not_waited_for_is_found(void **unused) {
    (void)unused;
    uint32_t from[16], to[16];
    for (uint32_t i = 0; i < 16; i++) from[i] = i;
    for (int wait = 0; wait < 2; wait++) {
        emu_set_order(EMU_REVERSE);
        uint32_t *d = device_room(sizeof to), *s = device_copy(from, sizeof from);
        sample_late_copy(d, s, wait, stream);
        host_copy(to, d, sizeof to);
        for (uint32_t i = 0; i < 16; i++) assert_int_equal(to[i], !wait ? 0xffffffffu : i / 4 == 1 ? 0 : i);
    }
}

static void blocks_in_random_order(void **unused) {
    (void)unused;
    int orders = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        emu_set_seed(seed);
        int out[12], zero = 0, seen = 0, moved = 0, *d = device_room(sizeof out),
                     *next = device_copy(&zero, sizeof zero);
        sample_number_blocks(d, next, stream);
        host_copy(out, d, sizeof out);
        for (int i = 0; i < 12; i++) {
            seen |= 1 << out[i];
            moved += out[i] != i;
        }
        assert_int_equal(seen, 0xfff);
        assert_true(seed || !moved);
        orders += moved > 0;
    }
    assert_true(orders >= 2);
}

static void launches_are_checked(void **unused) {
    (void)unused;
    int *d = device_room(4096 * sizeof *d);
    sample_ring(d, 33, 1, true, stream); // 1056 threads
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    OK(cudaGetLastError());
    sample_add((float *)d, 1, 0, stream); // no block
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    OK(cudaSetDevice(1));
    sample_ring(d, 1, 1, true, stream); // a stream of another device
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

#ifdef __SANITIZE_ADDRESS__
// In a child, which the address sanitizer ends with the place.
static void overruns_are_found_with_file_and_line(void **unused) {
    (void)unused;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        const char *said = said_by_child(dynamic ? "overrun-dynamic" : "overrun-static");
        assert_says(said, "heap-buffer-overflow");
        assert_says(said, "in overrun(int*, int, bool)");
        assert_says(said, "samples.cu:");
    }
}
#endif

int main(int argc, char **argv) {
    if (argc > 1) {
        begin(NULL);
        sample_overrun(device_room(64), !strcmp(argv[1], "overrun-dynamic"), stream);
        return cudaStreamSynchronize(stream);
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(sums_in_every_order),
        TEST(a_missing_barrier_is_found),
        TEST(a_barrier_that_only_greedy_misses_is_found),
        TEST(a_divergent_barrier_is_named),
        TEST(two_barriers_are_not_one),
        TEST(a_lane_outside_its_mask_is_named),
        TEST(halves_of_a_warp),
        TEST(ended_lanes_are_not_waited_for),
        TEST(products_by_fragments),
        TEST(a_copy_that_is_not_waited_for_is_found),
        TEST(blocks_in_random_order),
        TEST(launches_are_checked),
#ifdef __SANITIZE_ADDRESS__
        TEST(overruns_are_found_with_file_and_line),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
