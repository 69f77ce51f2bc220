// plan.h - the compiled form: each rank's task list and the layout of all memory. Before: schedule.h and stages.h. After:
// exec runs the tasks over a device and links, sim runs them over costs. Everything here is data that prints.
//
// What is proven before a plan exists: the schedule is complete and in order (schedule/check.c); the graph of "waits for"
// over all tasks of a step (order within a rank, receive after send, credit after release) has no cycle, with sends that
// need the receiver's buffer (nothing is assumed to be buffered in a link); live activations stay within max_live. Since a
// step's tasks wait only for tasks of the same or of an earlier step, chained steps have no cycle either. Asynchronous plans,
// whose steps overlap, are proven over two steps (prove.c says why that is enough), and so is that no version of the weights
// is overwritten before its last reader.
#ifndef PPL_PLAN_PLAN_H
#define PPL_PLAN_PLAN_H
#include "graph/stages.h"
#include "schedule/schedule.h"

typedef enum ppl_region {
    PPL_REGION_NONE = 0,
    PPL_REGION_PARAM,   // this rank's copy of parameter `index`, as operators read it
    PPL_REGION_GRAD,    // accumulators of this rank, at `offset`; those of tied parameters lie in their U edge's buffer
    PPL_REGION_SLOT,    // activation slot of the stage: base + task.slot * slot_bytes + offset
    PPL_REGION_PENDING, // likewise with task.pending
    PPL_REGION_EDGE,    // edge `index`: base + ppl_plan_buffer(edge, microbatch) * bytes, or the reader's own buffer
    PPL_REGION_WORK,    // the rank's workspace, at `offset`: dead when the program ends
    PPL_REGION_SEED
} ppl_region;

typedef struct ppl_place {
    int32_t region; // ppl_region
    int32_t index;
    size_t offset; // bytes
} ppl_place;

// The two sides of an edge. Readers on the producer's own rank need no tasks: the rank's order is proof enough, and
// `buffers` is chosen so that no buffer is written while its former value is still read there. Readers on other ranks get
// RECEIVE and RELEASE, the producer SEND and CREDIT. With shared links all readers use the producer's buffers; with
// copying links a reader on another rank has buffers of its own (use n lies in sequence % reader_buffers), RECEIVE copies
// and gives the producer's buffer back at once, and reader_buffers is chosen from the reader's order, so RELEASE is not
// emitted there.
typedef struct ppl_edge_plan {
    int32_t buffers; // the producer's
    int32_t
        *order; // [microbatches]: position of a microbatch in the producer's order, its `sequence` ([1] for U edges)
    int32_t n_readers;       // as in ppl_edge
    int32_t *reader_rank;    // [n_readers]; the producer's where a forward-only plan does not read it
    int32_t *reader_buffers; // [n_readers]: 0 = reads the producer's; else the number of its own buffers
} ppl_edge_plan;

typedef struct ppl_stage_layout {
    ppl_place *place; // [graph values]; region NONE where the stage does not touch the value
    size_t slot_bytes, pending_bytes;
    int32_t slots, pendings;
    int32_t versions; // of its weights
} ppl_stage_layout;

typedef struct ppl_rank_plan {
    ppl_task *tasks;
    int64_t count;
    int32_t peak_live; // stage-microbatches between F and the end of W (or B)
    int32_t *stages;   // owned, ascending: chunk -> stage
    int32_t n_stages;
    size_t work_bytes, grad_bytes; // of this rank; a workspace of its own for each stream
    int32_t streams;               // 1; 2: there are tasks on stream 1
    int32_t *params;               // indexes of parameters with a copy here, ascending
    int32_t n_params;
    int64_t ahead; // tasks[0 .. ahead) run within the step before, where there is one
    // [count]: tasks in the order in which they run while one step follows another, those below `ahead` being the next
    // step's; NULL: the list's own order.
    int64_t *turns;
    int64_t
        forward_tasks; // tasks[0 .. forward_tasks) depend on no backward task of any rank in this step: what a rollback redoes
} ppl_rank_plan;

