// label.c - what a profiler calls a rank's tasks: "2F5", "send 2F5", "receive for 3F5", "norm". Names are had before the first
// step, on devices that are watched by one. Before: the plan. After: loop.c puts a task's name around what it enqueues.
#include "exec/rank.h"
#include <stdio.h>

static void name_print(const ppl_plan *p, int32_t rank, const ppl_task *t, char text[48]) {
    char action[24] = "its update";
    if (t->action >= 0) ppl_action_print(&p->actions->rank[rank].actions[t->action], action);
    switch ((ppl_task_kind)t->kind) {
    case PPL_TASK_CREDIT: snprintf(text, 48, "credit for %s", action); return;
    case PPL_TASK_RECEIVE: snprintf(text, 48, "receive for %s", action); return;
    case PPL_TASK_F: snprintf(text, 48, "%dF%d", t->stage, t->microbatch); return;
    case PPL_TASK_B: snprintf(text, 48, "%dB%d", t->stage, t->microbatch); return;
    case PPL_TASK_I: snprintf(text, 48, "%dI%d", t->stage, t->microbatch); return;
    case PPL_TASK_W: snprintf(text, 48, "%dW%d", t->stage, t->microbatch); return;
    case PPL_TASK_SEND: snprintf(text, 48, "send %s", action); return;
    case PPL_TASK_RELEASE: snprintf(text, 48, "release after %s", action); return;
    case PPL_TASK_NORM: snprintf(text, 48, "norm"); return;
    case PPL_TASK_UPDATE:
        if (t->microbatch < 0) snprintf(text, 48, "%dU", t->stage);
        else snprintf(text, 48, "%dU%d", t->stage, t->microbatch);
        return;
    case PPL_TASK_VALIDATE: snprintf(text, 48, "validate"); return;
    case PPL_TASK_KINDS: break;
    }
    text[0] = '\0';
}

ppl_status ppl_labels_open(ppl_rank *r) {
    const ppl_device_ops *device = r->exec->options.device;
    if (!device->label_get(r->device, "ppl")) return PPL_OK; // nobody listens
    for (int32_t side = 0; side < PPL_SIDES; side++) {
        const ppl_plan *p = r->exec->side[side].plan;
        if (!p) continue;
        const ppl_rank_plan *own = &p->rank[r->rank];
        r->label[side] = ppl_arena_get(&r->arena, (size_t)own->count * sizeof(void *));
        if (!r->label[side]) return PPL_ERR_MEMORY;
        for (int64_t at = 0; at < own->count; at++) {
            char text[48];
            name_print(p, r->rank, &own->tasks[at], text);
            r->label[side][at] = device->label_get(r->device, text);
        }
    }
    return PPL_OK;
}
