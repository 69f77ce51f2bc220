// rank.h - inside exec: one rank, what all ranks share, and the calls between this folder's files in reading order.
// Before: exec.h, whose functions exec.c gives. Nothing outside this folder includes it.
//
// Steps are counted twice: `step` is what the trainer calls it, `tick` counts the steps of a side from 0 without gaps
// (a loaded checkpoint makes steps jump); tickets, the norm board and windows go by ticks.
#ifndef PPL_EXEC_RANK_H
#define PPL_EXEC_RANK_H
#include "base/clock.h"
#include "base/memory.h"
#include "device/activity.h"
#include "exec/exec.h"
#include "train/optimizer.h"
#include "train/store.h"
#include <pthread.h>

// A rank begins tick k only when every rank has finished tick k - AHEAD + 1: what is kept for each tick has AHEAD places.
enum { PPL_EXEC_AHEAD = PPL_TRACE_AHEAD };

typedef enum ppl_command {
    PPL_COMMAND_SETUP = 0, // device, programs
    PPL_COMMAND_MEMORY,    // all memory
    PPL_COMMAND_BIND,      // addresses into all ranks' edges, first copies of the weights
    PPL_COMMAND_STEPS,     // a range of steps of a side
    PPL_COMMAND_WEIGHTS,   // weights changed from outside
    PPL_COMMAND_FETCH,     // weights and moments back into the store, from devices with memory of their own
    PPL_COMMAND_CLOSE      // gives everything back; the thread ends
} ppl_command;

// What a rank is at, for reports.
typedef enum ppl_where {
    PPL_AT_REST = 0, // between steps
    PPL_AT_TASK,     // at task `at` of its list
    PPL_AT_NORM,     // in a NORM or VALIDATE (or at the end of its steps), for the other ranks' square sums
    PPL_AT_MEET,     // in a rollback, for all ranks to stand still
    PPL_AT_WINDOW,   // before a step, for ranks that are too far behind
    PPL_AT_DEVICE    // for what its device has still to do
} ppl_where;

typedef enum ppl_side_kind { PPL_SIDE_TRAIN = 0, PPL_SIDE_FORWARD, PPL_SIDES } ppl_side_kind;

// One plan made real: its link and the memory of its edges.
typedef struct ppl_side {
    const ppl_plan *plan; // NULL: there is no such side
    ppl_link *link;
    void **memory;         // [edges]: the producer's buffers; allocated by the producer's rank
    void ***reader_memory; // [edges][readers]: the reader's own buffers, NULL where it reads the producer's
    int64_t ticks;         // finished by all ranks, between commands
} ppl_side;

// Pointers of a program's calls that move together: each is base + index * stride.
typedef struct ppl_patch {
    void *at; // of a pointer
    char *base;
} ppl_patch;
typedef struct ppl_aim {
    ppl_patch *patch;
    size_t stride;
    int32_t count, index; // what they are aimed at now; -1 nothing yet
    int32_t places;       // indexes go round
} ppl_aim;
typedef struct ppl_edge_aim {
    ppl_aim aim;
    const int32_t *order; // [microbatches] of the edge; NULL: used once a step
} ppl_edge_aim;
typedef struct ppl_param_aim {
    void *at;
    int32_t param;
} ppl_param_aim;
typedef struct ppl_input_fill {
    ppl_value value;
    void *to;      // aimed like the calls' pointers
    char *staging; // asynchronous devices: [AHEAD][microbatches] of `bytes`, pinned
    size_t bytes;
} ppl_input_fill;

// A program with the addresses of one side, as program_run wants it.
typedef struct ppl_bound {
    ppl_device_program *program;
    ppl_call *calls;
    int32_t n_calls, n_edges, n_params, n_sums, n_fills;
    ppl_aim slot, pending, work; // work: where there is a workspace for each stream
    ppl_edge_aim *edges;
    ppl_param_aim *params; // pointers to parameters: exchanged halves and versions move them
    int32_t version;       // the place of the weights they point at; -1 nothing yet
    int64_t uses;          // by which places go round from step to step; 0: each step begins with the first place
    ppl_call **sums;       // calls that accumulate: a step's first microbatch overwrites
    ppl_input_fill *fills; // inputs that are born in this program
    void *loss;            // where the loss is after it, aimed; NULL: not in this program
    bool has_loss, sums_add;
} ppl_bound;

