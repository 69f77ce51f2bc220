/* ppl.h - the one public header of the engine, and at the same time the text that LuaJIT's FFI reads: apart from lines
 * that begin with '#', which the loader drops, it holds declarations, structs and enums only.
 *
 * Conventions. Ranks, stages, chunks, microbatches, steps and layers count from 0. A fallible function returns a
 * ppl_status; its results leave through its last parameters; the words of the failure are ppl_error() on the same
 * thread. "borrows": the caller keeps it alive; "copies": the caller may free it at once; "takes": it is now the
 * engine's. Shapes are written (outer, ..., inner), row-major. */
#ifndef PPL_H
#define PPL_H
#include "types.h"

enum { PPL_ABI_VERSION = 1 }; /* checked by the Lua library when it loads */

int32_t ppl_abi_version(void);
/* The size in bytes of a public struct by its name ("ppl_type"), 0 if there is none: what ffi.sizeof is held against. */
size_t ppl_abi_sizeof(const char *name);
double ppl_clock(void);        /* seconds, monotonic */
int64_t ppl_memory_held(void); /* bytes of host memory that the engine holds, over all its objects in this process */
int32_t ppl_cpu_cores(void);   /* cores this process may run on */
int32_t ppl_cpu_bf16(void);    /* 1: the CPU multiplies bf16 with instructions made for it, which is faster than f32 */

/* What GPUs this process may use. */
typedef struct ppl_gpu {
    char name[64];
    char bus[16];         /* "0000:01:00.0" */
    char reason[320];     /* why it cannot be used, and what to do; "" where it can */
    int64_t memory, free; /* bytes; free: -1 where it cannot be used */
    int32_t major, minor; /* compute capability */
    int32_t processors;   /* streaming multiprocessors */
    int32_t pad;
} ppl_gpu;
typedef struct ppl_gpu_versions {
    char driver[32];     /* "580.65.06"; "" where it is not known */
    int32_t driver_cuda; /* the newest CUDA that the driver knows, 13000; 0 without a driver */
    int32_t runtime;     /* CUDA that this program was built with; 0 without */
    int32_t nccl;        /* that is loaded, 22809; 0 without */
    int32_t pad;
} ppl_gpu_versions;

/* What lies between two GPUs of a machine, near to far. */
typedef enum ppl_path {
    PPL_PATH_SAME = 0, /* one GPU */
    PPL_PATH_NVLINK,
    PPL_PATH_BOARD,    /* one card */
    PPL_PATH_SWITCH,   /* one PCIe switch */
    PPL_PATH_SWITCHES, /* several */
    PPL_PATH_BRIDGE,   /* the CPU's PCIe host bridge */
    PPL_PATH_NODE,     /* several bridges of one CPU */
    PPL_PATH_SYSTEM,   /* two CPUs */
    PPL_PATH_UNKNOWN,
    PPL_PATHS
} ppl_path;
typedef struct ppl_gpu_link {
    int32_t from, to, path;
    int32_t nvlinks; /* that are up between the two; 0: none, or not known how many */
    int32_t peer;    /* 1: from reads and writes memory of to without the host */
    int32_t rank;    /* CUDA's own order of such links, 0 the fastest; -1 not known */
    double promised; /* bytes a second one way that the path is made for, at least; 0 not known */
} ppl_gpu_link;
/* PPL_ERR_DEVICE where there is none, with the reason: a build without CUDA, no driver or one too old, no GPU. count is
 * then 0. */
ppl_status ppl_gpu_count(int32_t *count);
/* Opens the GPU, so that what keeps it from being used shows. */
ppl_status ppl_gpu_get(int32_t index, ppl_gpu *out);
ppl_status ppl_gpu_link_get(int32_t from, int32_t to, ppl_gpu_link *out);
ppl_status ppl_gpu_versions_get(ppl_gpu_versions *out); /* what is known, whether or not there is a GPU */
int32_t ppl_gpu_of_rank(int32_t rank, int32_t gpus);    /* which of so many GPUs a rank goes to */
/* What serves attention on the cuda device, in words: cuDNN or the engine's own kernels. "" in a build without CUDA. */
const char *ppl_gpu_attention(void);
/* Where cuDNN should serve it and does not: one text with the reason for each shape of the programs built so far in this
 * process. NULL behind the last. */
const char *ppl_gpu_attention_exception(int32_t index);

/* How busy a GPU was, by its own counters: means over a time. Of the whole GPU, whoever used it; shares from 0 to 1, NaN
 * where the driver gave no value. */
