// joint.c - the global norm of asynchronous devices with clip before: square sums meet in the devices' memory, and so does the
// scale that comes of them, so that no host waits for a device within a step. Before: norm.c, at NORM. After: the optimizer
// reads the scale where it lies.
//
// All ranks' square sums lie one rank after the other in one array, on each unit: its ranks write their own part, the rest
// stays zero, and the link adds the arrays of all units up; a sum plus zeros keeps its bits. The lowest rank on a unit makes
// the scale from them, in the order of the parameters as norm.c does. Ranks on one unit tell each other in tickets what they
// have enqueued, as links do. One array is enough: a rank writes its part of the next step behind its update of this one,
// which waits for the scale.
#include "exec/rank.h"

static bool trains(const ppl_param *p) {
    return !p->spec.frozen && p->n_uses > 0;
}

// How many sums a rank has: those of the parameters that it steps.
static size_t sums_of(const ppl_exec *e, int32_t rank) {
    const ppl_rank_plan *own = &e->plan->rank[rank];
    size_t n = 0;
    for (int32_t i = 0; i < own->n_params; i++) n += trains(&e->plan->stages->graph->params[own->params[i]]);
    return n;
}

static size_t sums_before(const ppl_exec *e, int32_t rank) {
    size_t n = 0;
    for (int32_t i = 0; i < rank; i++) n += sums_of(e, i);
    return n;
}

// Where the sum of each parameter that is trained lies, in the order of the parameters: with the rank of the lowest stage
// that uses it.
static int64_t order_find(const ppl_exec *e, int32_t *order) {
    const ppl_plan *p = e->plan;
    const ppl_graph *g = p->stages->graph;
    int64_t n = 0;
    for (int32_t param = 0; param < (int32_t)g->n_params; param++) {
        int32_t stage = ppl_stage_using(p, -1, 0, param);
        if (stage < 0 || !trains(&g->params[param])) continue;
        int32_t rank = p->stage_rank[stage], at = 0;
        const ppl_rank_plan *own = &p->rank[rank];
        for (int32_t i = 0; own->params[i] != param; i++) at += trains(&g->params[own->params[i]]);
        order[n++] = (int32_t)sums_before(e, rank) + at;
    }
    return n;
}

// ---- open and close ----

static ppl_joint_unit *unit_find(ppl_joint *j, int32_t unit) {
    for (int32_t i = 0; i < j->n_units; i++)
        if (j->unit[i].unit == unit) return &j->unit[i];
    return NULL;
}

static ppl_status units_find(ppl_exec *e, ppl_joint *j) {
    j->unit = ppl_arena_get(&e->arena, (size_t)(e->end - e->first) * sizeof *j->unit);
    if (!j->unit) return PPL_ERR_MEMORY;
    for (int32_t i = e->first; i < e->end; i++) {
        ppl_device_room room;
        PPL_TRY(e->options.device->room(e->rank[i].device, &room));
        ppl_joint_unit *u = unit_find(j, room.unit);
        if (!u) {
            u = &j->unit[j->n_units++];
            u->unit = room.unit;
            u->leader = i;
        }
        u->ranks++;
        e->rank[i].joint = u;
    }
    return PPL_OK;
}

static ppl_status unit_open(ppl_exec *e, ppl_joint *j, ppl_joint_unit *u) {
    const ppl_device_ops *ops = e->options.device;
    ppl_rank *leader = &e->rank[u->leader];
    size_t params = e->plan->stages->graph->n_params;
    void *memory = NULL, *order = NULL;
    // own and all, the scale, the order
    size_t bytes = (2 * j->sums + 1) * sizeof(double) + params * sizeof(int32_t);
    PPL_TRY(ops->memory_get(leader->device, bytes, &memory));
    leader->bytes[PPL_MEM_OTHER] += (int64_t)bytes;
    u->own = memory;
    u->all = u->own + j->sums;
    u->scale = u->all + j->sums;
    u->order = (int32_t *)(u->scale + 1);
    PPL_TRY(ops->event_open(leader->device, &u->made));
    PPL_TRY(ops->host_get(leader->device, params * sizeof(int32_t), &order));
    u->count = order_find(e, order);
    ppl_status st = ops->copy_in(leader->device, u->order, order, (size_t)u->count * sizeof(int32_t), 0);
    if (st == PPL_OK) st = ops->synchronize(leader->device);
    ops->host_free(leader->device, order);
    j->from[u->leader] = u->own;
    j->to[u->leader] = u->all;
    return st;
}

