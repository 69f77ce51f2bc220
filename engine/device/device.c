// device.c - the registry of devices. Before it: a run or a tensor names its device. After it: the device's own table.
// To add a device: a folder, and a line here.
#include "device/device.h"
#include <stdio.h>

static const ppl_device_ops *const devices[] = {
    &ppl_device_cpu,
    &ppl_device_reference,
    &ppl_device_emulated,
    &ppl_device_cuda,
};
enum { DEVICES = sizeof devices / sizeof *devices };

const ppl_device_ops *const *ppl_device_list(int32_t *count) {
    *count = DEVICES;
    return devices;
}

ppl_status ppl_device_find(const char *name, const ppl_device_ops **out) {
    char names[256] = "";
    int at = 0;
    for (int i = 0; i < DEVICES; i++) {
        if (name && strcmp(devices[i]->name, name) == 0) {
            *out = devices[i];
            return PPL_OK;
        }
        if (at < (int)sizeof names)
            at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "", devices[i]->name);
    }
    return ppl_fail(PPL_ERR_ARG, "device: there is no \"%s\", want one of: %s", name ? name : "", names);
}