typedef struct ppl_gpu_activity {
    double sm;        /* of the streaming multiprocessors, those that had work */
    double occupancy; /* of the warps that there is room for, those that were there */
    double tensor;    /* of the time, in which multiprocessors used their tensor cores */
    double memory;    /* of the bandwidth of its memory, what was used */
    double seconds;   /* that these are means over; 0: there are no figures */
    int32_t gpu, pad; /* -1: none */
    char reason[304]; /* why there are no figures, and what to do */
} ppl_gpu_activity;
/* Whether the activity of a GPU can be read; else PPL_ERR_DEVICE, with the reason. Takes a reading. */
ppl_status ppl_gpu_activity_check(int32_t index);

/* A way from this machine to others. */
typedef struct ppl_network {
    char name[32], kind[16]; /* "mlx5_0", "InfiniBand" or "RoCE"; "eth0", "network" */
    double bandwidth;        /* bytes a second by its label; 0 not known */
    int32_t up, pad;
} ppl_network;
/* max at most; gives how many. root: NULL for the kernel's own list, /sys/class. */
int32_t ppl_networks(const char *root, ppl_network *out, int32_t max);

/* ---- graph: what the model's layers are traced into ------------------------------------------------------------- */

typedef struct ppl_graph ppl_graph;
typedef int32_t ppl_value; /* id of a value inside its graph; -1 none */

typedef enum ppl_init {
    PPL_INIT_ZEROS = 0,
    PPL_INIT_ONES,
    PPL_INIT_NORMAL /* a = standard deviation */,
    PPL_INIT_UNIFORM /* [-a, a) */
} ppl_init;

typedef struct ppl_param_spec {
    int32_t init;   /* ppl_init; random values depend on the run's seed, the name and the element alone */
    int32_t decay;  /* 1: weight decay applies */
    int32_t frozen; /* 1: no gradient, no update */
    double a;
} ppl_param_spec;

/* A graph is of one dtype: F32, BF16 or F64. Parameters and activations are of it. */
ppl_status ppl_graph_open(int32_t dtype, ppl_graph **out);
void ppl_graph_close(ppl_graph *g);
/* Begins a layer: what is traced from here to the next call belongs to it, and a cut may lie before it.
 * weight: its share when stages are balanced evenly (a block 1, an embedding or a head 0). */
ppl_status ppl_graph_layer(ppl_graph *g, const char *name, double weight);
/* A value that the data source fills for each microbatch; dim 0 is the sample. Same name twice: the same value. */
ppl_status ppl_graph_input(ppl_graph *g, const char *name, const ppl_type *type, ppl_value *out);
/* A parameter. Same name twice: the same value (tied), if shape and spec agree; else PPL_ERR_SHAPE. */
ppl_status ppl_graph_param(ppl_graph *g, const char *name, int32_t ndim, const int64_t *dim, const ppl_param_spec *spec,
                           ppl_value *out);
/* Applies an operator. name (copied) is unique in the graph and keys random operators. out: as many ids as it has outputs. */
ppl_status ppl_graph_apply(ppl_graph *g, int32_t op, const char *name, const ppl_value *in, int32_t inputs,
                           const ppl_attrs *attrs, ppl_value *out);
/* Names the scalar whose sum over all microbatches, divided by the step's weight, is the loss. Ends tracing. */
ppl_status ppl_graph_loss(ppl_graph *g, ppl_value loss);
ppl_status ppl_graph_type(const ppl_graph *g, ppl_value v, ppl_type *out);
int32_t ppl_graph_layers(const ppl_graph *g);
const char *ppl_graph_layer_name(const ppl_graph *g, int32_t layer);
int64_t ppl_graph_layer_parameters(const ppl_graph *g,
                                   int32_t layer); /* numbers, a tied parameter counted at its first use */
/* The most even contiguous cut by layer weight, every stage owning at least one layer: first_layer[stage]. */
ppl_status ppl_graph_cut_even(const ppl_graph *g, int32_t stages, int32_t *first_layer);
/* Before differentiation: the backward programs compute this layer's values again from what enters it, instead of keeping
 * them from the forward (Chen et al., "Training deep nets with sublinear memory cost", 2016). The same kernels on the same
 * inputs: the same bits. */
ppl_status ppl_graph_recompute(ppl_graph *g, int32_t layer, int32_t on);
/* A listing of the graph, one node a line, forward and, once differentiated, backward: for people and for tests.
 * Writes at most size bytes and always a zero; needed: the bytes the whole text takes. */
ppl_status ppl_graph_print(const ppl_graph *g, char *text, size_t size, size_t *needed);

/* ---- tensors: the same operators at once, for prompt, data and tests --------------------------------------------- */