// A rank's share of a side.
typedef struct ppl_chunk_memory {
    char *slots, *pendings;
    ppl_bound bound[PPL_PHASES];
} ppl_chunk_memory;

typedef struct ppl_rank_param { // a parameter that this rank updates
    int32_t param;
    int32_t stage;      // the lowest here that uses it: in whose UPDATE it steps
    bool counts;        // its square sum is this rank's to publish: the lowest stage of all is here
    const void **grads; // [uses]
    ppl_update update;  // what does not change from step to step
} ppl_rank_param;

// Square sums of one tick. Written by the ranks, read by the last one to arrive.
typedef struct ppl_board_slot {
    _Alignas(64) atomic_llong arrived; // ranks, over all ticks that this slot has served
    _Alignas(64) atomic_llong ready;   // tick + 1 once norm and scale stand
    atomic_llong clipped;              // tick + 1 when some stage was clipped (PPL_CLIP_STAGE)
    double norm, scale;
    double *sums;                       // [params]
    _Alignas(64) atomic_llong finished; // ranks that ended the step, over all ticks that this slot has served
} ppl_board_slot;

// What one process knows of the others (peers.c); unused alone.
typedef struct ppl_peers {
    ppl_world *world;
    int32_t *param_process;  // [params]: whose square sum counts; -1 none
    void *marks;             // of pulses
    double *losses;          // [AHEAD][microbatches]: of this process's last stage, for process 0
    atomic_bool wants_stop;  // an interrupt here, not yet told
    atomic_llong limit;      // the tick at which an interrupted range ends; -1 not known
    _Atomic(int64_t) *heard; // [processes]: ppl_now of the last words
    int64_t looked;          // ppl_now of the caller's last look at them
    int32_t frozen, came;    // process 0: how many have answered a freeze, have come to a meeting
    int64_t most_begun;      // process 0: of those that have answered
    int64_t completed;       // process 0: what it has told of all ranks' completed ticks
} ppl_peers;

// A step of which all tasks have run, or are enqueued.
typedef struct ppl_step_end {
    int64_t tick, step, link_bytes;
    int32_t side, peak_live;
    bool timed;
} ppl_step_end;

// What a rank on an asynchronous device keeps (ahead.c). What is kept for each tick has PPL_EXEC_AHEAD places.
typedef struct ppl_ahead {
    void *done[PPL_EXEC_AHEAD], *sums_done[PPL_EXEC_AHEAD]; // events: the tick's last task; its square sums
    void *still;                                            // an event for whoever waits for all that is enqueued
    bool sums_out[PPL_EXEC_AHEAD];                          // square sums are underway and not on the board
    int64_t sums_tick[PPL_EXEC_AHEAD], sums_step[PPL_EXEC_AHEAD];
    double *sums, *sums_host;   // [params of the rank] (stash: [microbatches] of these) of the device; [AHEAD], pinned
    double *loss, *seed;        // pinned: [AHEAD][microbatches] and [AHEAD], a number of the graph's type in each
    int32_t loss_stage;         // -1: the loss is not here
    void **timer;               // [AHEAD][tasks][3]; NULL where tasks are not timed
    int64_t timers;             // that are open
    void *base[PPL_EXEC_AHEAD]; // timers: the tick's begin
    atomic_llong seen;          // tasks whose end was seen, counted over all ticks: signs of life
    int64_t base_ns;            // ppl_now of the last base that was read
    int32_t base_at;            // its place; -1 none in this range
    bool *forks;                // [tasks]: an action begins that the next one runs beside; NULL: there is one stream
    void *fork, *join;          // events: stream 0 is there, stream 1 is done
    bool beside;                // stream 0 has still to wait for stream 1
    ppl_step_end last;          // the newest step that is enqueued,
    bool pending;               // and not told of
} ppl_ahead;

