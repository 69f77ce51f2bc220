// test_runtime.c - the emulated CUDA runtime: streams in order, events between them, memory, errors, counts, faults.
#include "support.h"
#include <stdatomic.h>
#include <stdlib.h>

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    return 0;
}

static cudaStream_t new_stream(void) {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static cudaEvent_t new_event(unsigned flags) {
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, flags));
    return e;
}

// Two streams add to one number in turn, ordered by events alone.
static void events_order_streams(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 20; seed++) {
        emu_set_seed(seed);
        cudaStream_t a = new_stream(), b = new_stream();
        cudaEvent_t done = new_event(cudaEventDisableTiming);
        float x = 0, *d = device_copy(&x, sizeof x);
        for (int turn = 0; turn < 10; turn++) {
            cudaStream_t s = turn % 2 ? b : a, other = turn % 2 ? a : b;
            sample_add(d, 1, 1, s);
            OK(cudaMemsetAsync(d, 0, turn == 4 ? sizeof *d : 0, s));
            OK(cudaEventRecord(done, s));
            OK(cudaStreamWaitEvent(other, done, 0));
        }
        OK(cudaEventSynchronize(done));
        host_copy(&x, d, sizeof x);
        assert_true(x == 5);
        OK(cudaEventDestroy(done));
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
        OK(cudaFree(d));
    }
    emu_open open = emu_still_open();
    assert_int_equal(open.allocations + open.streams + open.events, 0);
}

static void wait_long(void *with) {
    while (!atomic_load((_Atomic int *)with)) usleep(1000);
}

// A stream waits for the record that was newest when it was asked to, whatever is recorded later, and elsewhere.
static void a_wait_is_for_one_record(void **unused) {
    (void)unused;
    cudaStream_t slow = new_stream(), quick = new_stream(), waiting = new_stream();
    cudaEvent_t e = new_event(cudaEventDisableTiming);
    _Atomic int go = 0;
    OK(cudaLaunchHostFunc(slow, wait_long, &go));
    OK(cudaEventRecord(e, slow));
    OK(cudaStreamWaitEvent(waiting, e, 0));
    OK(cudaEventRecord(e, quick));
    OK(cudaEventSynchronize(e)); // the newest record, in the quick stream
    assert_int_equal(cudaStreamQuery(waiting), cudaErrorNotReady);
    go = 1;
    OK(cudaStreamSynchronize(waiting));
    OK(cudaEventQuery(e));
}

static void late(void *with) {
    usleep(20000);
    *(int *)with = 1;
}

static void events_have_times(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    cudaEvent_t from = new_event(0), to = new_event(0), plain = new_event(cudaEventDisableTiming);
    int ran = 0;
    float ms;
    OK(cudaEventQuery(from)); // never recorded: done
    OK(cudaEventRecord(from, s));
    OK(cudaLaunchHostFunc(s, late, &ran));
    OK(cudaEventRecord(to, s));
    assert_int_equal(cudaEventQuery(to), cudaErrorNotReady);
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
    OK(cudaEventSynchronize(to));
    assert_int_equal(ran, 1);
    OK(cudaEventElapsedTime(&ms, from, to));
    assert_true(ms >= 20 && ms < 60000);
    OK(cudaEventRecord(plain, s));
    assert_int_equal(cudaEventElapsedTime(&ms, from, plain), cudaErrorInvalidResourceHandle);
    OK(cudaStreamSynchronize(s));
}

static void memory_is_limited_and_counted(void **unused) {
    (void)unused;
    emu_set_memory(1000);
    void *a, *b;
    size_t left, total;
    OK(cudaMalloc(&a, 600));
    assert_int_equal(cudaMalloc(&b, 500), cudaErrorMemoryAllocation);
    assert_null(b);
    assert_string_equal(cudaGetErrorString(cudaGetLastError()), "out of memory");
    OK(cudaGetLastError());
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(left, 400);
    assert_int_equal(total, 1000);
    OK(cudaSetDevice(1)); // memory of its own
    OK(cudaMalloc(&b, 500));
    OK(cudaFree(a));
    OK(cudaFree(b));
    assert_int_equal(cudaFree(b), cudaErrorInvalidValue);
    assert_int_equal(emu_memory_peak(0), 600);
    assert_int_equal(emu_memory_peak(1), 500);
    emu_fail(EMU_FAULT_MALLOC, 2);
    OK(cudaMalloc(&a, 1));
    assert_int_equal(cudaMalloc(&b, 1), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&b, 1));
    assert_int_equal(emu_still_open().allocations, 2);
}

