// norm.c - the end of a step: square sums of the gradients, the global norm, the optimizer, and the rollback of a step
// that should have been clipped. Before: the last W of the step. After: the next step's forwards.
//
// The norm is the root of the parameters' square sums added in the order of the parameters, so that it does not depend on
// who computed which. Clip after (post-validation; Qi et al., "Zero bubble pipeline parallelism", 2024): UPDATE steps at
// once into the spare halves of the store, VALIDATE of the next step looks at the norm, and where it asks for clipping all
// ranks stop there, go back to the old halves, step again with the scale and begin the step anew.
#include "exec/rank.h"
#include "sim/costs.h"
#include <math.h>

static bool stage_uses(const ppl_stage *s, int32_t param) {
    for (int32_t i = 0; i < s->n_params; i++)
        if (s->params[i] == param) return true;
    return false;
}

int32_t ppl_stage_using(const ppl_plan *p, int32_t rank, int32_t from, int32_t param) {
    for (int32_t s = from; s < p->stages->count; s++)
        if ((rank < 0 || p->stage_rank[s] == rank) && stage_uses(&p->stages->stage[s], param)) return s;
    return -1;
}

// Where this rank finds the accumulator of each use.
static ppl_status grads_find(ppl_rank *r, ppl_rank_param *out) {
    const ppl_plan *p = r->exec->plan;
    const ppl_param *param = &p->stages->graph->params[out->param];
    out->grads = ppl_arena_get(&r->arena, (size_t)param->n_uses * sizeof *out->grads);
    if (!out->grads) return PPL_ERR_MEMORY;
    for (int32_t k = 0; k < param->n_uses; k++) {
        for (int32_t s = out->stage; s >= 0 && !out->grads[k]; s = ppl_stage_using(p, r->rank, s + 1, out->param))
            out->grads[k] = ppl_rank_fixed(r, PPL_SIDE_TRAIN, s, param->uses[k]);
        if (!out->grads[k]) {
            return ppl_fail(PPL_ERR_PLAN, "rank %d, parameter %s: the gradient of its use %d has no place, want one",
                            r->rank, param->name, k);
        }
    }
    return PPL_OK;
}

static ppl_status param_setup(ppl_rank *r, int32_t index, ppl_rank_param *out) {
    const ppl_plan *p = r->exec->plan;
    const ppl_param *param = &p->stages->graph->params[index];
    int32_t first = ppl_stage_using(p, -1, 0, index);
    *out = (ppl_rank_param){.param = index, .stage = ppl_stage_using(p, r->rank, 0, index)};
    out->counts = first == out->stage;
    if (r->exec->client.optimizer.clip == PPL_CLIP_STAGE && ppl_stage_using(p, -1, first + 1, index) >= 0) {
        return ppl_fail(PPL_ERR_ARG,
                        "parameter %s is tied over stages %d and %d: clip is by stage, want it before or none",
                        param->name, first, ppl_stage_using(p, -1, first + 1, index));
    }
    PPL_TRY(grads_find(r, out));
    const ppl_store_entry *e = ppl_rank_entry(r, index);
    if (r->exec->client.optimizer.clip == PPL_CLIP_AFTER && !e->spare[0]) {
        return ppl_fail(PPL_ERR_ARG, "parameter %s: clip is after, but the store has no spare half, want one",
                        param->name);
    }
    out->update = (ppl_update){.n = ppl_type_elements(&param->type),
                               .grads = out->grads,
                               .uses = param->n_uses,
                               .dtype = param->type.dtype,
                               .copy_dtype = p->stages->graph->dtype};
    return PPL_OK;
}

ppl_status ppl_rank_params_setup(ppl_rank *r) {
    const ppl_plan *p = r->exec->plan;
    const ppl_rank_plan *own = &p->rank[r->rank];
    if (!p->stages->graph || p->options.forward_only) return PPL_OK;
    r->params = ppl_arena_get(&r->arena, (size_t)own->n_params * sizeof *r->params);
    if (!r->params) return PPL_ERR_MEMORY;
    for (int32_t i = 0; i < own->n_params; i++) {
        const ppl_param *param = &p->stages->graph->params[own->params[i]];
        if (!param->spec.frozen && param->n_uses > 0)
            PPL_TRY(param_setup(r, own->params[i], &r->params[r->n_params++]));
    }
    return PPL_OK;
}

// ---- NORM ----