// What makes the global norm where the gradients are (joint.c): the ranks of one unit.
typedef struct ppl_joint_unit {
    int32_t unit, leader, ranks;    // of this process; leader: the lowest
    double *own, *all, *scale;      // memory of the unit: [sums] of its ranks, of all; what gradients are multiplied by
    int32_t *order;                 // [count], likewise
    int64_t count;                  // parameters that are trained
    void *made;                     // event: the scale stands
    _Alignas(64) atomic_llong came; // ranks that have enqueued their sums, over all ticks
    _Alignas(64) atomic_llong done; // ticks whose scale is enqueued
} ppl_joint_unit;
typedef struct ppl_joint {
    ppl_joint_unit *unit; // [n_units]
    int32_t n_units;
    size_t sums;         // of all ranks, of all processes
    double **from, **to; // [ranks]: of the lowest on each unit, for links
} ppl_joint;

// The activity of a rank's GPU (activity.c).
typedef struct ppl_counted {
    int32_t gpu;
    ppl_activity *own; // of the lowest rank here on the GPU; NULL: another's, or it cannot be read
    int32_t of;        // that rank
    char reason[304];  // why it cannot
} ppl_counted;

typedef struct ppl_rank {
    ppl_bell bell;
    _Alignas(64) atomic_llong pulse;     // grows with every task: the sign of life
    atomic_llong at, step, tick;         // of the task
    atomic_int where;                    // ppl_where
    _Alignas(64) atomic_llong completed; // ticks of the side in progress

    _Alignas(64) struct ppl_exec *exec; // from here on the rank's own
    int32_t rank;
    bool started;
    pthread_t thread;
    ppl_device *device;
    ppl_arena arena;
    ppl_device_program *(*program)[PPL_PHASES]; // [chunks]
    size_t work_bytes, scratch_bytes;           // of one stream
    size_t packed_bytes;                        // of one version
    int32_t streams;                            // that its tasks run on
    int32_t versions;                           // of packed weights: the most of its stages
    char *work, *scratch, *packed, *grads;
    ppl_chunk_memory *chunk[PPL_SIDES]; // [chunks]
    void *seed;                         // the scalar 1 / the step's weight, in the graph's accumulator dtype
    ppl_call_env env;
    ppl_rank_param *params;
    int32_t n_params;
    void *report;     // what process 0 is told of a step: spans, losses; NULL where nobody is told
    double *scale;    // [chunks]: of the gradients in this step
    int64_t *updates; // [chunks]: since the executor was opened: the newest version, in place updates % versions
    int64_t spin_ns;
    int32_t live, peak_live;
    int64_t unvalidated, unvalidated_step; // tick and step whose norm is still out (PPL_CLIP_AFTER); -1 none
    int64_t meets;                         // meetings it took part in
    ppl_ahead *ahead;                      // NULL on synchronous devices
    ppl_joint_unit *joint;                 // NULL: the hosts make the norm
    void *joined;                          // event: its sums are there
    ppl_store_entry *mirror;               // [params], memory of the device; NULL where the store serves
    void **label[PPL_SIDES];               // [tasks]: names for a profiler; NULL where none listens
    int64_t bytes[PPL_MEMORIES];
} ppl_rank;

struct ppl_exec {
    const ppl_plan *plan;
    ppl_store *store; // borrowed; NULL with plans without a graph
    ppl_exec_options options;
    ppl_exec_client client;
    ppl_arena arena;
    ppl_side side[PPL_SIDES];
    ppl_trace *trace;
    bool untimed;   // steps leave no spans
    ppl_rank *rank; // [ranks]
    ppl_bell **bells;
    ppl_device **devices; // [ranks]; NULL where they are synchronous
    ppl_joint *joint;     // NULL: none
    ppl_counted *counted; // [ranks]; NULL where ranks are on no GPU
    ppl_board_slot board[PPL_EXEC_AHEAD];
    _Alignas(64) atomic_bool stop;
    atomic_int command;
    atomic_uint orders; // counts commands: ranks wait for it to change
    atomic_int running; // ranks that still work on the command
    ppl_bell caller;
    _Alignas(64) atomic_ullong gate; // how many ticks some rank has begun; the top bit: interrupted
    _Alignas(64) atomic_llong met;   // arrivals of this process's ranks at meetings
    atomic_llong meetings;           // that all ranks have come to
    atomic_int in_window;            // ranks that wait for others to finish a step
    int32_t range_side;              // the command's arguments
    int64_t range_first, range_n;
    int64_t range_updates; // of each parameter before the range
    bool stale;            // devices with memory of their own: the store is older than what they have
    int32_t first, end;    // this process's ranks
    ppl_peers peers;
    pthread_mutex_t mutex; // guards fault
    ppl_status fault;      // the first; PPL_OK none
    char fault_text[8192];
};