static void copies_are_checked(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    char *d = device_room(64), host[64] = {0}, *pinned;
    OK(cudaMallocHost((void **)&pinned, 64));
    assert_int_equal(cudaMemcpyAsync(d + 1, pinned, 64, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue); // too far
    assert_int_equal(cudaMemcpyAsync(pinned, host, 8, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(d, pinned, 8, cudaMemcpyDeviceToDevice, s), cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(host, 0, 8, s), cudaErrorInvalidValue);
    OK(cudaMemsetAsync(d, 7, 64, s));
    OK(cudaMemcpyAsync(pinned, d, 64, cudaMemcpyDefault, s));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(pinned[63], 7);
    OK(cudaHostRegister(host, sizeof host, cudaHostRegisterDefault));
    assert_int_equal(cudaHostRegister(host + 8, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaMemcpyAsync(host, d, 64, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(host[0], 7);
    OK(cudaHostUnregister(host));
    assert_int_equal(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaFree(pinned), cudaErrorInvalidValue);
    OK(cudaFreeHost(pinned));
    struct cudaPointerAttributes a;
    OK(cudaPointerGetAttributes(&a, d));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
}

static void copies_between_devices(void **unused) {
    (void)unused;
    int can, x = 5, *a = device_copy(&x, sizeof x);
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaSetDevice(1));
    int *b = device_room(sizeof x), got = 0;
    cudaStream_t s = new_stream();
    assert_int_equal(cudaMemcpyPeerAsync(b, 0, a, 0, sizeof x, s), cudaErrorInvalidValue);
    OK(cudaMemcpyPeerAsync(b, 1, a, 0, sizeof x, s));
    OK(cudaStreamSynchronize(s));
    host_copy(&got, b, sizeof got);
    assert_int_equal(got, 5);
}

// What a step must not do is counted.
static void waits_and_allocations_are_counted(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    cudaEvent_t e = new_event(cudaEventDisableTiming);
    float *d = device_room(64), host[16] = {0}, *pinned;
    OK(cudaMallocHost((void **)&pinned, sizeof host));
    memset(pinned, 0, sizeof host);
    emu_count_from_here();
    sample_add(d, 1, 16, s);
    OK(cudaMemcpyAsync(d, pinned, sizeof host, cudaMemcpyHostToDevice, s));
    OK(cudaEventRecord(e, s));
    while (cudaEventQuery(e) == cudaErrorNotReady) usleep(100);
    emu_counts c = emu_counted();
    assert_int_equal(c.mallocs + c.frees + c.host_waits + c.null_stream, 0);
    assert_int_equal(c.launches, 1);
    assert_int_equal(c.copies, 1);
    OK(cudaMemcpyAsync(host, d, sizeof host, cudaMemcpyDeviceToHost, s)); // pageable: waits
    assert_int_equal(emu_counted().host_waits, 1);
    OK(cudaStreamSynchronize(s));
    OK(cudaEventSynchronize(e));
    OK(cudaDeviceSynchronize());
    assert_int_equal(emu_counted().host_waits, 4);
    OK(cudaFree(d));
    assert_int_equal(emu_counted().host_waits, 5);
    assert_int_equal(emu_counted().frees, 1);
    sample_add(pinned, 1, 16, 0);
    assert_int_equal(emu_counted().null_stream, 1);
    OK(cudaDeviceSynchronize());
}

static void the_probe_fails_as_asked(void **unused) {
    (void)unused;
    int n = 7;
    emu_set_probe(cudaErrorInsufficientDriver);
    assert_int_equal(cudaGetDeviceCount(&n), 35);
    assert_int_equal(n, 0);
    assert_string_equal(cudaGetErrorName(cudaGetLastError()), "cudaErrorInsufficientDriver");
    void *p;
    assert_int_equal(cudaMalloc(&p, 1), 35);
    emu_set_probe(cudaErrorNoDevice);
    assert_int_equal(cudaGetDeviceCount(&n), 100);
    emu_set_probe(0);
    emu_set_devices(3);
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 3);
    assert_int_equal(cudaSetDevice(3), cudaErrorInvalidDevice);
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    emu_set_devices(3);
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 2);
    struct cudaDeviceProp prop;
    OK(cudaGetDeviceProperties(&prop, 0));
    assert_int_equal(prop.pciBusID, 3);
    assert_int_equal(prop.major, 9);
    int v;
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_int_equal(v, 232448);
}

static void launches_fail_as_asked(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    float *d = device_room(64);
    emu_fail(EMU_FAULT_REFUSED, 2);
    sample_add(d, 1, 16, s);
    OK(cudaGetLastError());
    sample_add(d, 1, 16, s);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchOutOfResources);
    sample_add(d, 1, 16, s);
    OK(cudaStreamSynchronize(s));
    emu_fail(EMU_FAULT_LAUNCH, 1);
    sample_add(d, 1, 16, s);
    cudaError_t by_now = cudaGetLastError(); // the launch itself goes well, the kernel may have failed already
    assert_true(by_now == cudaSuccess || by_now == cudaErrorLaunchFailure);
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    assert_says(emu_report(), "kernel add: a planted launch failure");
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure); // cannot be cleared
    OK(cudaSetDevice(1));                                         // the others live
    OK(cudaMalloc((void **)&d, 64));
}

static void shared_memory_wants_leave(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    int *d = device_room(sizeof *d);
    sample_much_shared(d, 100000, false, s);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    sample_much_shared(d, 100000, true, s);
    OK(cudaStreamSynchronize(s));
    sample_much_shared(d, 300000, true, s);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void calls_in_it_are_refused(void *with) {
    *(cudaError_t *)with = cudaGetDevice(&(int){0}) + cudaDeviceSynchronize();
}

static void host_functions_may_not_call(void **unused) {
    (void)unused;
    cudaStream_t s = new_stream();
    cudaError_t said = cudaSuccess;
    OK(cudaLaunchHostFunc(s, calls_in_it_are_refused, &said));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(said, cudaErrorNotPermitted);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, begin)
    const struct CMUnitTest tests[] = {
        TEST(events_order_streams),
        TEST(a_wait_is_for_one_record),
        TEST(events_have_times),
        TEST(memory_is_limited_and_counted),
        TEST(copies_are_checked),
        TEST(copies_between_devices),
        TEST(waits_and_allocations_are_counted),
        TEST(the_probe_fails_as_asked),
        TEST(launches_fail_as_asked),
        TEST(shared_memory_wants_leave),
        TEST(host_functions_may_not_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