typedef struct ppl_tensor ppl_tensor;
/* device: "cpu", "cuda" or "reference". data NULL: zeros; else it holds the elements in the layout of host_dtype (F32, F64 or I32), copied. */
ppl_status ppl_tensor_open(const char *device, const ppl_type *type, const void *data, int32_t host_dtype,
                           ppl_tensor **out);
void ppl_tensor_close(ppl_tensor *t);
void ppl_tensor_type(const ppl_tensor *t, ppl_type *out);
/* Copies all elements to data in host_dtype (F32, F64 or I32). */
ppl_status ppl_tensor_read(const ppl_tensor *t, void *data, int32_t host_dtype);
/* Inputs are on one device; out receives new tensors. training 0: dropout is the identity. */
ppl_status ppl_tensor_apply(int32_t op, ppl_tensor *const *in, int32_t inputs, const ppl_attrs *attrs, int32_t training,
                            ppl_tensor **out);
/* Fills with the engine's counter-based generator, as ppl_graph_param's spec would for this seed and name. */
ppl_status ppl_tensor_fill(ppl_tensor *t, const ppl_param_spec *spec, uint64_t seed, const char *name);

/* ---- schedule: each rank's ordered actions ------------------------------------------------------------------------ */

typedef struct ppl_schedule ppl_schedule;
typedef enum ppl_kind { PPL_F = 0, PPL_B, PPL_I, PPL_W, PPL_U, PPL_KINDS } ppl_kind; /* printed as F B I W U */

typedef struct ppl_action {
    int32_t stage;
    int32_t microbatch;
    int32_t kind;    /* ppl_kind */
    int32_t overlap; /* 0, or equal numbers in neighbours that may run at once: "(2F5;3B1)" */
} ppl_action;

typedef enum ppl_weights { PPL_WEIGHTS_SYNC = 0, PPL_WEIGHTS_STASH, PPL_WEIGHTS_2BW } ppl_weights;

/* stage_rank[stage]: the placement. name is copied. */
ppl_status ppl_schedule_open(const char *name, int32_t ranks, int32_t stages, const int32_t *stage_rank,
                             int32_t microbatches, ppl_schedule **out);
void ppl_schedule_close(ppl_schedule *s);
/* Appends an action to a rank's list. Checks the domain only; order and completeness are ppl_schedule_check's. */
ppl_status ppl_schedule_add(ppl_schedule *s, int32_t rank, int32_t kind, int32_t stage, int32_t microbatch,
                            int32_t overlap);
void ppl_schedule_set_weights(ppl_schedule *s, int32_t weights); /* ppl_weights */
void ppl_schedule_set_max_live(ppl_schedule *s,
                               int32_t max_live); /* live activations a rank, in stage-microbatches; 0: no bound */
const char *ppl_schedule_name(const ppl_schedule *s);
int32_t ppl_schedule_ranks(const ppl_schedule *s);
int32_t ppl_schedule_stages(const ppl_schedule *s);
int32_t ppl_schedule_microbatches(const ppl_schedule *s);
int32_t ppl_schedule_stage_rank(const ppl_schedule *s, int32_t stage);
int64_t ppl_schedule_length(const ppl_schedule *s, int32_t rank);
ppl_status ppl_schedule_action(const ppl_schedule *s, int32_t rank, int64_t at, ppl_action *out);
/* Completeness and each rank's own order: every F and its B (or I and W) once, on the owner, backward after forward,
 * W in microbatch order within a stage. The error names rank, position and action; ppl_schedule_mark gives the place. */
ppl_status ppl_schedule_check(const ppl_schedule *s);
/* After a failed check or plan on this thread: the rank and position it named, -1 where it named none. */
void ppl_schedule_mark(int32_t *rank, int64_t *at);
/* The CSV form of PyTorch's pipelining. Written compute-only (ppl_plan_write: with sends and receives); weights that are not
 * synchronous are refused, for the form cannot say them. Read: the placement is what the rows say. */
ppl_status ppl_schedule_write(const ppl_schedule *s, const char *path);
ppl_status ppl_schedule_read(const char *path, ppl_schedule **out);
/* "2F5"; at least 24 bytes */
void ppl_action_print(const ppl_action *a, char *text);

/* ---- plan: the compiled form, task lists with memory ---------------------------------------------------------------- */

typedef struct ppl_plan ppl_plan;

