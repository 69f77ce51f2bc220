// run.c - a trainer's engine side: cuts the graph, compiles the schedule, starts the ranks, hands them steps. Before: a
// script's trainer, through ppl.h. After: exec.h; run_stats.c and run_params.c read what came of it.
#include "train/run.h"
#include "base/clock.h"
#include "schedule/schedule.h"
#include "sim/costs.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { EVAL_CHUNK = PPL_RUN_FLIGHT }; // evaluation steps handed over at once

static int32_t at_least_one(int32_t n) {
    return n > 0 ? n : 1;
}

static ppl_status copy_costs(ppl_run *r, const ppl_costs *from) {
    ppl_costs *to = ppl_arena_get(&r->arena, sizeof *to);
    if (!to) return PPL_ERR_MEMORY;
    PPL_TRY(ppl_costs_copy(&r->arena, from, r->options.stages, to));
    r->options.costs = to;
    return PPL_OK;
}

// Copies what the options borrow, and makes the rings that steps are gathered in.
static ppl_status run_init(ppl_run *r, const ppl_run_options *o, ppl_graph *g, const ppl_schedule *s, ppl_data *data) {
    r->options = *o;
    r->graph = g;
    r->world = ppl_world_current();
    r->origin = ppl_now();
    r->microbatches = s->microbatches;
    r->samples_per_microbatch = o->samples / s->microbatches;
    r->train.data = data;
    r->source = &r->train;
    r->bad_step = -1;
    r->rows = at_least_one(o->keep_steps) + PPL_RUN_FLIGHT;
    PPL_TRY(ppl_device_find(o->device, &r->device));
    r->options.device = r->device->name;
    size_t cut_bytes = (size_t)o->stages * sizeof(int32_t);
    int32_t *cut = ppl_arena_get(&r->arena, cut_bytes);
    r->row = ppl_arena_get(&r->arena, (size_t)r->rows * sizeof *r->row);
    r->loss = ppl_arena_get(&r->arena, (size_t)PPL_RUN_FLIGHT * (size_t)r->microbatches * sizeof *r->loss);
    if (!cut || !r->row || !r->loss) return PPL_ERR_MEMORY;
    memcpy(cut, o->first_layer, cut_bytes);
    r->options.first_layer = cut;
    for (int32_t i = 0; i < r->rows; i++) r->row[i].record.step = -1;
    if (o->costs && !(r->device->flags & PPL_DEVICE_COMPUTES)) return copy_costs(r, o->costs);
    r->options.costs = NULL;
    return PPL_OK;
}

// Which input tokens are counted in: the first of whole numbers, else the first.
static void count_tokens(ppl_run *r) {
    int32_t at = 0;
    for (int32_t i = ppl_data_inputs(r->train.data) - 1; i >= 0; i--)
        if (ppl_data_sample_type(r->train.data, i).dtype == PPL_I32) at = i;
    ppl_type type = ppl_data_sample_type(r->train.data, at);
    r->token_elements = ppl_type_elements(&type);
}

static ppl_status match_inputs(ppl_run *r) {
    size_t bytes = r->graph->n_values * sizeof(int32_t);
    r->train.input = ppl_arena_get(&r->arena, bytes);
    r->eval.input = ppl_arena_get(&r->arena, bytes);
    if (!r->train.input || !r->eval.input) return PPL_ERR_MEMORY;
    count_tokens(r);
    return ppl_run_match(r, r->train.data, r->train.input);
}

