// device.c - the cpu device's table. Before it: the registry. After it: programs of kernels from kernels.c.
#include "device/cpu/cpu.h"
#include "device/host.h"
#include <omp.h>

static ppl_status cpu_open(const ppl_device_options *options, ppl_device **out) {
    PPL_TRY(ppl_cpu_isa_set(NULL)); // refuses a CPU without AVX2 and FMA
    PPL_TRY(ppl_host_open("cpu", ppl_cpu_kernel, options, out));
    // Before any oneDNN primitive of this thread: the number of threads at creation decides the bits of some products.
    omp_set_num_threads(options->threads);
    return PPL_OK;
}

static ppl_status dtype_check(int32_t dtype) {
    if (dtype == PPL_F32) return PPL_OK;
    return ppl_fail(PPL_ERR_DEVICE, "device cpu: parameters are %s, want f32", ppl_dtype_name(dtype));
}

static ppl_status cpu_update(ppl_device *self, const ppl_update *u, int32_t stage) {
    (void)stage;
    PPL_TRY(dtype_check(u->dtype));
    ppl_cpu_update(u, ((ppl_host_device *)self)->threads);
    return PPL_OK;
}

static ppl_status cpu_square_sum(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                                 double *out) {
    PPL_TRY(dtype_check(dtype));
    *out = ppl_cpu_square_sum(grads, uses, n, ((ppl_host_device *)self)->threads);
    return PPL_OK;
}

const ppl_device_ops ppl_device_cpu = {
    .name = "cpu",
    .flags = PPL_DEVICE_HOST | PPL_DEVICE_COMPUTES,
    .open = cpu_open,
    .update = cpu_update,
    .square_sum = cpu_square_sum,
    .square_sum_at = cpu_square_sum,
    PPL_HOST_PROGRAMS,
    PPL_HOST_EVENTS,
};
