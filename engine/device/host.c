// host.c - opening, memory, copies and events of the synchronous devices; program.c has their programs.
#include "device/host.h"
#include <stdlib.h>
#include <math.h>

ppl_status ppl_host_open(const char *name, ppl_kernel_lookup kernel, const ppl_device_options *options,
                         ppl_device **out) {
    if (options->threads < 1)
        return ppl_fail(PPL_ERR_ARG, "device %s: threads a rank is %d, want 1 or more", name, options->threads);
    ppl_host_device *d = ppl_alloc(sizeof *d);
    if (!d) return PPL_ERR_MEMORY;
    d->name = name;
    d->kernel = kernel;
    d->threads = options->threads;
    *out = (ppl_device *)d;
    return PPL_OK;
}

void ppl_host_close(ppl_device *self) {
    ppl_host_device *d = (ppl_host_device *)self;
    if (!d) return;
    while (d->programs) ppl_host_program_free(self, d->programs);
    free(d->packs);
    free(d->first);
    ppl_free(d);
}

ppl_status ppl_host_memory_get(ppl_device *self, size_t bytes, void **out) {
    (void)self;
    *out = ppl_alloc(bytes);
    return *out ? PPL_OK : PPL_ERR_MEMORY;
}

void ppl_host_memory_free(ppl_device *self, void *p) {
    (void)self;
    ppl_free(p);
}

ppl_status ppl_host_room(ppl_device *self, ppl_device_room *out) {
    (void)self;
    *out = (ppl_device_room){.free = SIZE_MAX, .all = SIZE_MAX};
    return PPL_OK;
}

ppl_status ppl_host_copy(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream) {
    (void)self, (void)stream;
    if (bytes) memcpy(dst, src, bytes);
    return PPL_OK;
}

ppl_status ppl_host_clip_scale_at(ppl_device *self, const double *sums, const int32_t *order, int64_t n, double limit,
                                  double *out) {
    (void)self;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += sums[order[i]];
    double scale = limit / (sqrt(sum) + 1e-6);
    *out = scale < 1 ? scale : 1;
    return PPL_OK;
}

void ppl_host_scale_bind(ppl_device *self, const double *scale) { // their hosts know each scale
    (void)self, (void)scale;
}

ppl_status ppl_host_event_open(ppl_device *self, void **out) {
    *out = self; // work is done when it is recorded: an event has nothing to keep
    return PPL_OK;
}

ppl_status ppl_host_timer_between(ppl_device *self, void *from, void *to, double *out) {
    (void)self, (void)from, (void)to;
    *out = 0;
    return PPL_OK;
}

ppl_status ppl_host_event_order(ppl_device *self, void *event, int32_t stream) {
    (void)self, (void)event, (void)stream;
    return PPL_OK;
}

ppl_status ppl_host_event_done(ppl_device *self, void *event, bool *done) {
    (void)self, (void)event;
    *done = true;
    return PPL_OK;
}

void ppl_host_event_close(ppl_device *self, void *event) {
    (void)self, (void)event;
}

ppl_status ppl_host_synchronize(ppl_device *self) {
    (void)self;
    return PPL_OK;
}

void *ppl_host_label_get(ppl_device *self, const char *text) {
    (void)self, (void)text;
    return NULL;
}

void ppl_host_label_begin(ppl_device *self, void *label, int32_t kind, int64_t step) {
    (void)self, (void)label, (void)kind, (void)step;
}

void ppl_host_label_end(ppl_device *self, void *label) {
    (void)self, (void)label;
}

ppl_status ppl_host_unit_of(const ppl_device_options *options, int32_t *unit) {
    (void)options;
    *unit = 0;
    return PPL_OK;
}

ppl_status ppl_host_stream_open(ppl_device *self, int32_t *out) {
    (void)self;
    *out = 0;
    return PPL_OK;
}

void ppl_host_stream_close(ppl_device *self, int32_t stream) {
    (void)self, (void)stream;
}

void *ppl_host_stream_handle(ppl_device *self, int32_t stream) {
    (void)self, (void)stream;
    return NULL;
}