typedef struct ppl_plan_options {
    bool forward_only;  // evaluation: F actions alone, activations released at once
    bool copy_links;    // links copy (NCCL, MPI) instead of handing over pointers
    bool receive_early; // readers' own buffers are free an action before a receive, which may begin that early
    bool least_buffers; // edges get no more buffers than the order needs, so that producers wait for readers: for tests
    int32_t streams;   // that run at once on a rank's device; below 2: actions that may overlap run one after the other
    bool validate;     // clip after: puts a VALIDATE behind each rank's forward_tasks
    int32_t processes; // that share the ranks, at most as many as those; 0: one. Between processes links copy
    size_t memory_limit; // bytes a rank; 0 none: exceeded is an error that says what it would take
} ppl_plan_options;

struct ppl_plan {
    ppl_arena arena;
    const ppl_stages *stages; // borrowed (owned when abstract: see owned_stages)
    ppl_stages *owned_stages;
    ppl_plan_options options;
    char schedule[PPL_NAME_BYTES];
    int32_t ranks, microbatches;
    int32_t weights;          // ppl_weights; forward-only plans are SYNC
    int32_t *stage_rank;      // [stages]
    ppl_rank_plan *rank;      // [ranks]
    ppl_stage_layout *layout; // [stages]; place is NULL in abstract plans
    ppl_edge_plan *edge;      // [stages->n_edges]
    struct ppl_trace *trace;  // of the last simulation; NULL
    ppl_link_load *load;      // [n_load]: likewise
    int32_t n_load;
    ppl_schedule *actions; // a copy of the schedule, for printing and marking
};

// Compiles and proves. borrows stages for the plan's life; copies what it needs of the schedule.
ppl_status ppl_plan_build(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options,
                          ppl_plan **out);

// Asynchronous plans do not drain between steps: places (slots, buffers) are taken in turn over all steps.
static inline bool ppl_plan_flows(const ppl_plan *p) {
    return p->weights != PPL_WEIGHTS_SYNC;
}
// Which of `places` use `sequence` of step `step` has; uses: a step.
static inline int32_t ppl_plan_place(const ppl_plan *p, int32_t places, int32_t uses, int64_t step, int32_t sequence) {
    return (int32_t)(((ppl_plan_flows(p) ? step * uses : 0) + sequence) % places);
}
// The task that a rank runs k-th in round `round`, and the step it is of; NULL: it is of no step from `first` on and before
// `end`. Rounds begin one before `first`, so that what runs ahead of the first step has its place too.
static inline const ppl_task *ppl_rank_turn(const ppl_rank_plan *r, int64_t k, int64_t round, int64_t first,
                                            int64_t end, int64_t *step) {
    int64_t at = r->turns ? r->turns[k] : k;
    *step = round + (at < r->ahead);
    return *step >= first && *step < end ? &r->tasks[at] : NULL;
}

// The producer's buffer that holds (edge, microbatch) in step 0.
static inline int32_t ppl_plan_buffer(const ppl_plan *p, int32_t edge, int32_t microbatch) {
    return p->edge[edge].order[microbatch] % p->edge[edge].buffers;
}
// How many uses an edge has in a step: the microbatches, 1 for U edges. Use n of the run, n = step * uses + sequence.
int32_t ppl_plan_uses(const ppl_plan *p, int32_t edge);
int32_t ppl_plan_param_versions(const ppl_plan *p, int32_t param); // of its stage's weights; 1 where it is not trained
int32_t ppl_plan_edge_rank(const ppl_plan *p, int32_t edge);       // the producer's rank
// Process p of P holds ranks p * R / P up to (p + 1) * R / P, of R.
static inline int32_t ppl_plan_process(const ppl_plan *p, int32_t rank) {
    return p->options.processes > 1 ? (int32_t)(((int64_t)(rank + 1) * p->options.processes - 1) / p->ranks) : 0;
}

#endif
