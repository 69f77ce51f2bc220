// build.h - what the steps of compiling a plan hand each other, in order: ends.c (which edges each program waits for and
// serves), flow.c (how asynchronous steps overlap), tasks.c (lists and slots), pace.c and buffers.c (how many an edge has),
// prove.c (no circle), layout.c (bytes).
#ifndef PPL_PLAN_BUILD_H
#define PPL_PLAN_BUILD_H
#include "plan/plan.h"

enum { PPL_MAX_SLOTS = INT16_MAX }; // slots and buffers are numbered in 16 bits of a task

typedef struct ppl_end {  // one side of an edge
    int32_t edge, reader; // index into the edge's readers; -1: the producer's side
} ppl_end;

typedef struct ppl_ends {
    ppl_end *item;
    int32_t count;
} ppl_ends;

// What tasks stand around a stage's programs, by phase. Readers on the producer's rank are in none of these.
typedef struct ppl_stage_ends {
    ppl_ends receive[PPL_PHASES];                   // first read there
    ppl_ends send[PPL_PHASES];                      // made there: a credit before, a send behind
    ppl_ends release[PPL_PHASES];                   // last read there, from the producer's buffer
    ppl_ends tied_send, tied_receive, tied_release; // accumulators of tied parameters, around the update
} ppl_stage_ends;

// How an asynchronous plan's steps flow into each other on one rank.
typedef struct ppl_flow {
    int32_t ahead;  // actions at the front of the list that run within the step before
    int32_t period; // actions in a step
    int32_t *time;  // [actions]: when each runs, counted in actions from the first that is not ahead: those are below 0
    int32_t *turn;  // [actions]: the actions in order of time, those ahead a period later
    int64_t *begins; // [actions + 1]: where its tasks begin in the rank's list
} ppl_flow;

typedef struct ppl_build {
    ppl_arena arena; // cleared when the plan is built
    const ppl_schedule *schedule;
    const ppl_stages *stages;
    ppl_plan *plan;
    ppl_positions positions;
    ppl_stage_ends *ends; // [stages]
    int32_t *made;        // [edges]: ppl_phase that makes the value; PPL_PHASE_W for tied accumulators
    int32_t **first;      // [edges][readers]: ppl_phase of the first program that reads it there
    int32_t *ahead;       // [edges]: buffers with which no credit costs time in a pipeline of equal stages
    // [phases][stages][microbatches]: position of the microbatch among the stage's programs of a phase
    int32_t **order[PPL_PHASES];
    ppl_flow *flow;    // [ranks]; NULL: steps do not overlap
    int32_t *most;     // [ranks]: how many actions may run ahead at most
    bool *circle;      // [ranks]: ranks that wait for each other, when the proof has failed
    int32_t **version; // [stages][microbatches]: of the weights, by ppl_task's words; NULL: one for all of a step
} ppl_build;

// Position in its rank's list at which (stage, microbatch) runs a phase; a B runs I and W.
static inline int32_t ppl_phase_position(const ppl_build *b, int32_t stage, int32_t microbatch, int32_t phase) {
    const int32_t *at = ppl_position(&b->positions, stage, microbatch, 0);
    if (phase == PPL_PHASE_F) return at[PPL_F];
    if (at[PPL_B] >= 0) return at[PPL_B];
    return at[phase == PPL_PHASE_I ? PPL_I : PPL_W];
}

// When (stage, microbatch) runs a phase, comparable on its rank between steps too: a step later it is a period later.
static inline int32_t ppl_phase_time(const ppl_build *b, int32_t stage, int32_t microbatch, int32_t phase) {
    int32_t at = ppl_phase_position(b, stage, microbatch, phase);
    return b->flow ? b->flow[b->schedule->stage_rank[stage]].time[at] : at;
}

ppl_status ppl_build_ends(ppl_build *b);
// Task lists without buffer numbers, slots, peaks.
ppl_status ppl_build_tasks(ppl_build *b);
// flow.c, for asynchronous schedules: what runs ahead, versions, slots and peaks; then, behind the lists, the turns.
ppl_status ppl_build_flow(ppl_build *b);
ppl_status ppl_build_turns(ppl_build *b);
// How many of a stage's forwards run ahead.
int32_t ppl_flow_ahead(const ppl_build *b, int32_t stage);
ppl_status ppl_build_pace(ppl_build *b);
ppl_status ppl_build_buffers(ppl_build *b);
// Fails with the chain of who waits for whom where the ranks wait for each other in a circle.
ppl_status ppl_plan_prove(const ppl_plan *p, bool *circle); // circle: NULL, or [ranks]: set for those in it
// The same; a circle that a lack of buffers closes is opened by one more.
ppl_status ppl_plan_prove_least(ppl_plan *p, bool *circle);
// Sets forward_tasks of every rank.
ppl_status ppl_plan_find_forward(ppl_plan *p);
// Places of all values, slot and workspace sizes (for abstract stages the sizes alone), and the memory limit.
ppl_status ppl_plan_lay_out(ppl_plan *p, ppl_arena *scratch);

#endif
