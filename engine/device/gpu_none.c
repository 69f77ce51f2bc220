// gpu_none.c - the cuda device of a build without CUDA: it stands in the registry, cannot be opened, and says how to get it.
// In a build with CUDA, cuda/ takes its place.
#include "device/activity.h"
#include "device/host.h"
#include "device/measure.h"
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

ppl_status ppl_gpu_link_get(int32_t from, int32_t to, ppl_gpu_link *out) {
    (void)from, (void)to, (void)out;
    int32_t count;
    return ppl_gpu_count(&count);
}

ppl_status ppl_gpu_versions_get(ppl_gpu_versions *out) {
    *out = (ppl_gpu_versions){0};
    return PPL_OK;
}

int32_t ppl_gpu_of_rank(int32_t rank, int32_t gpus) {
    (void)rank, (void)gpus;
    return 0;
}

ppl_status ppl_cuda_link_measure(int32_t from, int32_t to, int32_t way, size_t bytes, double seconds,
                                 ppl_link_cost *out) {
    (void)from, (void)to, (void)way, (void)bytes, (void)seconds, (void)out;
    int32_t count;
    return ppl_gpu_count(&count);
}

ppl_status ppl_gpu_activity_check(int32_t index) {
    (void)index;
    int32_t count;
    return ppl_gpu_count(&count);
}

ppl_status ppl_activity_open(int32_t gpu, ppl_activity **out) {
    (void)out;
    return ppl_gpu_activity_check(gpu);
}

void ppl_activity_close(ppl_activity *a) {
    (void)a;
}

void ppl_activity_begin(ppl_activity *a) {
    (void)a;
}

void ppl_activity_end(ppl_activity *a) {
    (void)a;
}

void ppl_activity_read(const ppl_activity *a, ppl_gpu_activity *out) {
    (void)a;
    *out = (ppl_gpu_activity){.gpu = -1};
}

const char *ppl_gpu_attention(void) {
    return "";
}

const char *ppl_gpu_attention_exception(int32_t index) {
    (void)index;
    return NULL;
}

static ppl_status none_open(const ppl_device_options *options, ppl_device **out) {
    (void)options, (void)out;
    int32_t count;
    return ppl_gpu_count(&count);
}

static ppl_status none_unit_of(const ppl_device_options *options, int32_t *unit) {
    (void)options, (void)unit;
    int32_t count;
    return ppl_gpu_count(&count);
}

// No device of this kind is ever open: the other slots are those of host.c, and nobody calls them.
const ppl_device_ops ppl_device_cuda = {
    .name = "cuda",
    .flags = PPL_DEVICE_ASYNC | PPL_DEVICE_COMPUTES,
    .open = none_open,
    .update = ppl_reference_update,
    .square_sum = ppl_reference_square_sum,
    .square_sum_at = ppl_reference_square_sum,
    PPL_HOST_PROGRAMS,
    PPL_HOST_COPIES,
    .unit_of = none_unit_of,
};
