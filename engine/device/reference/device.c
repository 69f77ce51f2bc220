// device.c - the reference device's table. Before it: device.c's registry. After it: programs of kernels from
// kernels.c.
#include "device/host.h"
#include "device/reference/reference.h"

static ppl_status reference_open(const ppl_device_options *options, ppl_device **out) {
    return ppl_host_open("reference", ppl_reference_kernel, options, out);
}

const ppl_device_ops ppl_device_reference = {
    .name = "reference",
    .flags = PPL_DEVICE_HOST | PPL_DEVICE_COMPUTES,
    .open = reference_open,
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
    .update = ppl_reference_update,
    .square_sum = ppl_reference_square_sum,
    .square_sum_at = ppl_reference_square_sum,
    .event_open = ppl_host_event_open,
    .timer_open = ppl_host_event_open,
    .timer_between = ppl_host_timer_between,
    .event_record = ppl_host_event_order,
    .event_wait = ppl_host_event_order,
    .event_done = ppl_host_event_done,
    .event_close = ppl_host_event_close,
    .synchronize = ppl_host_synchronize,
};