static ppl_status exec_open(ppl_run *r, const ppl_run_engine *e, ppl_exec **out) {
    const ppl_run_options *o = &r->options;
    ppl_exec_options options = {
        .device = r->device,
        .device_options = {.threads = o->threads, .costs = o->costs, .fail_task = -1, .stall_task = -1},
        .link = e->link,
        .world = r->world,
        .eval_plan = e->eval_plan,
        .seed = o->seed,
        .delay_seed = o->delay_seed,
        .delay = o->delay,
        .stall_seconds = o->stall_seconds > 0 ? o->stall_seconds : 120,
        .samples_per_microbatch = r->samples_per_microbatch,
        .trace_steps = at_least_one(o->trace_steps),
        .fail_task = o->fail_task,
        .stall_task = o->stall_task,
        .fail_rank = o->fail_rank,
    };
    ppl_exec_client client = ppl_run_client(r);
    PPL_TRY(ppl_exec_open(e->plan, e->store, &options, &client, out));
    ppl_exec_trace(*out)->origin = r->origin; // events and records on one axis, whatever was restarted
    return PPL_OK;
}

void ppl_run_engine_close(ppl_run_engine *e) {
    ppl_exec_close(e->exec);
    ppl_free(e->peak_live);
    ppl_store_free(e->store);
    ppl_plan_close(e->eval_plan);
    ppl_plan_close(e->plan);
    *e = (ppl_run_engine){0};
}

// Parameters of each rank: those of its stages. What no stage reads is kept by rank 0, so that it is saved and loaded.
static ppl_status store_build(ppl_run *r, const ppl_plan *plan, ppl_store **out) {
    size_t n = r->graph->n_params;
    bool *uses = ppl_alloc((size_t)plan->ranks * n);
    if (!uses) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) uses[i] = true;
    for (int32_t k = 0; k < 2; k++) // first rank 0 loses what any stage reads, then each rank has what is its own
        for (int32_t s = 0; s < r->stages->count; s++)
            for (int32_t i = 0; i < r->stages->stage[s].n_params; i++)
                uses[(k ? (size_t)plan->stage_rank[s] * n : 0) + (size_t)r->stages->stage[s].params[i]] = k == 1;
    int32_t *process = ppl_alloc((size_t)plan->ranks * sizeof *process);
    for (int32_t i = 0; process && i < plan->ranks; i++) process[i] = ppl_plan_process(plan, i);
    ppl_store_spread spread = {.world = r->world, .rank_process = process};
    ppl_status st = process ? ppl_store_build_here(r->graph, plan->ranks, uses, r->world ? &spread : NULL,
                                                   r->options.seed, &r->options.optimizer, out)
                            : PPL_ERR_MEMORY;
    ppl_free(process);
    ppl_free(uses);
    return st;
}

// How ranks reach each other: those of one host's memory or of one GPU hand over, others pass values.
static ppl_status link_choose(const ppl_run *r, const ppl_schedule *s, const ppl_link_ops **out) {
    bool host = r->device->flags & PPL_DEVICE_HOST;
    *out = !r->world ? &ppl_link_local : host ? &ppl_link_mpi : &ppl_link_nccl;
    int32_t first = 0;
    for (int32_t i = 0; !r->world && i < s->ranks; i++) {
        int32_t unit;
        PPL_TRY(r->device->unit_of(&(ppl_device_options){.rank = i, .processes = 1, .seat = i}, &unit));
        if (i == 0) first = unit;
        if (unit != first) *out = &ppl_link_nccl;
    }
    return PPL_OK;
}

// What each process makes for itself: plans, weights.
static ppl_status engine_compile(ppl_run *r, const ppl_schedule *s, ppl_run_engine *e) {
    PPL_TRY(ppl_world_check_ranks(r->world, s->ranks));
    PPL_TRY(link_choose(r, s, &e->link));
    bool nccl = e->link == &ppl_link_nccl;
    ppl_plan_options options = {.copy_links = r->options.copy_links != 0 || nccl,
                                .receive_early = nccl,
                                .least_buffers = r->options.least_buffers != 0,
                                .streams = r->device->flags & PPL_DEVICE_ASYNC && e->link->streams ? 2 : 1,
                                .validate = r->options.optimizer.clip == PPL_CLIP_AFTER,
                                .processes = ppl_world_processes_of(r->world)};
    PPL_TRY(ppl_plan_build(s, r->stages, &options, &e->plan));
    options.forward_only = true;
    options.validate = false;
    PPL_TRY(ppl_plan_build(s, r->stages, &options, &e->eval_plan));
    PPL_TRY(store_build(r, e->plan, &e->store));
    for (size_t i = 0; i < r->graph->n_params; i++)
        PPL_TRY(ppl_store_keep(e->store, (int32_t)i, ppl_plan_param_versions(e->plan, (int32_t)i)));
    e->peak_live = ppl_alloc((size_t)e->plan->ranks * sizeof *e->peak_live);
    return e->peak_live ? PPL_OK : PPL_ERR_MEMORY;
}

