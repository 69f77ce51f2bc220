// status.c - the thread's error text, and what ties ppl.h to the binary: version and struct sizes.
#include "base/status.h"
#include "ppl.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 8192 }; // a stall report of many ranks fits

static _Thread_local char error_text[TEXT_BYTES];

const char *ppl_error(void) {
    return error_text;
}

ppl_status ppl_fail(ppl_status status, const char *format, ...) {
    char text[TEXT_BYTES]; // built aside: an argument may be the old text
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(error_text, text, strlen(text) + 1);
    return status;
}

ppl_status ppl_prefix(ppl_status status, const char *format, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || n >= TEXT_BYTES) return status;
    snprintf(text + n, sizeof text - (size_t)n, "%s", error_text);
    memcpy(error_text, text, strlen(text) + 1);
    return status;
}

ppl_status ppl_fail_text(ppl_status status, const char *text) {
    size_t n = strlen(text);
    if (n >= TEXT_BYTES) n = TEXT_BYTES - 1;
    memmove(error_text, text, n);
    error_text[n] = 0;
    return status;
}

static const char *const status_names[] = {
    [PPL_OK] = "ok",
    [PPL_ERR_ARG] = "argument",
    [PPL_ERR_SHAPE] = "shape",
    [PPL_ERR_IO] = "file",
    [PPL_ERR_MEMORY] = "memory",
    [PPL_ERR_SCHEDULE] = "schedule",
    [PPL_ERR_PLAN] = "plan",
    [PPL_ERR_DEVICE] = "device",
    [PPL_ERR_DATA] = "data",
    [PPL_ERR_NUMBER] = "number",
    [PPL_ERR_STALL] = "stall",
    [PPL_ERR_STOPPED] = "stopped",
};
_Static_assert(sizeof status_names / sizeof *status_names == PPL_ERR_STOPPED + 1, "a name for each status");

const char *ppl_status_name(ppl_status status) {
    return (unsigned)status <= PPL_ERR_STOPPED ? status_names[status] : "?";
}

int32_t ppl_abi_version(void) {
    return PPL_ABI_VERSION;
}

#define SIZE_OF(type)                                                                                                  \
    { #type, sizeof(type) }
static const struct {
    const char *name;
    size_t bytes;
} struct_sizes[] = {
    SIZE_OF(ppl_type),
    SIZE_OF(ppl_attrs),
    SIZE_OF(ppl_param_spec),
    SIZE_OF(ppl_action),
    SIZE_OF(ppl_task),
    SIZE_OF(ppl_costs),
    SIZE_OF(ppl_link_cost),
    SIZE_OF(ppl_link_load),
    SIZE_OF(ppl_sim_result),
    SIZE_OF(ppl_event),
    SIZE_OF(ppl_step_record),
    SIZE_OF(ppl_run_options),
    SIZE_OF(ppl_optimizer_options),
    SIZE_OF(ppl_stage_stats),
    SIZE_OF(ppl_rank_stats),
    SIZE_OF(ppl_edge_stats),
    SIZE_OF(ppl_param_info),
    SIZE_OF(ppl_yaml_node),
    SIZE_OF(ppl_gpu),
    SIZE_OF(ppl_gpu_versions),
    SIZE_OF(ppl_gpu_link),
    SIZE_OF(ppl_network),
    SIZE_OF(ppl_gpu_activity),
};
_Static_assert(sizeof(ppl_task) == 32, "task lists of a million tasks are read in order: keep them small");

size_t ppl_abi_sizeof(const char *name) {
    for (size_t i = 0; i < sizeof struct_sizes / sizeof *struct_sizes; i++)
        if (strcmp(struct_sizes[i].name, name) == 0) return struct_sizes[i].bytes;
    return 0;
}
