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
    .update = ppl_reference_update,
    .square_sum = ppl_reference_square_sum,
    .square_sum_at = ppl_reference_square_sum,
    PPL_HOST_PROGRAMS,
    PPL_HOST_EVENTS,
};