ppl_status ppl_run_engine_build(ppl_run *r, const ppl_schedule *s, const ppl_store *from, ppl_run_engine *out) {
    ppl_run_engine e = {0};
    ppl_status st = engine_compile(r, s, &e);
    ppl_vote same = {.what = from ? "another schedule" : "the start of a run",
                     .key_words = "its plan, settings or data"};
    if (r->world && st == PPL_OK) st = ppl_run_key(r, &e, &same.key);
    same.status = st;
    PPL_GOTO(ppl_world_vote(r->world, &same));
    if (from) PPL_GOTO(ppl_store_take(e.store, from));
    PPL_GOTO(ppl_world_settle(r->world, "the start of ranks", exec_open(r, &e, &e.exec)));
    *out = e;
    return PPL_OK;
fail:
    ppl_run_engine_close(&e);
    return st;
}

ppl_status ppl_run_open(const ppl_run_options *options, ppl_graph *graph, const ppl_schedule *schedule, ppl_data *data,
                        ppl_run **out) {
    if (!options || !graph || !schedule || !data)
        return ppl_fail(PPL_ERR_ARG, "run: options, graph, schedule or data is missing, want all four");
    PPL_TRY(ppl_run_check_options(options, graph));
    PPL_TRY(ppl_run_check_schedule(options, schedule));
    PPL_TRY(ppl_graph_differentiate(graph));
    ppl_run *r = ppl_alloc(sizeof *r);
    if (!r) return PPL_ERR_MEMORY;
    pthread_mutex_init(&r->lock, NULL);
    ppl_status st;
    PPL_GOTO(run_init(r, options, graph, schedule, data));
    PPL_GOTO(match_inputs(r));
    PPL_GOTO(ppl_stages_build(graph, options->stages, r->options.first_layer, &r->stages));
    PPL_GOTO(ppl_run_engine_build(r, schedule, NULL, &r->engine));
    ppl_data_seek(data, 0);
    *out = r;
    return PPL_OK;
fail:
    ppl_run_close(r);
    return st;
}

void ppl_run_close(ppl_run *r) {
    if (!r) return;
    if (r->aside) (void)ppl_run_trial_end(r);
    ppl_run_engine_close(&r->engine);
    ppl_stages_free(r->stages);
    pthread_mutex_destroy(&r->lock);
    ppl_arena_clear(&r->arena);
    ppl_free(r);
}

ppl_status ppl_run_usable(const ppl_run *r) {
    if (r->failed == PPL_OK) return PPL_OK;
    return ppl_fail(r->failed, "run: it has failed and can be loaded or closed: %s", r->fault);
}

ppl_status ppl_run_fail(ppl_run *r, ppl_status status) {
    r->failed = status;
    snprintf(r->fault, sizeof r->fault, "%s", ppl_error());
    return status;
}

ppl_status ppl_run_fetch(const ppl_run *r) {
    return r->engine.exec ? ppl_exec_weights_fetch(r->engine.exec) : PPL_OK;
}

ppl_status ppl_run_restart(ppl_run *r) {
    ppl_exec_close(r->engine.exec);
    r->engine.exec = NULL;
    r->steps_here = 0;
    r->failed = PPL_OK;
    r->bad_step = -1;
    ppl_status st = ppl_world_settle(r->world, "the start of ranks", exec_open(r, &r->engine, &r->engine.exec));
    return st == PPL_OK ? PPL_OK : ppl_run_fail(r, st);
}

