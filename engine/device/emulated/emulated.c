// emulated.c - a device that does no arithmetic: each program takes the time a cost table gives. Before it: exec. What it
// is for: watching a schedule of many ranks on few cores, with real threads and real links, and failing or stalling on
// demand. Its memory is the host's, but never touched unless somebody reads it.
#include "base/clock.h"
#include "base/memory.h"
#include "device/host.h"
#include "graph/graph.h"
#include "sim/costs.h"
#include <stdlib.h>

struct ppl_device {
    ppl_device_options options;
    int64_t runs;         // programs run so far
    int32_t update_stage; // of the optimizer step in progress; -1 none
};

typedef struct emulated_program { // what a ppl_device_program of this device is
    int32_t stage, phase;
} emulated_program;

static ppl_status emulated_open(const ppl_device_options *options, ppl_device **out) {
    ppl_device *d = ppl_alloc(sizeof *d);
    if (!d) return PPL_ERR_MEMORY;
    d->options = *options;
    d->update_stage = -1;
    *out = d;
    return PPL_OK;
}

static void emulated_close(ppl_device *self) {
    ppl_free(self);
}

enum { ALIGN = 64 };

// calloc's zeros come from the system untouched when they are many: ranks that only wait cost no memory.
static ppl_status emulated_memory_get(ppl_device *self, size_t bytes, void **out) {
    char *raw = bytes > SIZE_MAX / 2 ? NULL : calloc(1, bytes + 2 * ALIGN);
    if (!raw) {
        return ppl_fail(PPL_ERR_MEMORY, "rank %d, emulated device: %zu bytes cannot be had", self->options.rank, bytes);
    }
    ppl_memory_count(raw, true);
    char *p = (char *)ppl_align((uintptr_t)raw + sizeof raw, ALIGN);
    memcpy(p - sizeof raw, &raw, sizeof raw);
    *out = p;
    return PPL_OK;
}

static void emulated_memory_free(ppl_device *self, void *p) {
    (void)self;
    if (!p) return;
    void *raw;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    ppl_memory_count(raw, false);
    free(raw);
}

static ppl_status emulated_program_build(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                         int32_t count, ppl_program_needs *needs, ppl_device_program **out) {
    (void)self, (void)nodes, (void)count;
    emulated_program *p = ppl_alloc(sizeof *p);
    if (!p) return PPL_ERR_MEMORY;
    *p = (emulated_program){.stage = stage, .phase = phase};
    *needs = (ppl_program_needs){0};
    *out = (ppl_device_program *)p;
    return PPL_OK;
}

static void emulated_program_free(ppl_device *self, ppl_device_program *program) {
    (void)self;
    ppl_free(program);
}

static ppl_status emulated_pack_bind(ppl_device *self, void *memory, size_t bytes) {
    (void)self, (void)memory, (void)bytes;
    return PPL_OK;
}

static ppl_status emulated_pack(ppl_device *self, int32_t param, const void *weight) {
    (void)self, (void)param, (void)weight;
    return PPL_OK;
}

// Waits from now on; PPL_ERR_STOPPED when somebody stops the run meanwhile.
static ppl_status take(ppl_device *self, double seconds) {
    const atomic_bool *stop = self->options.stop;
    if (seconds > 0) ppl_wait_until(ppl_now() + (int64_t)(seconds * 1e9), stop);
    if (stop && atomic_load_explicit(stop, memory_order_relaxed))
        return ppl_fail(PPL_ERR_STOPPED, "rank %d, emulated device: stopped", self->options.rank);
    return PPL_OK;
}

static ppl_status emulated_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run) {
    const ppl_device_options *o = &self->options;
    const emulated_program *p = (const emulated_program *)program;
    int64_t at = self->runs++;
    self->update_stage = -1;
    if (at == o->fail_task) {
        return ppl_fail(PPL_ERR_DEVICE,
                        "rank %d, stage %d, microbatch %d: program %lld of the rank fails, as asked for", o->rank,
                        run->stage, run->microbatch, (long long)at);
    }
    if (at == o->stall_task && o->stop)
        for (;;) PPL_TRY(take(self, 1));
    if (!o->costs) return take(self, 0);
    const double *const seconds[PPL_PHASES] = {
        [PPL_PHASE_F] = o->costs->f, [PPL_PHASE_I] = o->costs->i, [PPL_PHASE_W] = o->costs->w};
    if (!seconds[p->phase]) return take(self, 0);
    double jitter = ppl_costs_program_jitter(o->costs, run->env->step, p->stage, p->phase, run->microbatch);
    return take(self, seconds[p->phase][p->stage] * jitter);
}

// The table gives the time of a whole stage's step: the first of its parameters takes it.
static ppl_status emulated_update(ppl_device *self, const ppl_update *u, int32_t stage) {
    (void)u;
    bool first = self->update_stage != stage;
    self->update_stage = stage;
    return take(self, first && self->options.costs ? self->options.costs->update : 0);
}

static ppl_status emulated_square_sum(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype,
                                      int64_t n, double *out) {
    (void)self, (void)grads, (void)uses, (void)dtype, (void)n;
    *out = 0;
    return PPL_OK;
}

const ppl_device_ops ppl_device_emulated = {
    .name = "emulated",
    .flags = PPL_DEVICE_HOST,
    .open = emulated_open,
    .close = emulated_close,
    .memory_get = emulated_memory_get,
    .memory_free = emulated_memory_free,
    .host_get = emulated_memory_get,
    .host_free = emulated_memory_free,
    .program_build = emulated_program_build,
    .program_free = emulated_program_free,
    .pack_bind = emulated_pack_bind,
    .pack = emulated_pack,
    .program_run = emulated_program_run,
    .update = emulated_update,
    .square_sum = emulated_square_sum,
    .square_sum_at = emulated_square_sum,
    PPL_HOST_EVENTS,
};