// ---- wait.c: faults, waiting, who may go on ----
void ppl_exec_fault(ppl_exec *e, ppl_status status); // takes this thread's text; the first fault wins; stops all ranks
void ppl_exec_ring_all(ppl_exec *e);
// Between two looks at what a rank waits for: spins or sleeps. begin: 0 before the first, kept by the caller. seen: the
// bell's count before the last look. PPL_ERR_STOPPED when the run stops.
ppl_status ppl_rank_pause(ppl_rank *r, int64_t *begin, unsigned seen);
ppl_status ppl_rank_go_on(const ppl_rank *r); // PPL_ERR_STOPPED when the run stops
static inline unsigned ppl_rank_heard(ppl_rank *r) {
    return atomic_load_explicit(&r->bell.rung, memory_order_acquire);
}
// Waits until *counter >= target.
ppl_status ppl_rank_wait_count(ppl_rank *r, const atomic_llong *counter, int64_t target, ppl_where where);
ppl_status ppl_rank_window(ppl_rank *r, int64_t tick);
void ppl_rank_finish(ppl_rank *r, int64_t tick); // announces a finished tick
ppl_status ppl_rank_meet(ppl_rank *r);           // returns when all ranks are here
void ppl_gate_open(ppl_exec *e, int64_t tick);
// may false: the run was interrupted and no rank has begun this tick.
ppl_status ppl_gate_enter(ppl_rank *r, int64_t tick, bool *may);
bool ppl_gate_close(ppl_exec *e);     // true: there was an interrupt, which is now answered
int64_t ppl_gate_freeze(ppl_exec *e); // no further tick is begun until there is a limit; returns how many were
static inline ppl_board_slot *ppl_board_at(ppl_exec *e, int64_t tick) {
    return &e->board[tick % PPL_EXEC_AHEAD];
}

// ---- peers.c: the other processes ----
static inline bool ppl_exec_leads(const ppl_exec *e) { // alone, or process 0: what joins all ranks is done here
    return !e->peers.world || e->peers.world->process == 0;
}
static inline int64_t ppl_exec_expects(const ppl_exec *e) { // ranks that are counted here
    return ppl_exec_leads(e) ? e->plan->ranks : e->end - e->first;
}
ppl_status ppl_peers_open(ppl_exec *e);
void ppl_peers_close(ppl_exec *e);
ppl_status ppl_peers_begin(ppl_exec *e); // a range: words are of this one from here on
// Looks after everything that is underway; by waiting ranks with try, so that they do not queue.
ppl_status ppl_peers_poll(ppl_exec *e, bool try);
ppl_status ppl_peers_sums(ppl_exec *e, int64_t tick, int64_t step); // this process's ranks have theirs
ppl_status ppl_peers_norm(ppl_exec *e, int64_t tick, int64_t step); // the norm of all is known
ppl_status ppl_peers_done(ppl_rank *r, int64_t tick, int64_t step, const ppl_span *row, int64_t link_bytes);
ppl_status ppl_peers_completed(ppl_exec *e); // a rank has completed a tick
ppl_status ppl_peers_meet(ppl_exec *e);      // this process's ranks are at a meeting
void ppl_peers_fault(ppl_exec *e);           // there is a fault
ppl_status ppl_peers_pulse(ppl_exec *e);     // signs of life
ppl_status ppl_peers_interrupt(ppl_exec *e); // hands an interrupt of this process on, if there is one
bool ppl_peers_end(const ppl_exec *e);       // nothing more comes of this range that is needed here
ppl_status ppl_peers_silent(ppl_exec *e, int64_t now, double limit); // fails when a process has not been heard of