static ppl_status sum_check(const ppl_rank *r, const ppl_rank_param *p, int64_t step, double sum) {
    if (isfinite(sum)) return PPL_OK;
    return ppl_fail(PPL_ERR_NUMBER, "step %lld, stage %d: the gradient of %s has a square sum of %g, want it finite",
                    (long long)step, p->stage, r->exec->plan->stages->graph->params[p->param].name,
                    ppl_number_plain(sum));
}

static ppl_status sum_of(ppl_rank *r, const ppl_rank_param *p, int64_t step, double *out) {
    const ppl_update *u = &p->update;
    PPL_TRY(r->exec->options.device->square_sum(r->device, p->grads, u->uses, u->dtype, u->n, out));
    return sum_check(r, p, step, *out);
}

// had: [params of the rank], where the device has told them already.
static ppl_status sums_publish(ppl_rank *r, ppl_board_slot *slot, int64_t step, const double *had) {
    for (int32_t i = 0; i < r->n_params; i++) {
        const ppl_rank_param *p = &r->params[i];
        if (!p->counts) continue;
        double sum = had ? had[i] : 0;
        PPL_TRY(had ? sum_check(r, p, step, sum) : sum_of(r, p, step, &sum));
        slot->sums[p->param] = sum;
    }
    return PPL_OK;
}

// Clip by stage: each stage goes by its own gradients.
static void stages_clip(ppl_rank *r, ppl_board_slot *slot, int64_t tick) {
    const ppl_rank_plan *own = &r->exec->plan->rank[r->rank];
    for (int32_t c = 0; c < own->n_stages; c++) {
        double sum = 0;
        for (int32_t i = 0; i < r->n_params; i++)
            if (r->params[i].stage == own->stages[c]) sum += slot->sums[r->params[i].param];
        r->scale[c] = ppl_clip_scale(&r->exec->client.optimizer, sqrt(sum));
        if (r->scale[c] < 1) atomic_store(&slot->clipped, tick + 1);
    }
}

ppl_status ppl_exec_norm(ppl_exec *e, int64_t tick, int64_t step) {
    ppl_board_slot *slot = ppl_board_at(e, tick);
    const ppl_optimizer_options *o = &e->client.optimizer;
    const ppl_graph *g = e->plan->stages->graph;
    double sum = 0;
    for (size_t i = 0; g && i < g->n_params; i++) sum += slot->sums[i];
    slot->norm = sqrt(e->plan->weights == PPL_WEIGHTS_STASH ? sum / e->plan->microbatches : sum);
    if (!isfinite(slot->norm)) {
        return ppl_fail(PPL_ERR_NUMBER, "step %lld: the gradient norm over all parameters is %g, want it finite",
                        (long long)step, ppl_number_plain(slot->norm));
    }
    slot->scale = o->clip == PPL_CLIP_STAGE ? 1 : ppl_clip_scale(o, slot->norm);
    e->client.norm(e->client.self, step, slot->norm, slot->scale < 1 || atomic_load(&slot->clipped) == tick + 1);
    const ppl_costs *c = e->options.device_options.costs;
    if (c && o->clip == PPL_CLIP_BEFORE &&
        !(e->options.device->flags & PPL_DEVICE_COMPUTES)) // the sums take a link's time
        ppl_wait_until(ppl_now() + (int64_t)(ppl_costs_latency(c, e->plan->ranks) * 1e9), &e->stop);
    atomic_store_explicit(&slot->ready, tick + 1, memory_order_release);
    if (o->clip == PPL_CLIP_BEFORE || o->clip == PPL_CLIP_AFTER) ppl_exec_ring_all(e);
    return e->peers.world ? ppl_peers_norm(e, tick, step) : PPL_OK;
}

static void scale_set(ppl_rank *r, double scale) {
    for (int32_t c = 0; c < r->exec->plan->rank[r->rank].n_stages; c++) r->scale[c] = scale;
}

static ppl_status sums_put(ppl_rank *r, int64_t tick, int64_t step, const double *had) {
    ppl_board_slot *slot = ppl_board_at(r->exec, tick);
    PPL_TRY(sums_publish(r, slot, step, had));
    bool alone = r->exec->plan->weights == PPL_WEIGHTS_STASH; // each update has seen to its own
    if (r->exec->client.optimizer.clip == PPL_CLIP_STAGE && !alone) stages_clip(r, slot, tick);
    return PPL_OK;
}

static ppl_status sums_count(ppl_rank *r, int64_t tick, int64_t step) {
    ppl_exec *e = r->exec;
    int64_t all = ppl_exec_expects(e) * (tick / PPL_EXEC_AHEAD + 1);
    if (atomic_fetch_add(&ppl_board_at(e, tick)->arrived, 1) + 1 < all) return PPL_OK;
    return ppl_exec_leads(e) ? ppl_exec_norm(e, tick, step) : ppl_peers_sums(e, tick, step);
}

