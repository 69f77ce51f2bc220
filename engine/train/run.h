// run.h - inside a run: what it holds, and the calls between its files in reading order. Before: ppl.h's options, a graph,
// a schedule, data. After: exec.h does the steps and calls back into run_client.c.
#ifndef PPL_TRAIN_RUN_H
#define PPL_TRAIN_RUN_H
#include "exec/exec.h"
#include "train/data.h"
#include "train/store.h"
#include <pthread.h>

// Steps that may be in the ranks' hands at once, with room to spare: what is gathered for a step has this many places.
enum { PPL_RUN_FLIGHT = 2 * PPL_TRACE_AHEAD };

// What a schedule is compiled into; exchanged as a whole when the schedule changes.
typedef struct ppl_run_engine {
    ppl_plan *plan, *eval_plan; // eval_plan: forward only
    ppl_store *store;
    const ppl_link_ops *link;
    ppl_exec *exec;
    int32_t *peak_live; // [ranks]: measured
} ppl_run_engine;

// Where microbatches come from just now: the training data, or during an evaluation another.
typedef struct ppl_run_source {
    ppl_data *data;
    int32_t *input; // [graph values]: the data's input that fills it; -1
} ppl_run_source;

typedef struct ppl_run_aside ppl_run_aside; // run_trial.c: what a trial puts back

typedef struct ppl_run_row { // a step: in flight, or one of the kept
    ppl_step_record record;  // step -1: none
    int32_t ranks_done;
    int64_t end; // ppl_now nanoseconds
} ppl_run_row;

struct ppl_run {
    ppl_run_options options; // first_layer and costs are the arena's copies
    ppl_arena arena;
    const ppl_device_ops *device;
    ppl_world *world; // of the thread that opened the run; NULL: one process
    ppl_graph *graph; // borrowed
    ppl_stages *stages;
    ppl_run_engine engine;
    ppl_run_source train, eval, *source; // source: one of the two
    int32_t microbatches, samples_per_microbatch;
    int64_t token_elements; // of one sample, in the input that tokens are counted in
    int64_t step;           // the next one
    int64_t steps_here;     // done since the engine was built: gradients and traces are there
    ppl_run_aside *aside;   // NULL: no trial is on
    int64_t origin;         // ppl_now at the start
    atomic_bool interrupted;
    ppl_status failed; // not PPL_OK: only close, load and reading are left
    char fault[1024];

    pthread_mutex_t lock; // of what ranks gather:
    ppl_run_row *row;     // [rows], step s in s % rows
    int32_t rows;         // keep_steps + PPL_RUN_FLIGHT
    double *loss;         // [PPL_RUN_FLIGHT][microbatches]
    int64_t bad_step;     // the first that ended with a loss that is not finite; -1
    double bad_loss;
};

// ---- run_check.c: options, one by one, by name ----
ppl_status ppl_run_check_options(const ppl_run_options *o, const ppl_graph *g);
// That a schedule fits the options.
ppl_status ppl_run_check_schedule(const ppl_run_options *o, const ppl_schedule *s);
// That the data has what the graph reads, and which input is which: input[value], all of the graph's values.
ppl_status ppl_run_match(const ppl_run *r, const ppl_data *data, int32_t *input);

// ---- run_key.c: what must be equal in all processes ----
ppl_status ppl_run_key(const ppl_run *r, const ppl_run_engine *e, uint64_t *out);

// ---- run_client.c: what the executor asks and tells, from rank threads ----
ppl_exec_client ppl_run_client(ppl_run *r);
// The sum of a step's losses in microbatch order.
double ppl_run_loss_sum(const ppl_run *r, int64_t step);

// ---- run.c ----
ppl_status ppl_run_usable(const ppl_run *r); // PPL_OK unless the run has failed
// Remembers the failure that this thread's error text tells of, and returns it.
ppl_status ppl_run_fail(ppl_run *r, ppl_status status);
// Process 0 has worked out `data` (with `status`), or failed to: the same then holds everywhere. what: names the call.
ppl_status ppl_run_tell(const ppl_run *r, const char *what, ppl_status status, void *data, size_t bytes);
static inline bool ppl_run_leads(const ppl_run *r) { // alone, or process 0
    return ppl_world_process_of(r->world) == 0;
}
// Before the store is read: devices with memory of their own give back what they have.
ppl_status ppl_run_fetch(const ppl_run *r);
// Starts rank threads anew over the same plan and store.
ppl_status ppl_run_restart(ppl_run *r);
// Compiles a schedule and starts its ranks. from: where the numbers come from; NULL: the seed.
ppl_status ppl_run_engine_build(ppl_run *r, const ppl_schedule *s, const ppl_store *from, ppl_run_engine *out);
void ppl_run_engine_close(ppl_run_engine *e);
// That a schedule fits the run as it is.
ppl_status ppl_run_fits(const ppl_run *r, const ppl_schedule *schedule);

#endif
