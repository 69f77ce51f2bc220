// nccl.h - inside the NCCL link: what crosses from one GPU to another, and the calls between its files. Before: link.h. After:
// nccl_join.c makes communicators, nccl.c uses them in a step.
//
// A crossing is an edge with one reader on another unit. It has a communicator of two, of its own, and on either side a
// stream of its own: one communicator is one queue on the GPU whatever streams are given to it, so that values of different
// edges, or of the two directions, would wait for each other in an order that no schedule has asked for.
#ifndef PPL_LINK_NCCL_H
#define PPL_LINK_NCCL_H
#include "base/memory.h"
#include "link/order.h"
#include <cuda_runtime_api.h>
#include <nccl.h>

enum {
    PPL_NCCL_CTAS = 8,        // blocks of a transfer's kernel, which hold processors while it waits: at most
    PPL_NCCL_CTAS_ALL = 64,   // of all that a unit may have underway
    PPL_NCCL_POLL_NS = 200000 // between two looks while communicators are made
};

enum {
    PPL_NCCL_GOES_ON,
    PPL_NCCL_DRAINS,
    PPL_NCCL_REWOUND
}; // an event stands behind all that is on its way; it is done

typedef struct ppl_nccl_end { // of a crossing, on the rank that this process has; device NULL: it is elsewhere
    ppl_device *device;
    ncclComm_t comm;
    int32_t stream;
    bool has_stream;
    void *before;     // event: what the stream waits for
    void **done;      // [buffers of this side]: the transfer from or into it has ended
    int64_t enqueued; // values, in the reader's order
    int32_t rewind;   // how far this side is with one: GOES_ON and so on
} ppl_nccl_end;

typedef struct ppl_nccl_crossing {
    int32_t edge, reader, from, to; // ranks
    ppl_link_order order;
    ppl_nccl_end send, receive; // the communicator's rank 0 and 1
    // The sender's: a SEND whose turn has not come waits for the SENDs before it in the reader's order.
    void **ready;     // [buffers]: events: the value in it is complete
    int64_t *readied; // [uses], by position: 1 + the step whose value is ready; 0 none
    int32_t *held;    // [buffers]: SENDs from it that are not enqueued
} ppl_nccl_crossing;

typedef struct ppl_nccl_unit { // a GPU of the plan
    int32_t process, ordinal;  // ordinal: among the GPUs that the process sees
    int32_t rank;              // the lowest on it
    char name[160];            // host and bus
    ncclComm_t all;            // of all units; NULL elsewhere
} ppl_nccl_unit;

typedef struct ppl_nccl {
    ppl_arena arena;
    ppl_link_options options;
    const ppl_plan *plan;
    ppl_link *local; // for readers on their producer's unit
    void *const *memory;
    void *const *const *reader_memory;
    ppl_nccl_unit *unit; // [n_units]
    int32_t n_units, ctas;
    int32_t *unit_of; // [ranks]
    ppl_nccl_crossing *crossing;
    int32_t n_crossings;
    bool failed;     // while it opened
    ppl_status told; // what another process says that it failed with, while it opened
    char told_text[1024];
    ppl_nccl_crossing **of; // [edges]: the first crossing of each, NULL none; others of the edge follow it
} ppl_nccl;

static inline size_t ppl_nccl_bytes(const ppl_nccl *l, const ppl_nccl_crossing *c) {
    return l->plan->stages->edges[c->edge].bytes;
}
static inline char *ppl_nccl_buffer(const ppl_nccl *l, const ppl_nccl_crossing *c, bool sends, int32_t buffer) {
    char *base = sends ? l->memory[c->edge] : l->reader_memory[c->edge][c->reader];
    return base + (size_t)buffer * ppl_link_stride(&l->plan->stages->edges[c->edge]);
}
static inline int32_t ppl_nccl_buffers(const ppl_nccl *l, const ppl_nccl_crossing *c, bool sends) {
    const ppl_edge_plan *e = &l->plan->edge[c->edge];
    return sends ? e->buffers : e->reader_buffers[c->reader];
}

// ---- nccl_join.c ----
// Which units there are, and which rank is on which; of all processes. Two processes on one unit are refused.
ppl_status ppl_nccl_units(ppl_nccl *l);
// Communicators and streams of all crossings; each has passed one value when this returns.
ppl_status ppl_nccl_join(ppl_nccl *l);
ppl_status ppl_nccl_sum(const ppl_nccl *l, const ppl_nccl_unit *u);
void ppl_nccl_part(ppl_nccl *l); // and their end; after a failure nobody is waited for
// A failure in words. what: the call, or what was to be done; comm may be NULL.
ppl_status ppl_nccl_fail(ncclComm_t comm, ncclResult_t result, const char *what);
// A communicator that may still be busy with the last call: waits until it is done with it.
ppl_status ppl_nccl_settle(const ppl_nccl *l, ncclComm_t comm, ncclResult_t result, const char *what);

#endif