ppl_status ppl_run_tell(const ppl_run *r, const char *what, ppl_status status, void *data, size_t bytes) {
    PPL_TRY(ppl_world_settle(r->world, what, ppl_run_leads(r) ? status : PPL_OK));
    return ppl_world_share(r->world, 0, data, bytes);
}

// How many of the next n steps the data has, in every process; the error text says why not all.
static ppl_status steps_ready(const ppl_run *r, ppl_data *data, int64_t first, int64_t n, int64_t *ready) {
    *ready = 0;
    while (*ready < n && ppl_data_ready(data, first + *ready, r->options.samples) == PPL_OK) ++*ready;
    ppl_vote v = {.what = "data", .least = *ready};
    if (r->world) PPL_TRY(ppl_world_vote(r->world, &v));
    else v.least = *ready;
    *ready = v.least;
    return PPL_OK;
}

static ppl_status data_end(const ppl_run *r, ppl_data *data, int64_t step) {
    return ppl_world_settle(r->world, "the end of data", ppl_data_ready(data, step, r->options.samples));
}

// The steps just done, as process 0 has them.
static ppl_status records_share(ppl_run *r, int64_t done) {
    if (!r->world) return PPL_OK;
    PPL_TRY(ppl_world_share(r->world, 0, &r->bad_step, sizeof r->bad_step));
    PPL_TRY(ppl_world_share(r->world, 0, &r->bad_loss, sizeof r->bad_loss));
    for (int64_t step = r->step - done; step < r->step; step++) {
        PPL_TRY(ppl_world_share(r->world, 0, &r->row[step % r->rows], sizeof *r->row));
        if (!ppl_run_leads(r)) ppl_data_done(r->train.data, step);
    }
    return PPL_OK;
}

// Every process comes with the same n, and hears of an interrupt in any.
static ppl_status steps_meet(ppl_run *r, int64_t n) {
    bool interrupted = atomic_exchange(&r->interrupted, false);
    ppl_vote v = {.what = "steps", .key = (uint64_t)n, .key_words = "how many steps it asks for", .any = interrupted};
    PPL_TRY(ppl_world_vote(r->world, &v));
    return v.any ? ppl_fail(PPL_ERR_STOPPED, "run: interrupted") : PPL_OK;
}

ppl_status ppl_run_steps(ppl_run *r, int64_t n, int64_t *done) {
    *done = 0;
    int64_t ready = 0;
    if (n < 0) return ppl_fail(PPL_ERR_ARG, "run: %" PRId64 " steps, want 0 or more", n);
    PPL_TRY(ppl_run_usable(r));
    if (n == 0) return PPL_OK;
    PPL_TRY(steps_meet(r, n));
    PPL_TRY(steps_ready(r, r->train.data, r->step, n, &ready));
    if (ready == 0) return data_end(r, r->train.data, r->step);
    ppl_status st = ppl_exec_steps(r->engine.exec, r->step, ready, done);
    r->step += *done;
    r->steps_here += *done;
    if (st == PPL_OK || st == PPL_ERR_STOPPED) PPL_TRY(records_share(r, *done));
    else if (r->world && r->world->lost == PPL_OK) records_share(r, *done);      // the words of `st` stay
    if (r->world && st == PPL_ERR_STOPPED) atomic_store(&r->interrupted, false); // else it counts for the next call
    if (r->bad_step >= 0)
        st = ppl_fail(PPL_ERR_NUMBER, "step %" PRId64 ": the loss is %g, want a finite number", r->bad_step,
                      ppl_number_plain(r->bad_loss));
    if (st != PPL_OK && st != PPL_ERR_STOPPED) return ppl_run_fail(r, st);
    if (!r->world && atomic_exchange(&r->interrupted, false)) return ppl_fail(PPL_ERR_STOPPED, "run: interrupted");
    PPL_TRY(st);
    return ready < n ? data_end(r, r->train.data, r->step) : PPL_OK;
}

void ppl_run_interrupt(ppl_run *r) {
    atomic_store(&r->interrupted, true);
}