typedef enum ppl_task_kind {
    PPL_TASK_CREDIT = 0, /* wait until the edge's buffer may be written again */
    PPL_TASK_RECEIVE,    /* wait until the edge's buffer holds the microbatch's value */
    PPL_TASK_F,
    PPL_TASK_B,
    PPL_TASK_I,
    PPL_TASK_W,       /* run the stage's program */
    PPL_TASK_SEND,    /* publish the edge's buffer */
    PPL_TASK_RELEASE, /* give the credit back: this rank has read the buffer for the last time */
    PPL_TASK_NORM, /* square sums of the rank's gradients to all ranks; waits for theirs when the norm clips before the update */
    PPL_TASK_UPDATE,   /* the optimizer steps one stage's parameters and packs its weights (U) */
    PPL_TASK_VALIDATE, /* clip after: waits for the norm of the step before, rolls back if it asks for it */
    PPL_TASK_KINDS
} ppl_task_kind;

/* One line of a rank's list; 32 bytes. Fields that a kind does not use are -1.
 * Asynchronous schedules (weights stash and 2bw) flow from step to step without draining: the first ppl_plan_ahead tasks of
 * a step run while the step before still has backwards to do (ppl_plan_turn). With them slots, pendings and buffers are
 * those of step 0; step t goes round by its microbatches: (slot + t * microbatches) % slots. */
typedef struct ppl_task {
    int8_t kind;   /* ppl_task_kind */
    int8_t stream; /* 0; 1: of an action that runs beside the one before it, on the device's second stream (overlap) */
    int16_t
        slot; /* activation slot of (stage, microbatch): F, B, I, W; which of the edge's readers this is: RECEIVE, RELEASE */
    int16_t pending; /* slot of what I keeps for W: B, I, W */
    int16_t buffer;  /* the producer's buffer: CREDIT, RECEIVE, SEND, RELEASE */
    int32_t stage;   /* CREDIT, SEND: the producer; RECEIVE, RELEASE: the reader */
    int32_t microbatch;
    int32_t edge;
    int32_t
        sequence;   /* position of the microbatch in the edge's order, from 0: what buffer tickets are computed from */
    int32_t action; /* position in the schedule's list of this rank that it serves; -1 none */
    /* Of the stage's weights: F, B, I, W: the one they read; UPDATE: the one it steps to make the next. 0: what all updates
     * of earlier steps have made; k: k updates later, -k: before that. In the first of several steps handed over at once,
     * -k of weights stash is 0. Synchronous: 0. */
    int32_t version;
} ppl_task;

/* Compiles a schedule without a model: stages in a chain, one unit of bytes an activation and a gradient. */
ppl_status ppl_plan_abstract(const ppl_schedule *s, ppl_plan **out);
void ppl_plan_close(ppl_plan *p);
int32_t ppl_plan_ranks(const ppl_plan *p);
int64_t ppl_plan_length(const ppl_plan *p, int32_t rank);
const ppl_task *ppl_plan_tasks(const ppl_plan *p, int32_t rank); /* borrowed: the very array the executor runs */
int32_t ppl_plan_peak_live(const ppl_plan *p, int32_t rank);     /* activations at once, in stage-microbatches */
int32_t ppl_plan_edges(const ppl_plan *p);
/* The plan's compute order with sends and receives in the CSV form of PyTorch's pipelining. Refuses what the form cannot say:
 * values that skip a stage, parameters tied over stages, weights that are not synchronous. */
ppl_status ppl_plan_write(const ppl_plan *p, const char *path);
/* Copies of its weights that a stage keeps: 1 with weights sync, 2 with 2bw; with stash as many as lie between the one that
 * a microbatch's forward reads and the newest at its backward, both included: p - r in PipeDream's order. */
int32_t ppl_plan_versions(const ppl_plan *p, int32_t stage);
int64_t ppl_plan_ahead(const ppl_plan *p, int32_t rank); /* tasks of a step that run within the step before */
/* Position in the list of what a rank runs k-th while one step follows another: below ppl_plan_ahead it is the next step's.
 * k itself with synchronous schedules; -1 outside the list. */
int64_t ppl_plan_turn(const ppl_plan *p, int32_t rank, int64_t k);
/* "3 receive 2F5 edge 4 buffer 1": one task for people. At least 128 bytes. */
void ppl_task_print(const ppl_plan *p, int32_t rank, int64_t at, char *text);

typedef enum ppl_memory {
    PPL_MEM_PARAMETERS = 0, /* weights as the operators read them, and f32 masters where they differ */
    PPL_MEM_GRADIENTS,
    PPL_MEM_OPTIMIZER,
    PPL_MEM_PACKED,      /* weights in the device's own layout */
    PPL_MEM_ACTIVATIONS, /* slots */
    PPL_MEM_PENDING,     /* what I keeps for W */
    PPL_MEM_EDGES,       /* producers' buffers */
    PPL_MEM_LINKS,       /* readers' own buffers, where links copy */
    PPL_MEM_WORKSPACE,
    PPL_MEM_OTHER, /* task lists, traces, step inputs */
    PPL_MEMORIES
} ppl_memory;