ppl_status ppl_rank_arrive(ppl_rank *r, int64_t tick, int64_t step, const double *sums) {
    PPL_TRY(sums_put(r, tick, step, sums));
    return sums_count(r, tick, step);
}

// An asynchronous device's sums arrive when it has them: at once only where the optimizer needs what comes of them.
static ppl_status sums_arrive(ppl_rank *r, int64_t tick, int64_t step, ppl_span *span) {
    bool alone = r->exec->plan->weights == PPL_WEIGHTS_STASH; // each update has seen to its own
    int32_t clip = r->exec->client.optimizer.clip;
    if (!alone) scale_set(r, 1);
    if (r->ahead) PPL_TRY(ppl_ahead_sums(r, tick, step));
    else if (!alone) PPL_TRY(sums_put(r, tick, step, NULL));
    if (r->ahead) PPL_TRY(ppl_ahead_middle(r, tick));
    else span->middle = ppl_now();
    if (!r->ahead) return sums_count(r, tick, step);
    if (r->joint) return ppl_joint_norm(r, tick); // the board hears later, for records
    return clip == PPL_CLIP_BEFORE || (clip == PPL_CLIP_STAGE && !alone) ? ppl_ahead_publish(r, tick) : PPL_OK;
}

ppl_status ppl_rank_norm(ppl_rank *r, int64_t tick, int64_t step, ppl_span *span) {
    ppl_exec *e = r->exec;
    const ppl_board_slot *slot = ppl_board_at(e, tick);
    PPL_TRY(sums_arrive(r, tick, step, span));
    if (e->client.optimizer.clip == PPL_CLIP_BEFORE && !r->joint) {
        PPL_TRY(ppl_rank_wait_count(r, &slot->ready, tick + 1, PPL_AT_NORM));
        scale_set(r, slot->scale);
    }
    if (e->client.optimizer.clip == PPL_CLIP_AFTER) {
        r->unvalidated = tick;
        r->unvalidated_step = step;
    }
    return PPL_OK;
}

// ---- UPDATE ----

static void exchange(void **a, void **b) {
    void *was = *a;
    *a = *b;
    *b = was;
}

static void halves_exchange(ppl_store_entry *e) {
    exchange(&e->master, &e->spare[0]);
    exchange(&e->moment1, &e->spare[1]);
    exchange(&e->moment2, &e->spare[2]);
}

// Updates of each parameter before one of a step; microbatch -1 with one update a step.
static int64_t updates_before(const ppl_exec *e, int64_t step, int32_t microbatch) {
    int64_t n = e->range_updates + (step - e->range_first) * ppl_exec_updates(e);
    return microbatch > 0 ? n + microbatch : n;
}

static ppl_status param_update(ppl_rank *r, const ppl_rank_param *p, int64_t step, int64_t updates, double scale,
                               bool spare) {
    ppl_store_entry *e = ppl_rank_entry(r, p->param);
    ppl_update u = p->update;
    ppl_update_set(&u, &r->exec->client.optimizer, step, updates,
                   r->exec->plan->stages->graph->params[p->param].spec.decay != 0);
    u.weight = e->master;
    u.copy = e->copy;
    u.moment1 = e->moment1;
    u.moment2 = e->moment2;
    u.weight_out = spare ? e->spare[0] : e->master;
    u.moment1_out = spare ? e->spare[1] : e->moment1;
    u.moment2_out = spare ? e->spare[2] : e->moment2;
    u.scale = scale;
    ppl_rank_next(r, ppl_rank_chunk(r, p->stage), e, &u);
    PPL_TRY(r->exec->options.device->update(r->device, &u, p->stage));
    if (spare) halves_exchange(e);
    return PPL_OK;
}

