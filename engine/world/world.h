// world.h - the processes that run a script together. Every process runs the same script and builds the same plan; which
// process holds which ranks is in the plan, and what joins processes goes through process 0. Before: main.c, which
// opens the world. After: exec/peers.c (words of a step), link/mpi.c (values), train (records, weights, checkpoints).
//
// A process alone has no world: NULL, which every function here takes for "the only one". Devices that need a common secret
// (the id of an NCCL communicator) share it with ppl_world_share.
#ifndef PPL_WORLD_WORLD_H
#define PPL_WORLD_WORLD_H
#include "world/wire.h"
#include <pthread.h>

enum {
    PPL_WORLD_TAGS = 16,       // tags below are the world's own; links take theirs from ppl_world_tags
    PPL_VOTE_DIFFERS = 1 << 20 // in a vote's `any`: a process has called something else
};

typedef struct ppl_words { // head of what is posted; bytes of data follow
    int32_t kind;          // the handler's
    int32_t rank;          // or whatever the kind makes of it
    int64_t round;         // of which ppl_world_round; the world fills it in
    int64_t a, b;
    double x, y;
} ppl_words;

// Called under the world's lock, by whichever thread polls.
typedef void (*ppl_world_handler)(void *self, int32_t from, const ppl_words *words, const void *data, size_t bytes);

typedef struct ppl_world {
    ppl_wire wire;
    int32_t process, processes;
    int32_t place, neighbours; // of this process among those of its host, and how many those are
    int64_t clock;             // nanoseconds to add to ppl_now for the clock of process 0
    pthread_mutex_t lock;      // recursive: handlers post
    ppl_world_handler handler;
    void *handler_self;
    int64_t round, next_tag;
    struct { // words of the next round, which began there before it did here
        bool full;
        int32_t from;
        void *data;
        size_t bytes, room;
    } early;
    void *scratch; // of posts: head and data in one piece
    size_t scratch_room;
    ppl_status lost; // not PPL_OK: the processes no longer act together
    char lost_text[1024];
} ppl_world;

// ---- opening: the program's main thread ----
// Takes the wire, and measures the clocks; collective.
ppl_status ppl_world_open(const ppl_wire *wire, ppl_world **out);
// Waits until every process is here, then leaves. status and text: how this process ends; returns how all do: the first
// failure of another process, with its number, where this one ends well. Never waits for who is lost.
ppl_status ppl_world_close(ppl_world *w, ppl_status status, const char *text);
// The world of this thread: what runs that it opens belong to.
ppl_world *ppl_world_current(void);
void ppl_world_use(ppl_world *w);

// ---- who holds what ----
static inline int32_t ppl_world_process_of(const ppl_world *w) {
    return w ? w->process : 0;
}
static inline int32_t ppl_world_processes_of(const ppl_world *w) {
    return w ? w->processes : 1;
}
// PPL_ERR_ARG when there are fewer ranks than processes.
ppl_status ppl_world_check_ranks(const ppl_world *w, int32_t ranks);

// ---- together: every process calls these in the same order ----

// What processes say when they meet, and what all of them then know.
typedef struct ppl_vote {
    const char *what;      // "steps": where a process calls something else, all fail
    uint64_t key;          // must be equal everywhere ...
    const char *key_words; // ... and what it is: "the plan"
    double seconds;        // wait so long at most; 0: for ever
    ppl_status status;     // out: the failure of process 0, else the first; the text is this thread's error text
    int32_t any;           // out: the largest
    int64_t first;         // out: of process 0
    int64_t least;         // out: the smallest
} ppl_vote;
// Returns vote->status, or why the processes could not meet.
ppl_status ppl_world_vote(ppl_world *w, ppl_vote *vote);
// A vote about `status` alone: all fail when one does.
ppl_status ppl_world_settle(ppl_world *w, const char *what, ppl_status status);
// Process `root`'s bytes are everyone's.
ppl_status ppl_world_share(ppl_world *w, int32_t root, void *data, size_t bytes);
// Bytes of one process to another; nothing for those that are neither.
ppl_status ppl_world_move(ppl_world *w, int32_t from, int32_t to, void *data, size_t bytes);
// So many tags that no other caller has.
ppl_status ppl_world_tags(ppl_world *w, int64_t count, int64_t *first);
// Words posted from here on belong to the next round: those of rounds before are dropped where they arrive.
void ppl_world_round(ppl_world *w, ppl_world_handler handler, void *self);

// This handler hears nothing any more: it is about to be freed.
void ppl_world_deaf(ppl_world *w, const void *handler_self);

// ---- at any time, from any thread ----
ppl_status ppl_world_post(ppl_world *w, int32_t to, const ppl_words *words, const void *data, size_t bytes);
ppl_status ppl_world_tell(ppl_world *w, const ppl_words *words, const void *data, size_t bytes); // all others
ppl_status ppl_world_poll(ppl_world *w); // hands on what has arrived
// Between two polls: `idle` nanoseconds since something was last heard of.
void ppl_world_nap(int64_t idle);
// The processes no longer act together: takes this thread's error text, and returns the status. The first one stands.
ppl_status ppl_world_lose(ppl_world *w, ppl_status status);

#endif