/* Bytes of a rank by the layout: parameters (all versions), gradients, activations, pending, edges, workspace; 0 for kinds
 * that a plan does not know. In abstract plans, units, and no parameters. */
int64_t ppl_plan_memory(const ppl_plan *p, int32_t rank, int32_t kind);

/* ---- simulation: a plan and costs give a trace ------------------------------------------------------------------- */

/* A message of b bytes takes its directed link for b / bandwidth seconds, after the messages that were sent before it on
 * that link, and is there a latency later. */
typedef struct ppl_link_cost {
    double latency;   /* seconds */
    double bandwidth; /* bytes a second; 0: no limit */
    int32_t from, to; /* ranks */
} ppl_link_cost;

typedef struct ppl_costs {
    const double *f, *i, *w; /* seconds of each stage's F, I and W; a B takes i + w */
    double update;           /* seconds of an optimizer step of one stage */
    double latency;          /* seconds from the end of a producer to the start of its reader on another rank */
    double bandwidth;        /* bytes a second of each directed link between two ranks; 0: no limit */
    double between_latency, between_bandwidth; /* of links between ranks on different nodes */
    int32_t node_ranks;                        /* ranks of a node: 0 .. n-1 are on the first; 0: all on one */
    int32_t n_links;
    const ppl_link_cost *links; /* [n_links]: pairs of ranks that go by their own; those a plan lacks do not matter */
    double unit_bytes;          /* bytes of a unit of an abstract plan, whose edges are one unit each; 0: not known */
    double jitter;              /* each F, I, W and message takes up to this part more or less; 0 to below 1 */
    uint64_t jitter_seed; /* gives the same times for the same step, stage and microbatch, simulated and emulated */
    int32_t barrier, pad; /* 1: every rank waits for the norms of all before its update (clip before) */
} ppl_costs;

typedef struct ppl_sim_result {
    double iteration;       /* seconds of one step: the last of the simulated steps, end to end */
    double makespan;        /* seconds from the first task to the end of the last */
    double busy;            /* seconds of compute over all ranks, in one step */
    double bubble_ratio;    /* idle / iteration, over all ranks */
    double bubble_overhead; /* idle / ideal time */
    double span_idle;       /* the largest idle time of a rank between its first and its last task, seconds */
} ppl_sim_result;

/* steps >= 1, chained without a barrier. The simulated trace replaces the plan's former one. */
ppl_status ppl_plan_simulate(ppl_plan *p, const ppl_costs *costs, int32_t steps, ppl_sim_result *out);

typedef struct ppl_link_load { /* of the last simulation's last step, on one directed link */
    int32_t from, to;          /* ranks */
    int64_t messages;
    int64_t bytes;  /* 0 in abstract plans whose units are of no known size */
    double busy;    /* seconds in which it transfers */
    double queued;  /* seconds that messages waited for those before them, all together */
    double longest; /* seconds from a send to the value's being there, the slowest message */
} ppl_link_load;
/* The links that the plan uses, by from and to. max entries at most; count: how many there are. */
ppl_status ppl_plan_links(const ppl_plan *p, ppl_link_load *out, int32_t max, int32_t *count);
/* Chrome trace of the last simulation. */
ppl_status ppl_plan_write_trace(const ppl_plan *p, const char *path);

/* How a value gets from one rank to another of this machine. */
typedef enum ppl_way {
    PPL_WAY_POINTER = 0, /* handed over in one memory: by a bell between threads, by an event on one GPU */
    PPL_WAY_COPY,        /* GPUs: by a copy, direct where they reach each other's memory */
    PPL_WAY_NCCL,        /* GPUs: by a communicator of two ranks */
    PPL_WAYS
} ppl_way;
/* Measures it. device "cuda": from and to are GPUs, with messages of `bytes`; what arrives is held against what was sent.
 * Other devices: between two threads. bandwidth: 0 where nothing is copied. Ends after `seconds` with PPL_ERR_STALL where
 * a message does not arrive. */
ppl_status ppl_link_measure(const char *device, int32_t from, int32_t to, int32_t way, int64_t bytes, double seconds,
                            ppl_link_cost *out);

/* ---- trace --------------------------------------------------------------------------------------------------------- */

