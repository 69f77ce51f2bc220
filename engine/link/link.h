// link.h - how the ranks of a plan pass values: buffers of edges, tickets, credits. Before: plan.h. Used by exec alone.
//
// Use n of an edge (n = step * per_step + sequence, from 0) lies in the producer's buffer sequence % buffers, in plans whose
// steps overlap in n % buffers. The calls below never block: they return with *done false, and the executor polls again,
// sleeping on the rank's bell meanwhile.
// A link that is asynchronous by itself (NCCL) enqueues and says done at once. Steps count from 0 when the link is opened
// and without gaps, whatever the trainer calls them.
#ifndef PPL_LINK_LINK_H
#define PPL_LINK_LINK_H
#include "base/clock.h"
#include "device/device.h"
#include "plan/plan.h"

typedef struct ppl_link ppl_link; // all edges of a plan, shared by all ranks of the process

// Bytes from one buffer of an edge to the next: each begins on a cache line.
static inline size_t ppl_link_stride(const ppl_edge *e) {
    return ppl_align(e->bytes, 64);
}

typedef struct ppl_link_options {
    bool copies;            // as in ppl_plan_options
    ppl_bell *const *bells; // [ranks]: rung when something a rank may wait for has changed
    uint64_t delay_seed;    // not 0: each send becomes visible only after a random delay
    double delay;           // seconds at most
    const ppl_costs *costs; // not NULL: a value becomes visible when it would be there over links that take so long;
    // between processes the links themselves take their time
    struct ppl_world *world; // of the plan's processes; NULL: one
    // On asynchronous devices: whose streams the events of buffers order. devices: [ranks], NULL for those of other
    // processes; NULL: values are there when a task ends.
    const ppl_device_ops *device;
    ppl_device *const *devices;
    const int32_t *unit; // [ranks]: local links serve readers on their producer's unit alone; NULL: all
    // What `sum` adds over all units: memory of the device of the lowest rank on each; [ranks]; NULL: nothing is added.
    double *const *sum_from, *const *sum_to;
    size_t sums;
    const atomic_bool *stop; // set when the run has failed: nothing is waited for any more
    double seconds;          // how long other ranks may take to come to the opening
} ppl_link_options;

// For tests: nanoseconds after a send before it may be seen, a function of the send alone, so that a seed gives one
// interleaving.
int64_t ppl_link_delay(const ppl_link_options *o, const ppl_task *task, int64_t step);

typedef struct ppl_link_ops {
    const char *name;
    int32_t receives_ahead; // how many receives a rank may have posted before they are needed; large: no limit
    bool copies;            // values cross by copy: plans need buffers on both sides
    bool early;             // plans should have the reader's buffers free one action before a receive (receive_early)
    bool streams;           // on asynchronous devices each task is ordered on its own stream, ppl_task.stream
    // memory[edge]: the producer's buffers, ppl_link_stride apart; reader_memory[edge][reader]: the reader's own, NULL when it reads
    // the producer's. All allocated by the executor, borrowed.
    ppl_status (*open)(const ppl_plan *plan, const ppl_link_options *options, void *const *memory,
                       void *const *const *reader_memory, ppl_link **out);
    void (*close)(ppl_link *self);
    ppl_status (*credit)(ppl_link *self, const ppl_task *task, int64_t step, bool *done);
    ppl_status (*send)(ppl_link *self, const ppl_task *task, int64_t step);
    // reader: which entry of the edge plan's readers this rank is
    ppl_status (*receive)(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step, bool *done);
    ppl_status (*release)(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step);
    // A RECEIVE that stands behind the program which is about to be enqueued: links whose receives are enqueued themselves
    // begin it now, so that the value crosses while the program runs. Only in plans with receive_early.
    ppl_status (*early_receive)(ppl_link *self, const ppl_task *task, int32_t reader, int64_t step);
    // Adds up sum_from of all units into each's sum_to, on the device: by the lowest rank of each unit, in the same turn.
    // What is not 0 on one unit alone keeps its bits.
    ppl_status (*sum)(ppl_link *self, int32_t rank);
    // Whether something that a rank has underway has failed; on the rank's own thread, while it waits for its device.
    ppl_status (*check)(ppl_link *self, int32_t rank);
    // Forgets all tickets of `step` and later on the edges this rank produces or releases, and drops what is underway: a
    // rollback begins the step anew. begun: the ranks have sent what comes before the step's VALIDATE, else nothing of it.
    ppl_status (*rewind)(ppl_link *self, int32_t rank, int64_t step, bool begun, bool *done);
    // Looks after what is underway to and from other processes; by any thread, one at a time.
    ppl_status (*poll)(ppl_link *self);
    int64_t (*bytes)(const ppl_link *self, int32_t rank); // memory of its own for a rank's edges
    // When a pending receive's value, which was sent, becomes visible: ppl_now nanoseconds; 0 when only a bell tells.
    int64_t (*due)(const ppl_link *self, const ppl_task *task, int32_t reader, int64_t step);
    // The rank that a pending credit or receive waits for, for reports: of several readers, the one furthest behind.
    void (*waits_for)(const ppl_link *self, const ppl_task *task, int64_t step, int32_t *rank);
    double (*sent_at)(const ppl_link *self, const ppl_task *task,
                      int64_t step); // ppl_clock seconds of the buffer's last send
} ppl_link_ops;

extern const ppl_link_ops ppl_link_local;
extern const ppl_link_ops ppl_link_mpi;  // between the processes of options->world; within one, as ppl_link_local
extern const ppl_link_ops ppl_link_nccl; // between GPUs of any process; on one of them, as ppl_link_local

#endif
