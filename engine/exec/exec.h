// exec.h - the executor: one thread a rank runs its task list over its device and the links. Before: plan.h. After:
// trace.h. train/run.c owns one and tells it what a step's data, learning rate and gradients are.
#ifndef PPL_EXEC_EXEC_H
#define PPL_EXEC_EXEC_H
#include "device/device.h"
#include "link/link.h"
#include "trace/trace.h"
#include "world/world.h"

typedef struct ppl_exec ppl_exec;

// Of several processes each runs its own ranks; process 0 hears of all steps of all ranks as if they were its own, the
// others of their own ranks' ends alone. What fails in one fails in all.

// What the trainer supplies. All calls come from rank threads, possibly at once from several; they must not block. No rank
// begins step k before every rank has finished step k - PPL_TRACE_AHEAD + 1.
typedef struct ppl_exec_client {
    void *self;
    // The samples of (step, microbatch) of an INPUT value, in the graph's type, into host memory dst. Not asked for by a
    // device that does not compute.
    ppl_status (*fill)(void *self, int64_t step, int32_t microbatch, ppl_value input, void *dst);
    // By each rank before its first task that does not run ahead; 0: no gradient.
    double (*step_weight)(void *self, int64_t step);
    // After the last stage's F. Again when the step begins anew after a rollback: the later call counts. 0 where the device
    // does not compute. A loss that is not finite ends the run instead.
    void (*loss)(void *self, int64_t step, int32_t microbatch, double sum);
    // Once a step, before its last rank is done: the global gradient norm before clipping.
    void (*norm)(void *self, int64_t step, double norm, bool clipped);
    // The rank has run its list of the step; its row in the trace is written, and the last rank's call finds the step done
    // there. peak_live: of this step. link_bytes: sent to other ranks.
    void (*rank_done)(void *self, int32_t rank, int64_t step, int32_t peak_live, int64_t link_bytes);
    ppl_optimizer_options optimizer;
} ppl_exec_client;

// Memory that outlives plans: the parameters and the optimizer's state, one copy for each rank that uses them.
// store.h declares it.
struct ppl_store;

typedef struct ppl_exec_options {
    const ppl_device_ops *device;
    ppl_device_options device_options; // threads and costs; the rest is filled in
    const ppl_link_ops *link;
    const ppl_plan *eval_plan; // forward only, same ranks; may be NULL
    ppl_world *world;          // the plan's processes; NULL: this one holds all ranks
    uint64_t seed, delay_seed;
    double delay, stall_seconds; // seconds; stall 0: 120
    int32_t samples_per_microbatch, trace_steps;
    int64_t fail_task, stall_task; // of fail_rank; -1 none
    int32_t fail_rank;
} ppl_exec_options;

// Starts the rank threads; each opens its device, prepares its programs and allocates all its memory. Borrows plans and
// store (NULL where the stages have no graph). Wants VALIDATE tasks exactly with clip after; of devices with memory of their
// own, a graph, and links that reach all units.
ppl_status ppl_exec_open(const ppl_plan *plan, struct ppl_store *store, const ppl_exec_options *options,
                         const ppl_exec_client *client, ppl_exec **out);
void ppl_exec_close(ppl_exec *e); // joins all threads
// Hands steps first .. first + n - 1 to all ranks and waits; with clip after, the last one is validated too. done: how many
// every rank completed. A failure (first fault wins) stops all ranks; after it only close is allowed.
ppl_status ppl_exec_steps(ppl_exec *e, int64_t first, int64_t n, int64_t *done);
// The same for the forward-only plan; the client sees fill, step_weight and loss.
ppl_status ppl_exec_forward(ppl_exec *e, int64_t first, int64_t n);
// Async-signal-safe. Ranks stop after the newest step that one of them has begun, and the call that hands out steps returns
// PPL_ERR_STOPPED: not a failure. Between two calls it counts for the next one, which then begins no step.
void ppl_exec_interrupt(ppl_exec *e);
ppl_trace *ppl_exec_trace(ppl_exec *e);
void ppl_exec_time(ppl_exec *e, bool on); // between steps: whether the tasks of the following ones are timed
// Devices with memory of their own: the store gets weights and moments as the last step left them. To be called, between
// steps, before the store is read or a part of it is written.
ppl_status ppl_exec_weights_fetch(ppl_exec *e);
// Weights were changed from outside, between steps: copies and packed forms are made anew.
ppl_status ppl_exec_weights_changed(ppl_exec *e);
int64_t ppl_exec_memory(const ppl_exec *e, int32_t rank, int32_t kind); // bytes; ppl_memory
// Of a rank of this process, over the newest range of training steps that was long enough.
void ppl_exec_gpu_activity(const ppl_exec *e, int32_t rank, ppl_gpu_activity *out);
// The gradient of a parameter summed over its uses, after a step, as f64.
ppl_status ppl_exec_gradient(const ppl_exec *e, int32_t param, double *out);

#endif
