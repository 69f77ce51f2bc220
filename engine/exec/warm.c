// warm.c - runs everything once on an asynchronous device before links carry anything. Before: exec.c, when all addresses are
// bound and all memory is zero. After: version.c puts the weights there.
//
// Devices load a kernel when it is first launched, and loading may wait until the device has nothing underway: with a
// receive underway, whose sender waits for this rank in turn, for ever. What is computed here is thrown away: zeros go in,
// activations and gradients are written anew by a step before it reads them, parameters and moments come over from the
// store after this.
#include "exec/rank.h"

static ppl_status program_warm(ppl_rank *r, int32_t side, int32_t chunk, int32_t phase, const ppl_task *task) {
    const ppl_device_ops *device = r->exec->options.device;
    ppl_bound *b = &r->chunk[side][chunk].bound[phase];
    PPL_TRY(ppl_bound_aim(r, b, task, 0, 0));
    for (int32_t i = 0; i < b->n_fills; i++) // zeros: nothing was staged yet
        PPL_TRY(device->copy_in(r->device, b->fills[i].to, b->fills[i].staging, b->fills[i].bytes, 0));
    ppl_program_run run = {.stage = task->stage,
                           .microbatch = task->microbatch,
                           .kind = phase,
                           .calls = b->calls,
                           .scratch = r->scratch,
                           .env = &r->env};
    return device->program_run(r->device, b->program, &run);
}

// The first microbatch writes accumulators and later ones add to them: both ways.
static ppl_status side_warm(ppl_rank *r, int32_t side) {
    const ppl_plan *p = r->exec->side[side].plan;
    if (!p) return PPL_OK;
    r->env.training = side == PPL_SIDE_TRAIN;
    for (int32_t c = 0; c < p->rank[r->rank].n_stages; c++)
        for (int32_t mb = 0; mb < 2 && mb < p->microbatches; mb++) {
            ppl_task task = {.stage = p->rank[r->rank].stages[c], .microbatch = mb};
            for (int32_t phase = 0; phase < PPL_PHASES; phase++)
                if (phase == PPL_PHASE_F || !p->options.forward_only) PPL_TRY(program_warm(r, side, c, phase, &task));
        }
    return PPL_OK;
}

static ppl_status param_warm(ppl_rank *r, const ppl_rank_param *p) {
    const ppl_device_ops *device = r->exec->options.device;
    const ppl_store_entry *e = ppl_rank_entry(r, p->param);
    ppl_update u = p->update;
    ppl_update_set(&u, &r->exec->client.optimizer, 0, 0, true);
    u.weight = u.weight_out = e->master;
    u.copy = e->copy;
    u.moment1 = u.moment1_out = e->moment1;
    u.moment2 = u.moment2_out = e->moment2;
    u.scale = 1;
    PPL_TRY(
        device->square_sum_at(r->device, p->grads, u.uses, u.dtype, u.n, r->ahead->sums)); // a place that a step sets
    return device->update(r->device, &u, p->stage);
}

ppl_status ppl_rank_warm(ppl_rank *r) {
    if (!r->ahead) return PPL_OK;
    ppl_rank_bind_params(r);
    for (int32_t side = 0; side < PPL_SIDES; side++) PPL_TRY(side_warm(r, side));
    for (int32_t i = 0; i < r->n_params; i++) PPL_TRY(param_warm(r, &r->params[i]));
    PPL_TRY(ppl_joint_warm(r));
    return ppl_ahead_still(r);
}