/* One task as it ran (or was simulated). */
typedef struct ppl_event {
    double begin, end; /* seconds since the trace's origin */
    int32_t step;
    int32_t rank;
    int32_t stage, microbatch, edge;
    int32_t peer; /* rank waited for or sent to; -1 none */
    int8_t kind;  /* ppl_task_kind */
    int8_t pad[7];
} ppl_event;

/* Copies the events of one step, rank by rank in order of time; count: how many there are, whatever max is. */
ppl_status ppl_plan_events(const ppl_plan *p, int32_t step, ppl_event *events, int64_t max, int64_t *count);

/* ---- data -------------------------------------------------------------------------------------------------------------- */

typedef struct ppl_data ppl_data;
/* Bytes of files as tokens 0..255; samples are windows of context + 1 bytes: "tokens" (context) and "targets" (context),
 * both i32. A seeded shuffle of all windows, anew each epoch; sample n of a step depends on (seed, step, n) alone.
 * part: 0 training, 1 held out; held_out: the fraction kept from the end of each file. Files are memory-mapped. */
ppl_status ppl_data_text(const char *const *files, int32_t count, int32_t context, double held_out, int32_t part,
                         uint64_t seed, ppl_data **out);
/* A queue that Lua fills: inputs by name; ppl_data_push hands over one step's samples, at most steps_ahead of them before
 * they are used: nothing waits, a push too many and a step too early are PPL_ERR_DATA. */
ppl_status ppl_data_queue(int32_t inputs, const char *const *names, const ppl_type *sample_types, int32_t steps_ahead,
                          ppl_data **out);
/* One step's samples of all inputs, in their order, each (samples, ...) as F32 or I32 by its type; copies. */
ppl_status ppl_data_push(ppl_data *d, int32_t samples, const void *const *arrays);
void ppl_data_end(ppl_data *d); /* no more will be pushed: a step that asks for more fails with PPL_ERR_DATA */
int64_t ppl_data_samples(const ppl_data *d); /* in one epoch; -1 for a queue */
/* For tests and for the prompt: the samples of a step, without a run. dst as in ppl_data_push. */
ppl_status ppl_data_read(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                         void *dst);
void ppl_data_close(ppl_data *d);

/* ---- run: a trainer's engine side ----------------------------------------------------------------------------------- */

typedef struct ppl_run ppl_run;

typedef enum ppl_decay { PPL_LR_CONSTANT = 0, PPL_LR_COSINE, PPL_LR_LINEAR } ppl_decay;
typedef enum ppl_clip { PPL_CLIP_NONE = 0, PPL_CLIP_BEFORE, PPL_CLIP_AFTER, PPL_CLIP_STAGE } ppl_clip;

typedef struct ppl_optimizer_options {
    int32_t kind;          /* ppl_optimizer */
    int32_t decay;         /* ppl_decay: the shape of the learning rate after warm-up */
    double lr, min_lr;     /* peak, and what the decay ends at */
    int64_t warmup, steps; /* linear warm-up over `warmup` steps; the decay ends at `steps` */
    double beta1, beta2, eps, weight_decay, momentum;
    int32_t clip; /* ppl_clip */
    int32_t pad;
    double clip_norm; /* largest global gradient norm */
} ppl_optimizer_options;

typedef struct ppl_run_options {
    const char *device;         /* "cpu", "reference", "emulated" */
    const int32_t *first_layer; /* [stages]: the cut; copied */
    int32_t stages;
    int32_t samples;      /* of a step: the batch */
    int32_t threads;      /* a rank */
    int32_t copy_links;   /* 1: links copy between two buffers of their own as NCCL and MPI do; 0: hand over pointers */
    uint64_t seed;        /* of weights and dropout */
    uint64_t delay_seed;  /* not 0: random delays before sends and tasks, for tests */
    double delay;         /* seconds at most */
    double stall_seconds; /* no progress for so long is PPL_ERR_STALL; 0: 120 */
    int32_t trace_steps;  /* how many of the newest steps keep their events */
    int32_t keep_steps;   /* how many step records are kept */
    ppl_optimizer_options optimizer;
    const ppl_costs *costs; /* emulated only: what a stage's F, I, W take; copied */
    int64_t fail_task;      /* emulated only: rank fail_rank's task at this position fails; -1 none */
    int64_t stall_task;     /* emulated only: ... stalls; -1 none */
    int32_t fail_rank;
    int32_t least_buffers; /* 1: edges get as few buffers as the order needs: producers wait for readers, for tests */
} ppl_run_options;

