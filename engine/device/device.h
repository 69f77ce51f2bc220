// device.h - the table a device fills: memory, programs, the optimizer's arithmetic, events. Behind `self` is one rank's
// device; all calls on it come from that rank's thread, except memory_get/memory_free and copies while the rank is idle.
//
// Asynchronous devices enqueue: program_run, update, copies and square_sum_at return when the work is in the stream's queue,
// and event_* order streams without the host. On synchronous devices the work is done on return and events are always done.
#ifndef PPL_DEVICE_DEVICE_H
#define PPL_DEVICE_DEVICE_H
#include "device/kernel.h"
#include "ppl.h"
#include <stdatomic.h>

enum {
    PPL_DEVICE_HOST = 1,    // the host may read and write its memory
    PPL_DEVICE_ASYNC = 2,   // calls enqueue
    PPL_DEVICE_COMPUTES = 4 // values are real (the emulated device only waits)
};

typedef struct ppl_device ppl_device; // one rank's device
typedef struct ppl_device_program ppl_device_program;

typedef struct ppl_device_options {
    int32_t rank, threads;
    // Where the rank is: in which of how many processes of its host (0: one), and which of that process's ranks it is.
    int32_t process, processes, seat;
    const ppl_costs *costs;        // emulated: what programs and links take; borrowed
    const atomic_bool *stop;       // polled by long waits
    int64_t fail_task, stall_task; // emulated: which program_run of this rank, counted from 0, fails or stalls; -1 none
} ppl_device_options;

// One node of a program as the device sees it. Addresses are given per run.
typedef struct ppl_device_node {
    ppl_kernel_spec spec;
    int32_t node;  // in the graph, for error messages
    int32_t param; // the parameter behind spec.param_input; -1
    const char *name;
} ppl_device_node;

typedef struct ppl_program_needs {
    size_t scratch; // bytes: the largest of its kernels
    size_t pack;    // bytes beyond what earlier programs of this device already share by pack_key and parameter
} ppl_program_needs;

typedef struct ppl_program_run {
    int32_t stage, microbatch, kind; // kind: ppl_phase
    const ppl_call *calls; // [nodes]: in, out and add are filled in; scratch, packed and env are the program's own
    void *scratch;
    const ppl_call_env *env;
    int32_t stream;
} ppl_program_run;

// The piece of hardware behind a rank's device: ranks on the same unit read each other's memory.
typedef struct ppl_device_room {
    int32_t unit;
    char name[32];    // of the unit, the same in every process of its host; "": none
    size_t free, all; // bytes of the unit; SIZE_MAX: not limited
} ppl_device_room;

typedef struct ppl_device_ops {
    const char *name;
    uint32_t flags;
    // Before any is opened: which unit a rank will get.
    ppl_status (*unit_of)(const ppl_device_options *options, int32_t *unit);
    ppl_status (*open)(const ppl_device_options *options,
                       ppl_device **out); // on the rank's own thread, before all else
    void (*close)(ppl_device *self);
    ppl_status (*memory_get)(ppl_device *self, size_t bytes, void **out); // zeroed, 64-byte aligned (256 on GPUs)
    void (*memory_free)(ppl_device *self, void *p);
    ppl_status (*room)(ppl_device *self, ppl_device_room *out);
    ppl_status (*host_get)(ppl_device *self, size_t bytes,
                           void **out); // zeroed, of the host, for copies that do not wait
    void (*host_free)(ppl_device *self, void *p);
    // Asynchronous: src stays as it is until the stream has passed.
    ppl_status (*copy_in)(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream);
    ppl_status (*copy_out)(ppl_device *self, void *dst, const void *src, size_t bytes,
                           int32_t stream); // host data is there on return
    // Asynchronous: dst, from host_get, is there when an event recorded behind the call is done.
    ppl_status (*copy_back)(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream);
    ppl_status (*copy)(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream);
    // Prepares a program once. nodes are copied.
    ppl_status (*program_build)(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                int32_t count, ppl_program_needs *needs, ppl_device_program **out);
    void (*program_free)(ppl_device *self, ppl_device_program *program);
    // Gives the device the memory its packed parameters live in: the sum of all needs.pack, after all programs are built.
    // Another time exchanges it: packing and programs that begin behind the call go by the new one.
    ppl_status (*pack_bind)(ppl_device *self, void *memory, size_t bytes);
    // Repacks what any program packs of this parameter: after an update, and at the start.
    ppl_status (*pack)(ppl_device *self, int32_t param, const void *weight);
    ppl_status (*program_run)(ppl_device *self, ppl_device_program *program, const ppl_program_run *run);
    ppl_status (*update)(ppl_device *self, const ppl_update *u, int32_t stage);
    // *out = sum of squares of the sum of `uses` arrays of n numbers, in f64 over 16 fixed lanes: the same on every
    // instruction set and for any number of threads.
    ppl_status (*square_sum)(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                             double *out);
    // The same into memory of the device; asynchronous devices enqueue.
    ppl_status (*square_sum_at)(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                                double *out);
    // *out = what clipping multiplies gradients by, min(1, limit / (norm + 1e-6)), of the norm whose square is the sum of
    // sums[order[0]], ... sums[order[n - 1]] in this order; all in memory of the device, which asynchronous ones enqueue.
    ppl_status (*clip_scale_at)(ppl_device *self, const double *sums, const int32_t *order, int64_t n, double limit,
                                double *out);
    // From here on updates multiply gradients by the number that lies there, in memory of the device; NULL: by their scale.
    void (*scale_bind)(ppl_device *self, const double *scale);
    ppl_status (*event_open)(ppl_device *self, void **out);
    ppl_status (*timer_open)(ppl_device *self, void **out); // an event that knows when it was done
    // Seconds from one timer to another, both done and of the same unit; 0 on synchronous devices.
    ppl_status (*timer_between)(ppl_device *self, void *from, void *to, double *out);
    ppl_status (*event_record)(ppl_device *self, void *event, int32_t stream);
    ppl_status (*event_wait)(ppl_device *self, void *event, int32_t stream); // the stream waits, not the host
    ppl_status (*event_done)(ppl_device *self, void *event, bool *done);
    void (*event_close)(ppl_device *self, void *event);
    ppl_status (*synchronize)(ppl_device *self); // the host waits for all streams
    // For a profiler that listens: what this thread enqueues between begin and end is shown under a name. Names are got
    // before steps; NULL: nobody listens. kind: of the task, for a colour; step: shown beside it. No label: nothing is done.
    void *(*label_get)(ppl_device *self, const char *text);
    void (*label_begin)(ppl_device *self, void *label, int32_t kind, int64_t step);
    void (*label_end)(ppl_device *self, void *label);
    // Another stream beside the device's own, whose work goes before theirs; its number, until it is closed.
    ppl_status (*stream_open)(ppl_device *self, int32_t *out);
    void (*stream_close)(ppl_device *self, int32_t stream);
    void *(*stream_handle)(ppl_device *self, int32_t stream); // as the maker's libraries know it; NULL on the host
} ppl_device_ops;

// By name; the error lists what there is.
ppl_status ppl_device_find(const char *name, const ppl_device_ops **out);
const ppl_device_ops *const *ppl_device_list(int32_t *count);
extern const ppl_device_ops ppl_device_reference, ppl_device_cpu, ppl_device_emulated, ppl_device_cuda;

#endif
