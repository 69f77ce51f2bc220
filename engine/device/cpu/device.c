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
    .close = ppl_host_close,
    .memory_get = ppl_host_memory_get,
    .memory_free = ppl_host_memory_free,
    .room = ppl_host_room,
    .host_get = ppl_host_memory_get,
    .host_free = ppl_host_memory_free,
    .copy_in = ppl_host_copy,
    .copy_out = ppl_host_copy,
    .copy_back = ppl_host_copy,
    .copy = ppl_host_copy,
    .program_build = ppl_host_program_build,
    .program_free = ppl_host_program_free,
    .pack_bind = ppl_host_pack_bind,
    .pack = ppl_host_pack_run,
    .program_run = ppl_host_program_run,
    .update = cpu_update,
    .square_sum = cpu_square_sum,
    .square_sum_at = cpu_square_sum,
    .event_open = ppl_host_event_open,
    .timer_open = ppl_host_event_open,
    .timer_between = ppl_host_timer_between,
    .event_record = ppl_host_event_order,
    .event_wait = ppl_host_event_order,
    .event_done = ppl_host_event_done,
    .event_close = ppl_host_event_close,
    .synchronize = ppl_host_synchronize,
};