/* Cuts the graph, compiles the schedule, lays out memory, starts one thread a rank. Borrows graph, schedule and data. */
ppl_status ppl_run_open(const ppl_run_options *options, ppl_graph *graph, const ppl_schedule *schedule, ppl_data *data,
                        ppl_run **out);
void ppl_run_close(ppl_run *r);
/* Hands the ranks n steps at once, chained without a barrier, and waits for them. done: steps completed, also on failure.
 * An asynchronous schedule drains at the end of a call, not between its steps: with weights stash the first forwards of a
 * call read the newest weights, those of its later steps what is newest while the step before still runs. With 2bw the
 * length of a call changes no bits.
 * Data that ends: the steps that it has are done, then PPL_ERR_DATA. After any other failure the run may be read, loaded
 * (which revives it) and closed. */
ppl_status ppl_run_steps(ppl_run *r, int64_t n, int64_t *done);
/* May be called from a signal handler: the run stops after the current step with PPL_ERR_STOPPED; between steps, the next
 * call for steps or evaluation does. */
void ppl_run_interrupt(ppl_run *r);
/* Between steps: whether tasks of the following ones are timed (on at first). Steps that are not leave no events, and
 * records without times: for measuring what that costs. */
void ppl_run_time(ppl_run *r, int32_t on);
/* Mean loss over the targets of `steps` batches of `data` from its first on, dropout off, nothing updated. */
ppl_status ppl_run_evaluate(ppl_run *r, ppl_data *data, int64_t steps, double *loss);
/* Between steps; weights and optimizer state stay. Same stages; placement and ranks may differ. */
ppl_status ppl_run_use_schedule(ppl_run *r, const ppl_schedule *schedule);
/* Until ppl_run_trial_end the run works with this schedule on a copy of weights and optimizer state: steps may be done, stats
 * and events read. The end puts everything back as it was: the numbers bit for bit, the traces, the records of steps, where
 * the data is. A queue's steps are to be pushed again from the next step on, after the beginning and after the end. */
ppl_status ppl_run_trial_begin(ppl_run *r, const ppl_schedule *schedule);
ppl_status ppl_run_trial_end(ppl_run *r);
int64_t ppl_run_step(const ppl_run *r);         /* the next step: those done, before a loaded checkpoint too */
const ppl_plan *ppl_run_plan(const ppl_run *r); /* borrowed until the schedule changes */
/* Between steps: ppl_plan_simulate of the plan that the run goes by. */
ppl_status ppl_run_simulate(ppl_run *r, const ppl_costs *costs, int32_t steps, ppl_sim_result *out);

typedef struct ppl_step_record {
    int64_t step;
    double loss, lr, grad_norm; /* norm before clipping; weights stash: root mean square over the step's updates */
    double weight;              /* of the loss: targets that count */
    double begin, end;          /* seconds since the run opened: from the end of the step before, or its own first work
                                   where that was later, to the end of its last task: an iteration */
    int64_t tokens;             /* elements of the first input that is i32 (else of the first), padding left out */
    double bubble_ratio;        /* measured: idle / iteration time, over all ranks */
    int64_t link_bytes;         /* that crossed from rank to rank */
    int32_t clipped;            /* 1: the update was scaled */
    int32_t peak_live;          /* the largest number of live activations on a rank, measured */
} ppl_step_record;
/* The record of a step that is among the kept ones. */
ppl_status ppl_run_record(const ppl_run *r, int64_t step, ppl_step_record *out);

typedef struct ppl_stage_stats {
    int32_t stage, rank, first_layer, layers;
    int64_t parameters;                                       /* numbers; a tied one counts in its first stage */
    double f_median, f_p95, i_median, i_p95, w_median, w_p95; /* seconds; a B counts into i and w by its two parts */
    double u_median;                                          /* optimizer step */
    double flops_f, flops_b;                                  /* of one microbatch, by the operators' cost rules */
    int64_t activation_bytes;                                 /* one slot */
    int64_t samples;                                          /* microbatches that the medians are over */
} ppl_stage_stats;
ppl_status ppl_run_stage_stats(const ppl_run *r, int32_t stage, ppl_stage_stats *out);

typedef struct ppl_rank_stats {
    int32_t rank, peak_live;         /* measured, over the traced steps */
    int32_t planned_live, waits_for; /* the rank it waited for longest; -1 none */
    double busy, wait, span_idle;    /* seconds a step, over the traced steps */
    double iteration;                /* seconds a step */
    int64_t memory[10];              /* ppl_memory, bytes */
} ppl_rank_stats;
ppl_status ppl_run_rank_stats(const ppl_run *r, int32_t rank, ppl_rank_stats *out);

