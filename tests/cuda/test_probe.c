// test_probe.c - what is said of GPUs on the emulation: which there are and how they reach each other, why one cannot be used,
// and what to do about it; the version of NCCL; networks by a list of the kernel's kind.
#include "device/cuda/errors.h"
#include "device/device.h"
#include "emulation/emulation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static int start(void **state) {
    (void)state;
    emu_reset();
    return 0;
}

// Opening the device, counting GPUs: the same words.
static void none(const char *words, const char *remedy) {
    int32_t count = 7;
    ppl_device *d;
    ppl_device_options options = {.threads = 1, .fail_task = -1, .stall_task = -1};
    assert_int_equal(ppl_gpu_count(&count), PPL_ERR_DEVICE);
    assert_int_equal(count, 0);
    says(ppl_error(), words);
    says(ppl_error(), remedy);
    assert_int_equal(ppl_device_cuda.open(&options, &d), PPL_ERR_DEVICE);
    says(ppl_error(), words);
}

static void test_none(void **state) {
    (void)state;
    ppl_gpu_versions v;
    emu_set_probe(35);
    none("no NVIDIA driver is loaded", "want one for CUDA 13");
    OK(ppl_gpu_versions_get(&v));
    assert_int_equal(v.driver_cuda, 0);
    assert_int_equal(v.runtime, CUDART_VERSION);
    emu_set_driver(12040);
    none("the NVIDIA driver is for CUDA 12.4", "want one for 13");
    OK(ppl_gpu_versions_get(&v));
    assert_int_equal(v.driver_cuda, 12040);
    emu_set_driver(0);
    emu_set_probe(100);
    none("the driver shows none", "want one");
    emu_set_probe(802);
    none("system not yet initialized", "want the service nvidia-fabricmanager");
    emu_set_probe(0);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    emu_reset();
    none("CUDA_VISIBLE_DEVICES is \"\"", "as in 0,1");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

// A GPU that is there and cannot be used: the list says why, and a rank does.
static void unusable(const char *words, const char *remedy) {
    ppl_gpu gpu;
    ppl_device *d;
    ppl_device_options options = {.rank = 1, .threads = 1, .fail_task = -1, .stall_task = -1};
    emu_set_devices(2);
    OK(ppl_gpu_get(1, &gpu));
    assert_int_equal(gpu.free, -1);
    says(gpu.reason, "GPU 1");
    says(gpu.reason, words);
    says(gpu.reason, remedy);
    assert_int_equal(ppl_device_cuda.open(&options, &d), PPL_ERR_DEVICE);
    says(ppl_error(), words);
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events, 0);
}

static void test_unusable(void **state) {
    (void)state;
    emu_set_capability(75);
    unusable("compute capability 7.5", "want 8.0 or later");
    emu_set_capability(90);
    emu_set_mode(2);
    unusable("compute mode Prohibited", "want Default");
    emu_set_mode(3);
    unusable("busy or unavailable", "want no other process on the GPU");
    emu_set_mode(0);
    ppl_gpu gpu;
    OK(ppl_gpu_get(1, &gpu));
    assert_string_equal(gpu.reason, "");
    assert_string_equal(gpu.bus, "0000:02:00.0");
    assert_true(gpu.free > 0 && gpu.free <= gpu.memory);
    assert_int_equal(ppl_gpu_get(2, &gpu), PPL_ERR_ARG);
}