static ppl_status stage_update(ppl_rank *r, int32_t stage, int32_t microbatch, int64_t step) {
    const ppl_device_ops *device = r->exec->options.device;
    bool spare = r->exec->client.optimizer.clip == PPL_CLIP_AFTER, any = false;
    int32_t chunk = ppl_rank_chunk(r, stage);
    double scale = r->scale[chunk];
    int64_t updates = updates_before(r->exec, step, microbatch);
    for (int32_t i = 0; i < r->n_params; i++) {
        if (r->params[i].stage != stage) continue;
        PPL_TRY(param_update(r, &r->params[i], step, updates, scale, spare));
        any = true;
    }
    if (spare) ppl_rank_bind_params(r);
    r->updates[chunk]++;
    int32_t newest = ppl_rank_newest(r, chunk);
    if (r->versions > 1) PPL_TRY(ppl_rank_pack_bind(r, newest));
    for (int32_t i = 0; i < r->n_params; i++)
        if (r->params[i].stage == stage)
            PPL_TRY(device->pack(r->device, r->params[i].param, ppl_rank_weight(r, r->params[i].param, newest)));
    // A device that only waits takes the time of a stage without parameters too.
    if (!any && !(device->flags & PPL_DEVICE_COMPUTES)) return device->update(r->device, &(ppl_update){0}, stage);
    return PPL_OK;
}

// A microbatch's gradient that steps the weights alone: its square sums join the step's, clip by stage goes by them.
static ppl_status alone_norm(ppl_rank *r, const ppl_task *task, int64_t tick, int64_t step) {
    const ppl_optimizer_options *o = &r->exec->client.optimizer;
    ppl_board_slot *slot = ppl_board_at(r->exec, tick);
    const double *had = NULL; // an asynchronous device tells the step's sums at its end, what clips at once
    double all = 0, *scale = &r->scale[ppl_rank_chunk(r, task->stage)];
    *scale = 1;
    if (r->ahead) {
        PPL_TRY(ppl_ahead_sums_alone(r, task->stage, task->microbatch));
        if (o->clip != PPL_CLIP_STAGE) return PPL_OK;
        PPL_TRY(ppl_ahead_sums_await(r, tick, task->microbatch, &had));
    }
    for (int32_t i = 0; i < r->n_params; i++) {
        const ppl_rank_param *p = &r->params[i];
        if (p->stage != task->stage) continue;
        double sum = had ? had[i] : 0;
        PPL_TRY(had ? sum_check(r, p, step, sum) : sum_of(r, p, step, &sum));
        if (!had) slot->sums[p->param] = task->microbatch ? slot->sums[p->param] + sum : sum;
        all += sum;
    }
    if (o->clip == PPL_CLIP_STAGE) *scale = ppl_clip_scale(o, sqrt(all));
    if (*scale < 1) atomic_store(&slot->clipped, tick + 1);
    return PPL_OK;
}

ppl_status ppl_rank_update(ppl_rank *r, const ppl_task *task, int64_t tick, int64_t step) {
    if (r->exec->plan->weights == PPL_WEIGHTS_STASH) PPL_TRY(alone_norm(r, task, tick, step));
    return stage_update(r, task->stage, task->microbatch, step);
}

// ---- VALIDATE ----

// While all ranks stand still between two meetings.
static ppl_status roll_back(ppl_rank *r, int64_t tick, double scale, bool begun) {
    ppl_exec *e = r->exec;
    const ppl_rank_plan *own = &e->plan->rank[r->rank];
    for (int32_t i = 0; i < r->n_params; i++) halves_exchange(ppl_rank_entry(r, r->params[i].param));
    scale_set(r, scale);
    for (int32_t c = 0; c < own->n_stages; c++) PPL_TRY(stage_update(r, own->stages[c], -1, r->unvalidated_step));
    PPL_TRY(ppl_ahead_still(r)); // what is enqueued reads and writes the buffers whose tickets are forgotten
    bool done = false;
    for (int64_t begin = 0; !done;) {
        unsigned seen = ppl_rank_heard(r);
        PPL_TRY(e->options.link->rewind(e->side[PPL_SIDE_TRAIN].link, r->rank, tick, begun, &done));
        if (!done) PPL_TRY(ppl_rank_pause(r, &begin, seen));
    }
    return PPL_OK;
}

ppl_status ppl_rank_validate(ppl_rank *r, int64_t tick, bool begun, bool *redo) {
    *redo = false;
    if (r->unvalidated < 0) return PPL_OK;
    const ppl_board_slot *slot = ppl_board_at(r->exec, r->unvalidated);
    PPL_TRY(ppl_ahead_publish(r, r->unvalidated));
    PPL_TRY(ppl_rank_wait_count(r, &slot->ready, r->unvalidated + 1, PPL_AT_NORM));
    if (slot->scale < 1) {
        double scale = slot->scale;
        PPL_TRY(ppl_rank_meet(r));
        PPL_TRY(roll_back(r, tick, scale, begun));
        PPL_TRY(ppl_rank_meet(r));
        *redo = true;
    }
    r->unvalidated = -1;
    return PPL_OK;
}