ppl_status ppl_joint_open(ppl_exec *e) {
    const ppl_plan *p = e->plan;
    bool wanted = e->client.optimizer.clip == PPL_CLIP_BEFORE && !p->options.forward_only && !ppl_plan_flows(p);
    if (!(e->options.device->flags & PPL_DEVICE_ASYNC) || !p->stages->graph || !wanted) return PPL_OK;
    ppl_joint *j = ppl_arena_get(&e->arena, sizeof *j);
    if (!j) return PPL_ERR_MEMORY;
    j->sums = sums_before(e, p->ranks);
    j->from = ppl_arena_get(&e->arena, (size_t)p->ranks * sizeof *j->from);
    j->to = ppl_arena_get(&e->arena, (size_t)p->ranks * sizeof *j->to);
    if (!j->from || !j->to) return PPL_ERR_MEMORY;
    e->joint = j;
    PPL_TRY(units_find(e, j));
    for (int32_t i = 0; i < j->n_units; i++) PPL_TRY(unit_open(e, j, &j->unit[i]));
    for (int32_t i = e->first; i < e->end; i++) {
        PPL_TRY(e->options.device->event_open(e->rank[i].device, &e->rank[i].joined));
        e->options.device->scale_bind(e->rank[i].device, e->rank[i].joint->scale);
    }
    return PPL_OK;
}

void ppl_joint_close(ppl_exec *e) {
    const ppl_device_ops *ops = e->options.device;
    for (int32_t i = e->first; e->joint && i < e->end; i++)
        if (e->rank[i].joined) ops->event_close(e->rank[i].device, e->rank[i].joined);
    for (int32_t i = 0; e->joint && i < e->joint->n_units; i++) {
        const ppl_joint_unit *u = &e->joint->unit[i];
        if (u->made) ops->event_close(e->rank[u->leader].device, u->made);
        if (u->own) ops->memory_free(e->rank[u->leader].device, u->own);
    }
    e->joint = NULL;
}

double *ppl_joint_sums(const ppl_rank *r) {
    return r->joint ? r->joint->own + sums_before(r->exec, r->rank) : NULL;
}

// ---- in a step ----

static ppl_status scale_make(ppl_rank *r) {
    const ppl_joint_unit *u = r->joint;
    double limit = r->exec->client.optimizer.clip_norm;
    return r->exec->options.device->clip_scale_at(r->device, u->all, u->order, u->count, limit, u->scale);
}

ppl_status ppl_joint_warm(ppl_rank *r) {
    return r->joint && r->joint->leader == r->rank ? scale_make(r) : PPL_OK;
}

// The lowest rank on a unit: when all have enqueued their sums.
static ppl_status unit_lead(ppl_rank *r, ppl_joint_unit *u, int64_t tick) {
    ppl_exec *e = r->exec;
    const ppl_device_ops *ops = e->options.device;
    PPL_TRY(ppl_rank_wait_count(r, &u->came, (int64_t)u->ranks * (tick + 1), PPL_AT_NORM));
    for (int32_t i = e->first; i < e->end; i++)
        if (i != r->rank && e->rank[i].joint == u) PPL_TRY(ops->event_wait(r->device, e->rank[i].joined, 0));
    PPL_TRY(e->options.link->sum(e->side[PPL_SIDE_TRAIN].link, r->rank));
    PPL_TRY(scale_make(r));
    PPL_TRY(ops->event_record(r->device, u->made, 0));
    atomic_store(&u->done, tick + 1);
    if (u->ranks > 1) ppl_exec_ring_all(e);
    return PPL_OK;
}

ppl_status ppl_joint_norm(ppl_rank *r, int64_t tick) {
    ppl_joint_unit *u = r->joint;
    const ppl_device_ops *ops = r->exec->options.device;
    PPL_TRY(ops->event_record(r->device, r->joined, 0));
    atomic_fetch_add(&u->came, 1);
    if (r->rank == u->leader) return unit_lead(r, u, tick);
    ppl_bell_ring(&r->exec->rank[u->leader].bell);
    PPL_TRY(ppl_rank_wait_count(r, &u->done, tick + 1, PPL_AT_NORM));
    return ops->event_wait(r->device, u->made, 0);
}
