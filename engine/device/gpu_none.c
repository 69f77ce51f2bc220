// gpu_none.c - the cuda device of a build without CUDA: it stands in the registry, cannot be opened, and says how to get it.
// In a build with CUDA, cuda/ takes its place.
#include "device/host.h"
#include "ppl.h"
#include "device/reference/reference.h"

ppl_status ppl_gpu_count(int32_t *count) {
    *count = 0;
    return ppl_fail(PPL_ERR_DEVICE, "device cuda: this build has no CUDA, want one made with `make CUDA=1`");
}

ppl_status ppl_gpu_get(int32_t index, ppl_gpu *out) {
    (void)index, (void)out;
    int32_t count;
    return ppl_gpu_count(&count);
}

static ppl_status none_open(const ppl_device_options *options, ppl_device **out) {
    (void)options, (void)out;
    int32_t count;
    return ppl_gpu_count(&count);
}

// No device of this kind is ever open: the other slots are those of host.c, and nobody calls them.
const ppl_device_ops ppl_device_cuda = {
    .name = "cuda",
    .flags = PPL_DEVICE_ASYNC | PPL_DEVICE_COMPUTES,
    .open = none_open,
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