void ppl_run_time(ppl_run *r, int32_t on) {
    if (r->engine.exec) ppl_exec_time(r->engine.exec, on != 0); // none after a failure
}

// Forward steps first .. first + n - 1 of the evaluation's data; adds to sum and weight.
static ppl_status evaluate_chunk(ppl_run *r, int64_t first, int64_t n, double *sum, double *weight) {
    int64_t ready = 0;
    PPL_TRY(steps_meet(r, n));
    PPL_TRY(steps_ready(r, r->eval.data, first, n, &ready));
    if (ready < n) {
        data_end(r, r->eval.data, first + ready);
        return ppl_prefix(PPL_ERR_DATA, "evaluation of %" PRId64 " steps: ", first + n);
    }
    ppl_status st = ppl_exec_forward(r->engine.exec, first, n);
    if (st != PPL_OK) return ppl_run_fail(r, st);
    for (int64_t step = first; step < first + n; step++) {
        double w = 0;
        PPL_TRY(ppl_data_weight(r->eval.data, step, r->options.samples, &w));
        *sum += ppl_run_loss_sum(r, step);
        *weight += w;
        ppl_data_done(r->eval.data, step);
    }
    return PPL_OK;
}

ppl_status ppl_run_evaluate(ppl_run *r, ppl_data *data, int64_t steps, double *loss) {
    if (!data) return ppl_fail(PPL_ERR_ARG, "run: evaluation without data");
    if (steps < 1) return ppl_fail(PPL_ERR_ARG, "run: evaluation of %" PRId64 " steps, want 1 at least", steps);
    PPL_TRY(ppl_run_usable(r));
    r->eval.data = data;
    PPL_TRY(ppl_run_match(r, data, r->eval.input));
    double sum = 0, weight = 0;
    ppl_status st = PPL_OK;
    r->source = &r->eval;
    ppl_data_seek(data, 0);
    for (int64_t at = 0; at < steps && st == PPL_OK; at += EVAL_CHUNK)
        st = evaluate_chunk(r, at, steps - at < EVAL_CHUNK ? steps - at : EVAL_CHUNK, &sum, &weight);
    r->source = &r->train;
    ppl_data_seek(r->train.data, r->step); // it may have been the same queue
    PPL_TRY(st);
    *loss = sum / weight;
    if (r->world) PPL_TRY(ppl_run_tell(r, "evaluation", PPL_OK, loss, sizeof *loss));
    if (isfinite(*loss)) return PPL_OK;
    return ppl_fail(PPL_ERR_NUMBER, "run: the evaluation's loss is %g, want a finite number", ppl_number_plain(*loss));
}

ppl_status ppl_run_fits(const ppl_run *r, const ppl_schedule *schedule) {
    if (!schedule) return ppl_fail(PPL_ERR_ARG, "run: no schedule");
    PPL_TRY(ppl_run_usable(r));
    PPL_TRY(ppl_run_check_schedule(&r->options, schedule));
    if (schedule->microbatches == r->microbatches) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "run: schedule %s has %d microbatches, the model's inputs are made for %d",
                    schedule->name, schedule->microbatches, r->microbatches);
}

ppl_status ppl_run_use_schedule(ppl_run *r, const ppl_schedule *schedule) {
    PPL_TRY(ppl_run_fits(r, schedule));
    ppl_run_engine next;
    PPL_TRY(ppl_run_fetch(r));
    PPL_TRY(ppl_run_engine_build(r, schedule, r->engine.store, &next)); // a failure leaves the old one as it is
    ppl_run_engine_close(&r->engine);
    r->engine = next;
    r->steps_here = 0;
    return PPL_OK;
}

int64_t ppl_run_step(const ppl_run *r) {
    return r->step;
}

ppl_status ppl_run_simulate(ppl_run *r, const ppl_costs *costs, int32_t steps, ppl_sim_result *out) {
    return ppl_plan_simulate(r->engine.plan, costs, steps, out);
}

const ppl_plan *ppl_run_plan(const ppl_run *r) {
    return r->engine.plan;
}
