// streams.c - two streams of a rank's asynchronous device: the actions of an overlap run beside one another, the second on
// stream 1. Before: the plan marks the second's tasks, and has a workspace for each stream. After: loop.c asks before each
// task; programs, links, inputs, losses and times go by the task's stream.
//
// Stream 1 waits until stream 0 has come to where the pair begins, and stream 0, behind the pair, until stream 1 has ended
// it: nothing else runs beside the pair. The host only records events.
#include "exec/rank.h"

static int64_t at_turn(const ppl_rank_plan *own, int64_t k) {
    return own->turns ? own->turns[k] : k;
}

// In the order in which tasks run: where the action begins that a second one runs beside.
static void fork_find(const ppl_rank_plan *own, int64_t k, bool *forks) {
    int32_t first = own->tasks[at_turn(own, k)].action - 1;
    for (; k > 0; k--) {
        const ppl_task *before = &own->tasks[at_turn(own, k - 1)];
        if (before->action != first && before->kind != PPL_TASK_VALIDATE) break;
    }
    forks[at_turn(own, k)] = true;
}

ppl_status ppl_streams_open(ppl_rank *r) {
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    const ppl_device_ops *device = r->exec->options.device;
    ppl_ahead *a = r->ahead;
    if (own->streams < 2) return PPL_OK;
    bool *forks = ppl_arena_get(&r->arena, (size_t)own->count * sizeof *forks);
    if (!forks) return PPL_ERR_MEMORY;
    for (int64_t k = 1; k < own->count; k++)
        if (own->tasks[at_turn(own, k)].stream && !own->tasks[at_turn(own, k - 1)].stream) fork_find(own, k, forks);
    PPL_TRY(device->event_open(r->device, &a->fork));
    PPL_TRY(device->event_open(r->device, &a->join));
    a->forks = forks;
    return PPL_OK;
}

void ppl_streams_close(ppl_rank *r) {
    r->exec->options.device->event_close(r->device, r->ahead->fork);
    r->exec->options.device->event_close(r->device, r->ahead->join);
}

ppl_status ppl_streams_join(ppl_rank *r) {
    const ppl_device_ops *device = r->exec->options.device;
    if (!r->ahead || !r->ahead->beside) return PPL_OK;
    r->ahead->beside = false;
    PPL_TRY(device->event_record(r->device, r->ahead->join, 1));
    return device->event_wait(r->device, r->ahead->join, 0);
}

ppl_status ppl_streams_enter(ppl_rank *r, int64_t at, const ppl_task *task) {
    const ppl_device_ops *device = r->exec->options.device;
    ppl_ahead *a = r->ahead;
    if (!a->forks) return PPL_OK;
    if (task->stream && !a->beside) {
        a->beside = true;
        return device->event_wait(r->device, a->fork, 1);
    }
    if (!task->stream) PPL_TRY(ppl_streams_join(r));
    return a->forks[at] ? device->event_record(r->device, a->fork, 0) : PPL_OK;
}