/* The activity of a rank's GPU over the newest steps that were handed over at once, or at once after each other, and took
 * 0.1 s or more. Ranks of one GPU have the same figures; devices that are no GPU have none, and no reason. */
ppl_status ppl_run_gpu_activity(const ppl_run *r, int32_t rank, ppl_gpu_activity *out);

typedef struct ppl_edge_stats {
    int32_t edge, src_stage, dst_stage, src_rank, dst_rank;
    int32_t kind; /* PPL_F activation, PPL_B gradient, PPL_U tied parameter's gradient */
    int32_t buffers, pad;
    int64_t bytes; /* one microbatch */
    double median; /* seconds from send to the reader's seeing it */
} ppl_edge_stats;
/* max entries at most; count: how many (edge, reader) pairs there are. */
ppl_status ppl_run_edge_stats(const ppl_run *r, ppl_edge_stats *out, int32_t max, int32_t *count);
/* Events of one of the newest trace_steps steps. */
ppl_status ppl_run_events(const ppl_run *r, int64_t step, ppl_event *events, int64_t max, int64_t *count);

typedef struct ppl_param_info {
    char name[96]; /* PPL_NAME_BYTES */
    ppl_type type;
    int32_t first_stage, last_stage; /* that use it */
    int32_t frozen, pad;
} ppl_param_info;
int32_t ppl_run_parameters(const ppl_run *r);
ppl_status ppl_run_parameter(const ppl_run *r, int32_t index, ppl_param_info *out);
typedef enum ppl_part { PPL_PART_WEIGHT = 0, PPL_PART_GRADIENT, PPL_PART_MOMENT1, PPL_PART_MOMENT2 } ppl_part;
/* All numbers of a parameter as f64 (weights: the masters), between steps. */
ppl_status ppl_run_read(const ppl_run *r, int32_t index, int32_t part, double *data);
ppl_status ppl_run_write(ppl_run *r, int32_t index, int32_t part, const double *data);
/* The square root of the sum of a part's squares. */
ppl_status ppl_run_norm(const ppl_run *r, int32_t index, int32_t part, double *out);
/* safetensors. save writes masters (F32) under the parameters' names, and with `state` the optimizer's moments and the
 * step; to a temporary file that is renamed at the end. load wants every parameter present with its shape, or changes nothing;
 * where the file has no state, moments are zero and the next step is 0. */
ppl_status ppl_run_save(const ppl_run *r, const char *path, int32_t state);
ppl_status ppl_run_load(ppl_run *r, const char *path);
/* Chrome trace of the traced steps. */
ppl_status ppl_run_write_trace(const ppl_run *r, const char *path);

/* ---- files ------------------------------------------------------------------------------------------------------------- */

/* A YAML document as a flat list of nodes in document order, with lines for error messages. */
typedef struct ppl_yaml ppl_yaml;
typedef struct ppl_yaml_node {
    int32_t parent;   /* index; -1 the root */
    int32_t kind;     /* 0 scalar, 1 mapping, 2 sequence */
    int32_t line;     /* from 1 */
    int32_t quoted;   /* 1: a quoted scalar, always text */
    const char *key;  /* in a mapping; NULL elsewhere; borrowed */
    const char *text; /* of a scalar; borrowed */
} ppl_yaml_node;
ppl_status ppl_yaml_open(const char *path, ppl_yaml **out);
/* name: what errors call the text */
ppl_status ppl_yaml_parse(const char *name, const char *text, size_t bytes, ppl_yaml **out);
int32_t ppl_yaml_nodes(const ppl_yaml *y);
ppl_status ppl_yaml_get(const ppl_yaml *y, int32_t index, ppl_yaml_node *out);
void ppl_yaml_close(ppl_yaml *y);
/* Members of the object that a JSON text holds, as numbers: out[i] is NaN where keys[i] is missing or null. Text that is no
 * JSON, no object, or has another kind of value there is PPL_ERR_IO. name: what errors call the text. */
ppl_status ppl_json_numbers(const char *name, const char *text, size_t bytes, const char *const *keys, int32_t count,
                            double *out);
/* That a JSON text is an object with these lists and objects in it. */
ppl_status ppl_json_check(const char *name, const char *text, size_t bytes, const char *const *lists, int32_t n_lists,
                          const char *const *objects, int32_t n_objects);
/* Creates a directory and its parents; an existing one is fine. */
ppl_status ppl_make_directory(const char *path);
/* Writes a whole file through a temporary name, so that none is ever half-written. */
ppl_status ppl_write_file(const char *path, const void *data, size_t bytes);

#endif