// ---- rank.c: a rank's own things ----
ppl_status ppl_rank_setup(ppl_rank *r);
ppl_status ppl_rank_memory(ppl_rank *r);
void ppl_rank_clear(ppl_rank *r);
int32_t ppl_rank_chunk(const ppl_rank *r, int32_t stage); // index of a stage among the rank's; -1 not here

ppl_status ppl_exec_room(ppl_exec *e); // room.c: fails when devices have too little memory for all ranks

// ---- mirror.c: the store's entries on a device with memory of its own; nothing to do on others ----
ppl_status ppl_mirror_get(ppl_rank *r);
void ppl_mirror_free(ppl_rank *r);
ppl_status ppl_mirror_push(ppl_rank *r);  // the store's numbers go over
ppl_status ppl_mirror_fetch(ppl_rank *r); // and come back
static inline ppl_store_entry *ppl_rank_entry(const ppl_rank *r, int32_t param) {
    return r->mirror ? &r->mirror[param] : ppl_store_at(r->exec->store, r->rank, param);
}

// ---- ahead.c: ranks on asynchronous devices ----
ppl_status ppl_ahead_open(ppl_rank *r); // once programs have their addresses; no rank->ahead on synchronous devices
void ppl_ahead_close(ppl_rank *r);
ppl_status ppl_ahead_enter(ppl_rank *r, int64_t tick, bool first); // a timed step begins; first: of a range
ppl_status ppl_ahead_seed(ppl_rank *r, int64_t tick, int32_t dtype, double value);
ppl_status ppl_ahead_fill(ppl_rank *r, const ppl_input_fill *f, int64_t tick, int64_t step, const ppl_task *task,
                          int32_t microbatches);
ppl_status ppl_ahead_loss(ppl_rank *r, const void *loss, int64_t tick, const ppl_task *task);
ppl_status ppl_ahead_begin(ppl_rank *r,
                           int64_t tick); // times of the task that the rank is at; nothing where none are kept
ppl_status ppl_ahead_middle(ppl_rank *r, int64_t tick);
ppl_status ppl_ahead_end(ppl_rank *r, int64_t tick);
ppl_status ppl_ahead_sums(ppl_rank *r, int64_t tick, int64_t step);
// Those of a microbatch that steps a stage's weights alone join the step's; await, for whoever needs them at once: [params].
ppl_status ppl_ahead_sums_alone(ppl_rank *r, int32_t stage, int32_t microbatch);
ppl_status ppl_ahead_sums_await(ppl_rank *r, int64_t tick, int32_t microbatch, const double **out);
ppl_status ppl_ahead_publish(ppl_rank *r, int64_t tick);       // waits for the tick's sums, if they are not published
ppl_status ppl_ahead_poll(ppl_rank *r, bool *out);             // publishes what is there; out: some are still underway
ppl_status ppl_ahead_push(ppl_rank *r, const ppl_step_end *s); // a step is enqueued: waits for the one before
ppl_status ppl_ahead_drain(ppl_rank *r);                       // waits for the last one
ppl_status ppl_ahead_still(ppl_rank *r);                       // waits for all that is enqueued

// ---- streams.c: actions that run beside one another ----
ppl_status ppl_streams_open(ppl_rank *r);
void ppl_streams_close(ppl_rank *r);
ppl_status ppl_streams_enter(ppl_rank *r, int64_t at,
                             const ppl_task *task); // before what a task of a training step enqueues
ppl_status ppl_streams_join(ppl_rank *r);

ppl_status ppl_labels_open(ppl_rank *r); // label.c: what a profiler calls the tasks
// ---- joint.c: the norm where the gradients are ----
ppl_status ppl_joint_open(ppl_exec *e); // by the caller, before links open
void ppl_joint_close(ppl_exec *e);
double *ppl_joint_sums(const ppl_rank *r); // where its square sums go; NULL: where it likes
ppl_status ppl_joint_warm(ppl_rank *r);
ppl_status ppl_joint_norm(ppl_rank *r, int64_t tick); // the rank's sums are enqueued; its updates may be from here on

