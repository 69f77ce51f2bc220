// store.h - parameters and optimizer state: what outlives schedules, and what checkpoints hold. One copy of master
// weights and moments for each rank that uses a parameter; copies get identical updates and stay bit-equal.
#ifndef PPL_TRAIN_STORE_H
#define PPL_TRAIN_STORE_H
#include "device/device.h"
#include "graph/graph.h"
#include "world/world.h"

typedef struct ppl_store_entry { // of one (rank, parameter)
    void *master;                // acc dtype, n numbers; what operators read where the graph's dtype is the acc dtype
    void *copy;                  // graph dtype; NULL where the master serves
    void *moment1, *moment2;     // NULL where the optimizer has none
    // [versions]: where versions > 1, the weights as operators read them; the newest is `copy`, else `master`.
    void **version;
    int32_t versions; // 1 unless ppl_store_keep said otherwise
    void *spare[3];   // clip after: the other half of (master, moment1, moment2), exchanged at each update; else NULL
} ppl_store_entry;

typedef struct ppl_store {
    const ppl_graph *graph; // borrowed
    int32_t ranks;
    uint64_t seed;
    ppl_optimizer_options optimizer;
    int64_t updates;        // of each parameter so far: what an optimizer's bias correction goes by
    ppl_store_entry *entry; // [ranks][params]
    ppl_arena arena;        // all memory: spares may be exchanged with what they are spares of
    ppl_world *world;       // NULL: this process holds all
    bool *holds;            // [processes][params]: which process holds a copy; NULL alone
} ppl_store;

// Makes entries for the (rank, parameter) pairs that uses[rank * params + param] marks, in host memory, with initial
// weights from (seed, name, element): Philox key mix(seed, name), counter = element / 4; NORMAL by Box-Muller in f64.
// Every parameter must be marked for some rank. Frozen parameters have neither moments nor spares.
ppl_status ppl_store_build(const ppl_graph *g, int32_t ranks, const bool *uses, uint64_t seed,
                           const ppl_optimizer_options *o, ppl_store **out);
// The same for one of several processes: entries are made for its own ranks alone. Reading a part that lies elsewhere is
// PPL_ERR_ARG, writing it does nothing.
typedef struct ppl_store_spread {
    ppl_world *world;
    const int32_t *rank_process; // [ranks]
} ppl_store_spread;
ppl_status ppl_store_build_here(const ppl_graph *g, int32_t ranks, const bool *uses, const ppl_store_spread *spread,
                                uint64_t seed, const ppl_optimizer_options *o, ppl_store **out);
int32_t ppl_store_owner(const ppl_store *s, int32_t param);          // the first process that holds it
bool ppl_store_has(const ppl_store *s, int32_t param, int32_t part); // does the optimizer keep this part of it?
// Process 0 gets a part from its owner, where that is another: into scratch, *out is the part. All processes call it.
ppl_status ppl_store_fetch(const ppl_store *s, int32_t param, int32_t part, void *scratch, const void **out);
// Room for several versions of a parameter's weights; once, before they are used. The executor fills them.
ppl_status ppl_store_keep(ppl_store *s, int32_t param, int32_t versions);
void ppl_store_free(ppl_store *s);
static inline ppl_store_entry *ppl_store_at(const ppl_store *s, int32_t rank, int32_t param) {
    return &s->entry[(size_t)rank * s->graph->n_params + (size_t)param];
}
ppl_store_entry *ppl_store_first(const ppl_store *s, int32_t param); // of the first rank that has it; NULL none here
void *ppl_store_part(const ppl_store_entry *e, int32_t part);        // ppl_part; NULL where there is none
// Reads or writes a part (ppl_part, weights and moments) as f64; writes go to every copy, rounded to the graph's dtype
// where the weights have a copy in it. A part that the optimizer does not have is PPL_ERR_ARG.
ppl_status ppl_store_read(const ppl_store *s, int32_t param, int32_t part, double *out);
ppl_status ppl_store_write(ppl_store *s, int32_t param, int32_t part, const double *in);
ppl_status ppl_store_set(ppl_store *s, int32_t param, int32_t part, const void *in, int32_t dtype); // from any dtype
void ppl_store_zero_moments(ppl_store *s);
// Takes weights and moments of another store of the same graph, whatever its ranks: the bits stay. All processes call it.
ppl_status ppl_store_take(ppl_store *s, const ppl_store *from);
int64_t ppl_store_bytes(const ppl_store *s, int32_t rank, int32_t kind); // PPL_MEM_PARAMETERS or PPL_MEM_OPTIMIZER
// Fills n numbers of acc dtype as the spec says: shared with ppl_tensor_fill.
void ppl_init_fill(void *data, int32_t dtype, int64_t n, const ppl_param_spec *spec, uint64_t seed, const char *name);

// Process 0 alone reads and writes files; all processes call these.
// safetensors. save: step, updates (where they are not as many) and moments are written only with `state`. load: *step is -1
// where the file has no state; the moments are then zero. It changes nothing unless the whole file is right. The caller
// repacks what devices keep.
ppl_status ppl_checkpoint_save(const ppl_store *s, const char *path, bool state, int64_t step);
ppl_status ppl_checkpoint_load(ppl_store *s, const char *path, int64_t *step);

#endif
