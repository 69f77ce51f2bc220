// costs.h - what tasks and links take, for all who go by ppl_costs. Before: a script's costs, through ppl.h. After: the
// simulator, the emulated device and the links between its ranks, which thereby take the same times.
#ifndef PPL_SIM_COSTS_H
#define PPL_SIM_COSTS_H
#include "plan/plan.h"

#define PPL_COSTS_LONGEST 9e9 // seconds, of any cost and of all steps simulated: what a trace's nanoseconds hold

// Every number in its domain, for so many stages; errors begin with `where`.
ppl_status ppl_costs_check(const char *where, const ppl_costs *c, int32_t stages);
// A copy with all it points at.
ppl_status ppl_costs_copy(ppl_arena *arena, const ppl_costs *from, int32_t stages, ppl_costs *out);
// By what a cost is multiplied: of a program of (stage, phase, microbatch), and of a message of (edge, reader, sequence).
double ppl_costs_program_jitter(const ppl_costs *c, int64_t step, int32_t stage, int32_t phase, int32_t microbatch);
double ppl_costs_message_jitter(const ppl_costs *c, int64_t step, int32_t edge, int32_t reader, int32_t sequence);
// Seconds after which every rank knows what the last one said: the longest latency that some of so many ranks have.
double ppl_costs_latency(const ppl_costs *c, int32_t ranks);

typedef struct ppl_cost_link { // a directed link
    int32_t from, to;          // ranks
    double latency, per_byte;  // seconds
} ppl_cost_link;

typedef struct ppl_cost_links { // those that a plan uses
    ppl_cost_link *link;        // by from and to
    int32_t count;
    int32_t **of;  // [edges]: [readers]: index; -1 where the reader is on the producer's rank
    double *bytes; // [edges]: of one message
} ppl_cost_links;

// Refuses a bandwidth where the plan does not know its messages' bytes.
ppl_status ppl_cost_links_build(ppl_arena *arena, const char *where, const ppl_plan *p, const ppl_costs *c,
                                ppl_cost_links *out);

// Sends a message at `now` over a link that is free from *free on: when the link is free again, and when the value is there.
static inline double ppl_cost_link_send(const ppl_cost_link *l, double bytes, double jitter, double now, double *free) {
    double begin = now > *free ? now : *free;
    *free = begin + bytes * l->per_byte * jitter;
    return *free + l->latency * jitter;
}

#endif
