// host.h - what the synchronous devices share: memory is the host's, a program is a list of kernels that run one after
// the other on the calling thread, events are always done. A device is its kernels (a look-up), its optimizer
// arithmetic and this; its table in device.h points at these functions.
#ifndef PPL_DEVICE_HOST_H
#define PPL_DEVICE_HOST_H
#include "base/memory.h"
#include "device/device.h"

typedef const ppl_kernel *(*ppl_kernel_lookup)(int32_t op); // NULL: the device has no such kernel

// A packed copy of a parameter, shared by all nodes that ask for it with the same key.
typedef struct ppl_host_pack {
    int32_t param;
    int32_t next; // of the same parameter; -1
    uint64_t key;
    size_t bytes, offset;       // in the memory of pack_bind
    struct ppl_host_step *user; // one of the nodes that read it: it packs for all; NULL once no program is left
} ppl_host_pack;

// A node of a program with its kernel.
typedef struct ppl_host_step {
    const ppl_kernel *kernel;
    void *state;
    int32_t pack; // index into packs; -1: reads the parameter as it is
    const char *name;
    ppl_kernel_spec spec;
} ppl_host_step;

struct ppl_device_program {
    ppl_arena arena; // owns steps and names
    ppl_host_step *steps;
    int32_t count;
    ppl_device_program *next; // of this device
};

// The ppl_device of these devices.
typedef struct ppl_host_device {
    const char *name;
    ppl_kernel_lookup kernel;
    int32_t threads;
    ppl_device_program *programs;
    ppl_host_pack *packs;
    size_t n_packs, room_packs;
    int32_t *first; // [params]: first pack of a parameter; -1
    size_t n_first, room_first;
    size_t pack_bytes; // of all packs
    char *pack_memory; // borrowed from pack_bind; NULL before
} ppl_host_device;

ppl_status ppl_host_open(const char *name, ppl_kernel_lookup kernel, const ppl_device_options *options,
                         ppl_device **out);
void ppl_host_close(ppl_device *self); // programs are freed before

ppl_status ppl_host_memory_get(ppl_device *self, size_t bytes, void **out);
void ppl_host_memory_free(ppl_device *self, void *p);
ppl_status ppl_host_room(ppl_device *self, ppl_device_room *out);
ppl_status ppl_host_copy(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream);

// The rest are the slots of the same names; program.c.
ppl_status ppl_host_program_build(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                  int32_t count, ppl_program_needs *needs, ppl_device_program **out);
void ppl_host_program_free(ppl_device *self, ppl_device_program *program);
ppl_status ppl_host_pack_bind(ppl_device *self, void *memory, size_t bytes);
ppl_status ppl_host_pack_run(ppl_device *self, int32_t param, const void *weight);
ppl_status ppl_host_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run);

ppl_status ppl_host_clip_scale_at(ppl_device *self, const double *sums, const int32_t *order, int64_t n, double limit,
                                  double *out);
void ppl_host_scale_bind(ppl_device *self, const double *scale);
ppl_status ppl_host_event_open(ppl_device *self, void **out);
ppl_status ppl_host_timer_between(ppl_device *self, void *from, void *to, double *out);
ppl_status ppl_host_event_order(ppl_device *self, void *event, int32_t stream); // record and wait: nothing is pending
ppl_status ppl_host_event_done(ppl_device *self, void *event, bool *done);
void ppl_host_event_close(ppl_device *self, void *event);
ppl_status ppl_host_synchronize(ppl_device *self);
void *ppl_host_label_get(ppl_device *self, const char *text); // NULL: no profiler is told
void ppl_host_label_begin(ppl_device *self, void *label, int32_t kind, int64_t step);
void ppl_host_label_end(ppl_device *self, void *label);
ppl_status ppl_host_unit_of(const ppl_device_options *options, int32_t *unit);
ppl_status ppl_host_stream_open(ppl_device *self, int32_t *out);
void ppl_host_stream_close(ppl_device *self, int32_t stream);
void *ppl_host_stream_handle(ppl_device *self, int32_t stream);

// Slots of a device's table: events, streams and copies where all is done on return, ...
#define PPL_HOST_COPIES                                                                                                \
    .clip_scale_at = ppl_host_clip_scale_at, .scale_bind = ppl_host_scale_bind, .room = ppl_host_room,                 \
    .copy_in = ppl_host_copy, .copy_out = ppl_host_copy, .copy_back = ppl_host_copy, .copy = ppl_host_copy,            \
    .event_open = ppl_host_event_open, .timer_open = ppl_host_event_open, .timer_between = ppl_host_timer_between,     \
    .event_record = ppl_host_event_order, .event_wait = ppl_host_event_order, .event_done = ppl_host_event_done,       \
    .event_close = ppl_host_event_close, .synchronize = ppl_host_synchronize, .stream_open = ppl_host_stream_open,     \
    .stream_close = ppl_host_stream_close, .stream_handle = ppl_host_stream_handle, .label_get = ppl_host_label_get,   \
    .label_begin = ppl_host_label_begin, .label_end = ppl_host_label_end
#define PPL_HOST_EVENTS PPL_HOST_COPIES, .unit_of = ppl_host_unit_of
// ... and memory and programs of kernels that run on the calling thread.
#define PPL_HOST_PROGRAMS                                                                                              \
    .close = ppl_host_close, .memory_get = ppl_host_memory_get, .memory_free = ppl_host_memory_free,                   \
    .host_get = ppl_host_memory_get, .host_free = ppl_host_memory_free, .program_build = ppl_host_program_build,       \
    .program_free = ppl_host_program_free, .pack_bind = ppl_host_pack_bind, .pack = ppl_host_pack_run,                 \
    .program_run = ppl_host_program_run

#endif
