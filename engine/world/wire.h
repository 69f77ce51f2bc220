// wire.h - what carries bytes between the processes of a run: a table of functions. Before: world.h. After: mpi.c, or in
// tests a wire between threads of one process.
//
// All calls come under the world's lock, from any thread, and none of them waits for another process. Between two
// processes, values of one tag arrive in the order in which they were sent, and so do words; values and words are apart.
#ifndef PPL_WORLD_WIRE_H
#define PPL_WORLD_WIRE_H
#include "base/status.h"

typedef struct ppl_wire_request { // of a value on its way; the wire's own, copied freely
    uint64_t word;
    bool active; // false: done, or never begun
} ppl_wire_request;

typedef struct ppl_wire_ops {
    const char *name;
    int64_t most_bytes; // of a value
    int64_t most_tag;   // tags are 0..most_tag
    // A value: borrows data until the request is done, which is not before the receiver has asked for it: whoever sends needs
    // no other bound on what lies underway.
    ppl_status (*send)(void *self, int32_t to, int64_t tag, const void *data, size_t bytes, ppl_wire_request *out);
    // data holds `bytes` at most, and is the value's once the request is done.
    ppl_status (*receive)(void *self, int32_t from, int64_t tag, void *data, size_t bytes, ppl_wire_request *out);
    ppl_status (*test)(void *self, ppl_wire_request *request); // clears request->active once it is done
    // Takes back a receive that nothing has come for. gone false: something had come, the request goes on.
    ppl_status (*cancel)(void *self, ppl_wire_request *request, bool *gone);
    // Words: short texts that are buffered on the way; copies.
    ppl_status (*post)(void *self, int32_t to, const void *data, size_t bytes);
    // The next words from anyone, borrowed until the next take; *from -1: there are none.
    ppl_status (*take)(void *self, int32_t *from, const void **data, size_t *bytes);
    void (*close)(void *self, bool whole); // whole false: other processes may be lost, nothing is waited for
} ppl_wire_ops;

// A carrier as it was opened.
typedef struct ppl_wire {
    const ppl_wire_ops *ops;
    void *self;
    int32_t process, processes; // this one, from 0, and how many there are
} ppl_wire;

// Joins the processes that an MPI launcher has started. PPL_ERR_ARG in a build without MPI.
ppl_status ppl_wire_mpi(ppl_wire *out);

// What a launcher says in the environment: how many processes it has started, 1 when there is none.
typedef struct ppl_launch {
    const char *launcher; // its name for people, static
    int32_t process, processes;
    int32_t local; // processes on this machine
} ppl_launch;
ppl_launch ppl_launched(void);

#endif