// Errors of any call, with what to do where there is something.
static void test_remedies(void **state) {
    (void)state;
    static const struct {
        cudaError_t error;
        ppl_status status;
        const char *words;
    } cases[] = {
        {cudaErrorMemoryAllocation, PPL_ERR_MEMORY,
         "out of memory (cudaErrorMemoryAllocation), want smaller microbatches"},
        {cudaErrorNoKernelImageForDevice, PPL_ERR_DEVICE, "want a GPU of compute capability 8.0 or later"},
        {cudaErrorUnsupportedPtxVersion, PPL_ERR_DEVICE, "want a driver as new as the toolkit"},
        {cudaErrorECCUncorrectable, PPL_ERR_DEVICE, "want a GPU whose memory works"},
        {cudaErrorInvalidValue, PPL_ERR_DEVICE, "device cuda: call: invalid argument (cudaErrorInvalidValue)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ppl_cuda_check("call", cases[i].error), cases[i].status);
        says(ppl_error(), cases[i].words);
    }
    OK(ppl_cuda_check("call", cudaSuccess));
    OK(ppl_cublas_check("call", CUBLAS_STATUS_SUCCESS));
    assert_int_equal(ppl_cublas_check("call", CUBLAS_STATUS_ALLOC_FAILED), PPL_ERR_MEMORY);
    assert_int_equal(ppl_cublas_check("call", CUBLAS_STATUS_ARCH_MISMATCH), PPL_ERR_DEVICE);
    says(ppl_error(), "want a GPU of compute capability 8.0");
}

static void test_nccl(void **state) {
    (void)state;
    static const int wrong[] = {21803, 30000, 2708};
    OK(ppl_nccl_version_check());
    emu_set_nccl_version(21900);
    OK(ppl_nccl_version_check());
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        emu_set_nccl_version(wrong[i]);
        assert_int_equal(ppl_nccl_version_check(), PPL_ERR_DEVICE);
        says(ppl_error(), "want 2.19.0 or later, below 3");
    }
    emu_set_nccl_version(21803);
    ppl_nccl_version_check();
    says(ppl_error(), "link nccl: the library is 2.18.3 ("); // and where it is
}

static void test_paths(void **state) {
    (void)state;
    ppl_gpu_link l;
    emu_set_devices(2);
    OK(ppl_gpu_link_get(0, 0, &l));
    assert_int_equal(l.path, PPL_PATH_SAME);
    OK(ppl_gpu_link_get(0, 1, &l));
    assert_int_equal(l.peer, 1);
    assert_int_equal(l.rank, 0);
    emu_set_peers(0);
    OK(ppl_gpu_link_get(1, 0, &l));
    assert_int_equal(l.peer, 0);
    assert_int_equal(ppl_gpu_link_get(0, 2, &l), PPL_ERR_ARG);
    says(ppl_error(), "GPU 2: there are 2, want 0..1");
}

static void put(const char *root, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    if (!text) {
        mkdir(path, 0700);
        return;
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_networks(void **state) {
    (void)state;
    char root[] = "/tmp/ppl_networks_XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    put(root, "infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n");
    put(root, "infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)\n");
    put(root, "infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    put(root, "infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put(root, "infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put(root, "infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put(root, "infiniband/empty", NULL);
    put(root, "net/lo/operstate", "unknown\n");
    put(root, "net/eth0/device", NULL);
    put(root, "net/eth0/speed", "25000\n");
    put(root, "net/eth0/operstate", "up\n");
    put(root, "net/eth1/device", NULL);
    put(root, "net/eth1/speed", "-1\n");
    ppl_network n[8];
    assert_int_equal(ppl_networks(root, n, 8), 4);
    assert_string_equal(n[0].name, "mlx5_0");
    assert_string_equal(n[0].kind, "InfiniBand");
    assert_true(n[0].up && n[0].bandwidth == 50e9);
    assert_string_equal(n[1].kind, "RoCE");
    assert_true(!n[1].up && n[1].bandwidth == 12.5e9);
    assert_string_equal(n[2].name, "eth0");
    assert_true(n[2].up && n[2].bandwidth == 3.125e9);
    assert_true(!n[3].up && n[3].bandwidth == 0);
    assert_int_equal(ppl_networks(root, n, 1), 1);
    assert_int_equal(ppl_networks("/nowhere", n, 8), 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_none, start),     cmocka_unit_test_setup(test_unusable, start),
        cmocka_unit_test_setup(test_remedies, start), cmocka_unit_test_setup(test_nccl, start),
        cmocka_unit_test_setup(test_paths, start),    cmocka_unit_test_setup(test_networks, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