// ---- activity.c: by the caller, between ranges ----
ppl_status ppl_exec_activity_open(ppl_exec *e); // fails for want of memory alone
void ppl_exec_activity_close(ppl_exec *e);
void ppl_exec_activity_begin(ppl_exec *e);
void ppl_exec_activity_end(ppl_exec *e);

// ---- warm.c ----
// Runs each program and the optimizer once, on memory that is set afterwards: asynchronous devices load code when it is
// first used, which may wait for all that they have underway.
ppl_status ppl_rank_warm(ppl_rank *r);

// ---- version.c: which weights ----
int64_t ppl_exec_updates(const ppl_exec *e);               // of each stage in a step
int32_t ppl_rank_newest(const ppl_rank *r, int32_t chunk); // the place of a chunk's newest weights
// The place of the weights that a task of a side and tick reads.
int32_t ppl_rank_place(const ppl_rank *r, int32_t side, const ppl_task *task, int64_t tick);
ppl_status ppl_rank_pack_bind(ppl_rank *r, int32_t place); // packing and programs from here on go by this place
ppl_status ppl_rank_weights(ppl_rank *r);                  // copies and packed forms anew, of all versions the newest
// Before the optimizer steps a parameter: where it puts the next version.
void ppl_rank_next(ppl_rank *r, int32_t chunk, ppl_store_entry *e, ppl_update *u);

// ---- bind.c: addresses ----
ppl_status ppl_rank_bind(ppl_rank *r, int32_t side);
void ppl_rank_bind_params(ppl_rank *r); // after masters or copies moved
// place: of the weights.
ppl_status ppl_bound_aim(ppl_rank *r, ppl_bound *b, const ppl_task *task, int64_t tick, int32_t place);
// As operators read it, in a place of its versions; a parameter of one version has it in all places.
const void *ppl_rank_weight(const ppl_rank *r, int32_t param, int32_t place);
// Where a value lies whose address does not change: GRAD, or an edge that is used once a step. NULL: nowhere here.
void *ppl_rank_fixed(const ppl_rank *r, int32_t side, int32_t stage, ppl_value value);

// ---- norm.c: NORM, UPDATE, VALIDATE ----
// The lowest stage from `from` on, of a rank (-1: of any), that uses a parameter; -1 none.
int32_t ppl_stage_using(const ppl_plan *p, int32_t rank, int32_t from, int32_t param);
ppl_status ppl_rank_params_setup(ppl_rank *r); // which parameters it updates, and from which accumulators
ppl_status ppl_rank_norm(ppl_rank *r, int64_t tick, int64_t step, ppl_span *span);
// The rank's square sums go to the board, where the last rank to come makes the norm. sums: [params of the rank].
ppl_status ppl_rank_arrive(ppl_rank *r, int64_t tick, int64_t step, const double *sums);
ppl_status ppl_exec_norm(ppl_exec *e, int64_t tick, int64_t step); // all sums of the tick are there
ppl_status ppl_rank_update(ppl_rank *r, const ppl_task *task, int64_t tick, int64_t step);
// redo: the step before was rolled back and done again; tick is to begin anew. begun: it had begun.
ppl_status ppl_rank_validate(ppl_rank *r, int64_t tick, bool begun, bool *redo);

// ---- loop.c: the task loop ----
ppl_status ppl_rank_steps(ppl_rank *r);
ppl_status ppl_rank_end(ppl_rank *r, const ppl_step_end *s); // tells of a step that is done
// Tells of a microbatch's loss; fails when it is not finite.
ppl_status ppl_rank_loss(const ppl_rank *r, int64_t step, int32_t stage, int32_t microbatch, double sum);

// ---- watchdog.c: the caller's side ----
ppl_status ppl_exec_command(ppl_exec *e, ppl_command command); // hands it to all ranks and waits; the first fault
#endif
