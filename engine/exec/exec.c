// exec.c - the executor's handle: opens the ranks' threads, hands them commands, answers between steps. Before: a plan, a
// store and a client from the trainer. After: rank.c on each thread.
#include "exec/rank.h"
#include <stdio.h>

// ---- the thread of a rank ----

static ppl_status bind_all(ppl_rank *r) {
    for (int32_t side = 0; side < PPL_SIDES; side++) PPL_TRY(ppl_rank_bind(r, side));
    PPL_TRY(ppl_rank_params_setup(r));
    PPL_TRY(ppl_ahead_open(r));
    PPL_TRY(ppl_labels_open(r));
    PPL_TRY(ppl_rank_warm(r));
    return ppl_rank_weights(r);
}

static ppl_status command_run(ppl_rank *r, ppl_command command) {
    switch (command) {
    case PPL_COMMAND_SETUP: return ppl_rank_setup(r);
    case PPL_COMMAND_MEMORY: return ppl_rank_memory(r);
    case PPL_COMMAND_BIND: return bind_all(r);
    case PPL_COMMAND_STEPS: return ppl_rank_steps(r);
    case PPL_COMMAND_WEIGHTS: return ppl_rank_weights(r);
    case PPL_COMMAND_FETCH: return ppl_mirror_fetch(r);
    case PPL_COMMAND_CLOSE: ppl_rank_clear(r); return PPL_OK;
    }
    return PPL_OK;
}

static void *rank_main(void *arg) {
    ppl_rank *r = arg;
    ppl_exec *e = r->exec;
    enum { SLEEP_NS = 1000000000 };
    for (unsigned done = 0;;) {
        unsigned seen = ppl_rank_heard(r);
        unsigned orders = atomic_load(&e->orders);
        if (orders == done) {
            ppl_bell_sleep(&r->bell, seen, SLEEP_NS);
            continue;
        }
        done = orders;
        ppl_command command = (ppl_command)atomic_load(&e->command);
        ppl_status st = command_run(r, command);
        if (st != PPL_OK) ppl_exec_fault(e, st);
        if (atomic_fetch_sub(&e->running, 1) == 1) ppl_bell_ring(&e->caller);
        if (command == PPL_COMMAND_CLOSE) return NULL;
    }
}

// ---- open and close ----

static ppl_status check_eval(const ppl_plan *plan, const ppl_plan *eval) {
    if (!eval) return PPL_OK;
    if (!eval->options.forward_only || eval->stages != plan->stages || eval->ranks != plan->ranks) {
        return ppl_fail(PPL_ERR_ARG,
                        "exec: the evaluation plan is %s, of %d ranks, want a forward-only plan of the same "
                        "stages and %d ranks",
                        eval->options.forward_only ? "forward-only" : "a training plan", eval->ranks, plan->ranks);
    }
    for (int32_t s = 0; s < plan->stages->count; s++) {
        if (eval->stage_rank[s] == plan->stage_rank[s]) continue;
        return ppl_fail(PPL_ERR_ARG, "exec: the evaluation plan has stage %d on rank %d, want it on rank %d", s,
                        eval->stage_rank[s], plan->stage_rank[s]);
    }
    return PPL_OK;
}

// A rank that may be a step ahead never waits for the norm of all.
static ppl_status check_flow(const ppl_plan *plan, int32_t clip) {
    if (!ppl_plan_flows(plan) || clip == PPL_CLIP_NONE || clip == PPL_CLIP_STAGE) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "exec: clip is %s with weights \"%s\", want stage or none",
                    clip == PPL_CLIP_BEFORE ? "before" : "after", ppl_weights_name(plan->weights));
}

static ppl_status check(const ppl_plan *plan, const ppl_store *store, const ppl_exec_options *o,
                        const ppl_exec_client *client) {
    bool apart = o->world && o->link != &ppl_link_nccl;
    if (!(o->device->flags & PPL_DEVICE_HOST) && (apart || !plan->stages->graph)) {
        return ppl_fail(
            PPL_ERR_DEVICE,
            "exec: device %s has memory of its own, want links between processes that reach it, and a graph",
            o->device->name);
    }
    if (plan->stages->graph && (!store || store->ranks != plan->ranks)) {
        return ppl_fail(PPL_ERR_ARG, "exec: the store is for %d ranks, want %d", store ? store->ranks : 0, plan->ranks);
    }
    PPL_TRY(check_flow(plan, client->optimizer.clip));
    if (!plan->options.forward_only && plan->options.validate != (client->optimizer.clip == PPL_CLIP_AFTER)) {
        return ppl_fail(PPL_ERR_ARG, "exec: the plan %s validate tasks, want them exactly when clip is after",
                        plan->options.validate ? "has" : "lacks");
    }
    return check_eval(plan, o->eval_plan);
}

// The tables of pointers that the ranks fill in.
static ppl_status side_make(ppl_exec *e, ppl_side *side, const ppl_plan *plan) {
    if (!plan) return PPL_OK;
    size_t edges = (size_t)plan->stages->n_edges;
    side->memory = ppl_arena_get(&e->arena, edges * sizeof *side->memory);
    side->reader_memory = ppl_arena_get(&e->arena, edges * sizeof *side->reader_memory);
    if (!side->memory || !side->reader_memory) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < edges; i++) {
        side->reader_memory[i] = ppl_arena_get(&e->arena, (size_t)plan->edge[i].n_readers * sizeof(void *));
        if (!side->reader_memory[i]) return PPL_ERR_MEMORY;
    }
    side->plan = plan;
    return PPL_OK;
}

static ppl_status tables_make(ppl_exec *e) {
    const ppl_graph *g = e->plan->stages->graph;
    PPL_TRY(side_make(e, &e->side[PPL_SIDE_TRAIN], e->plan));
    PPL_TRY(side_make(e, &e->side[PPL_SIDE_FORWARD], e->options.eval_plan));
    for (int32_t i = 0; i < PPL_EXEC_AHEAD; i++) {
        e->board[i].sums = ppl_arena_get(&e->arena, (g ? g->n_params : 0) * sizeof(double));
        if (!e->board[i].sums) return PPL_ERR_MEMORY;
    }
    e->rank = ppl_arena_get(&e->arena, (size_t)e->plan->ranks * sizeof *e->rank);
    e->bells = ppl_arena_get(&e->arena, (size_t)e->plan->ranks * sizeof *e->bells);
    if (!e->rank || !e->bells) return PPL_ERR_MEMORY;
    enum { SPIN_NS = 100000 };
    int32_t threads = e->options.device_options.threads > 1 ? e->options.device_options.threads : 1;
    for (int32_t i = 0; i < e->plan->ranks; i++) {
        ppl_rank *r = &e->rank[i];
        e->bells[i] = &r->bell;
        r->exec = e;
        r->rank = i;
        r->unvalidated = -1;
        r->spin_ns = e->plan->ranks * threads <= ppl_cpu_cores() ? SPIN_NS : 0; // of several processes all may be here
    }
    PPL_TRY(ppl_peers_open(e));
    return ppl_trace_build(e->plan, e->options.trace_steps, &e->trace);
}

static ppl_status threads_start(ppl_exec *e) {
    for (int32_t i = e->first; i < e->end; i++) {
        int error = pthread_create(&e->rank[i].thread, NULL, rank_main, &e->rank[i]);
        if (error) {
            return ppl_fail(PPL_ERR_MEMORY, "exec: rank %d: its thread cannot be started: %s", i, strerror(error));
        }
        e->rank[i].started = true;
    }
    return PPL_OK;
}

static ppl_status links_open(ppl_exec *e) {
    bool computes = e->options.device->flags & PPL_DEVICE_COMPUTES;
    if (e->options.device->flags & PPL_DEVICE_ASYNC) {
        e->devices = ppl_arena_get(&e->arena, (size_t)e->plan->ranks * sizeof *e->devices);
        if (!e->devices) return PPL_ERR_MEMORY;
        for (int32_t i = 0; i < e->plan->ranks; i++) e->devices[i] = e->rank[i].device;
    }
    for (int32_t i = 0; i < PPL_SIDES; i++) {
        ppl_side *s = &e->side[i];
        if (!s->plan) continue;
        ppl_link_options o = {.copies = s->plan->options.copy_links,
                              .bells = e->bells,
                              .delay_seed = e->options.delay_seed,
                              .delay = e->options.delay,
                              .costs = computes ? NULL : e->options.device_options.costs,
                              .world = e->options.world,
                              .device = e->options.device,
                              .devices = e->devices,
                              .sum_from = e->joint && i == PPL_SIDE_TRAIN ? e->joint->from : NULL,
                              .sum_to = e->joint && i == PPL_SIDE_TRAIN ? e->joint->to : NULL,
                              .sums = e->joint ? e->joint->sums : 0,
                              .stop = &e->stop,
                              .seconds = e->options.stall_seconds};
        PPL_TRY(e->options.link->open(s->plan, &o, s->memory, (void *const *const *)s->reader_memory, &s->link));
    }
    return PPL_OK;
}

ppl_status ppl_exec_open(const ppl_plan *plan, struct ppl_store *store, const ppl_exec_options *options,
                         const ppl_exec_client *client, ppl_exec **out) {
    PPL_TRY(check(plan, store, options, client));
    ppl_exec *e = ppl_alloc(sizeof *e);
    if (!e) return PPL_ERR_MEMORY;
    e->plan = plan;
    e->store = store;
    e->options = *options;
    e->client = *client;
    pthread_mutex_init(&e->mutex, NULL);
    ppl_status st;
    PPL_GOTO(tables_make(e));
    PPL_GOTO(threads_start(e));
    PPL_GOTO(ppl_exec_command(e, PPL_COMMAND_SETUP));
    PPL_GOTO(ppl_exec_room(e));
    PPL_GOTO(ppl_exec_command(e, PPL_COMMAND_MEMORY));
    PPL_GOTO(ppl_joint_open(e));
    PPL_GOTO(links_open(e));
    PPL_GOTO(ppl_exec_command(e, PPL_COMMAND_BIND));
    PPL_GOTO(ppl_exec_activity_open(e));
    *out = e;
    return PPL_OK;
fail:
    ppl_exec_close(e);
    return st;
}

static void links_close(ppl_exec *e) {
    for (int32_t i = 0; i < PPL_SIDES; i++) {
        if (e->side[i].link) e->options.link->close(e->side[i].link);
        e->side[i].link = NULL;
    }
}

void ppl_exec_close(ppl_exec *e) {
    if (!e) return;
    if (e->devices)
        links_close(e); // their events are of devices that close now, and what is underway may wait for ever
    if (e->rank) {
        ppl_joint_close(e);
        ppl_exec_command(e, PPL_COMMAND_CLOSE);
        for (int32_t i = 0; i < e->plan->ranks; i++)
            if (e->rank[i].started) pthread_join(e->rank[i].thread, NULL);
    }
    ppl_exec_activity_close(e);
    ppl_peers_close(e);
    links_close(e);
    ppl_trace_free(e->trace);
    pthread_mutex_destroy(&e->mutex);
    ppl_arena_clear(&e->arena);
    ppl_free(e);
}

// ---- steps ----

// How long others may take to end after a fault: a task may be a long one.
enum { FAULT_SECONDS = 60 };

// All processes end a range alike: with the same steps done, and the same fault if there is one.
static void range_settle(ppl_exec *e, ppl_vote *end) {
    char text[sizeof e->fault_text] = "";
    ppl_status own = end->status;
    if (own != PPL_OK) snprintf(text, sizeof text, "%s", ppl_error());
    end->seconds = own == PPL_OK ? 0 : FAULT_SECONDS;
    if (ppl_world_vote(e->peers.world, end) == PPL_OK) return;
    if (own != PPL_OK && e->peers.world->lost != PPL_OK) end->status = ppl_fail_text(own, text); // it began with this
    e->fault = end->status;
    snprintf(e->fault_text, sizeof e->fault_text, "%s", ppl_error());
}

static ppl_status range_run(ppl_exec *e, int32_t kind, int64_t first, int64_t n, int64_t *done) {
    ppl_side *side = &e->side[kind];
    *done = 0;
    if (e->fault != PPL_OK) return ppl_fail_text(e->fault, e->fault_text);
    if (n < 0 || first < 0 || !side->plan) {
        return ppl_fail(PPL_ERR_ARG, "exec: steps %lld..%lld of a %s plan, want steps from 0 on and a plan",
                        (long long)first, (long long)(first + n - 1), kind == PPL_SIDE_TRAIN ? "training" : "forward");
    }
    for (int32_t i = 0; i < e->plan->ranks; i++) {
        atomic_store(&e->rank[i].completed, side->ticks);
        atomic_store(&e->rank[i].step, first);
        atomic_store(&e->rank[i].tick, side->ticks);
        atomic_store(&e->rank[i].at, 0);
    }
    e->range_side = kind;
    e->range_first = first;
    e->range_n = n;
    e->range_updates = e->store ? e->store->updates : 0;
    ppl_gate_open(e, side->ticks);
    PPL_TRY(ppl_peers_begin(e));
    ppl_status st = ppl_exec_command(e, PPL_COMMAND_STEPS);
    int64_t least = side->ticks + n;
    for (int32_t i = ppl_exec_leads(e) ? 0 : e->first; i < (ppl_exec_leads(e) ? e->plan->ranks : e->end); i++) {
        int64_t completed = atomic_load(&e->rank[i].completed);
        if (completed < least) least = completed;
    }
    ppl_vote end = {.what = "the end of steps", .status = st, .any = ppl_gate_close(e), .least = least};
    if (e->peers.world) range_settle(e, &end);
    *done = end.least - side->ticks;
    if (kind == PPL_SIDE_TRAIN && n > 0) e->stale = !(e->options.device->flags & PPL_DEVICE_HOST);
    if (kind == PPL_SIDE_TRAIN && e->store) e->store->updates += *done * ppl_exec_updates(e);
    side->ticks = end.least;
    if (end.status == PPL_OK && end.any)
        return ppl_fail(PPL_ERR_STOPPED, "run: interrupted after %lld of %lld steps", (long long)*done, (long long)n);
    return end.status;
}

ppl_status ppl_exec_steps(ppl_exec *e, int64_t first, int64_t n, int64_t *done) {
    ppl_exec_activity_begin(e);
    ppl_status st = range_run(e, PPL_SIDE_TRAIN, first, n, done);
    if (st == PPL_OK || st == PPL_ERR_STOPPED) ppl_exec_activity_end(e); // else the GPU may be lost
    return st;
}

ppl_status ppl_exec_forward(ppl_exec *e, int64_t first, int64_t n) {
    int64_t done;
    return range_run(e, PPL_SIDE_FORWARD, first, n, &done);
}

// ---- between steps ----

ppl_trace *ppl_exec_trace(ppl_exec *e) {
    return e->trace;
}

void ppl_exec_time(ppl_exec *e, bool on) {
    e->untimed = !on;
}

ppl_status ppl_exec_weights_changed(ppl_exec *e) {
    if (e->fault != PPL_OK) return ppl_fail_text(e->fault, e->fault_text);
    e->stale = false;
    return ppl_exec_command(e, PPL_COMMAND_WEIGHTS);
}

ppl_status ppl_exec_weights_fetch(ppl_exec *e) {
    if (!e->stale) return PPL_OK;
    if (e->fault != PPL_OK) return ppl_fail_text(e->fault, e->fault_text);
    PPL_TRY(ppl_exec_command(e, PPL_COMMAND_FETCH));
    e->stale = false;
    return PPL_OK;
}

static int64_t links_bytes(const ppl_exec *e, int32_t rank) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < PPL_SIDES; i++)
        if (e->side[i].link) bytes += e->options.link->bytes(e->side[i].link, rank);
    return bytes;
}

int64_t ppl_exec_memory(const ppl_exec *e, int32_t rank, int32_t kind) {
    const ppl_rank *r = &e->rank[rank];
    if (kind == PPL_MEM_PARAMETERS || kind == PPL_MEM_OPTIMIZER)
        return e->store ? ppl_store_bytes(e->store, rank, kind) : 0;
    if (kind == PPL_MEM_EDGES) return r->bytes[kind] + links_bytes(e, rank);
    if (kind != PPL_MEM_OTHER) return r->bytes[kind];
    int64_t tasks = e->plan->rank[rank].count;
    return r->bytes[kind] + (int64_t)r->arena.total + tasks * (int64_t)sizeof(ppl_task) +
           tasks * e->trace->rows * (int64_t)sizeof(ppl_span);
}

static ppl_status gradient_read(const ppl_rank *r, const ppl_rank_param *p, double *out) {
    const ppl_device_ops *device = r->exec->options.device;
    size_t bytes = (size_t)p->update.n * ppl_dtype_size(p->update.dtype);
    void *scratch = device->flags & PPL_DEVICE_HOST ? NULL : ppl_alloc(bytes);
    if (!(device->flags & PPL_DEVICE_HOST) && !scratch) return PPL_ERR_MEMORY;
    ppl_status st = PPL_OK;
    for (int64_t n = 0; n < p->update.n; n++) out[n] = 0;
    for (int32_t use = 0; use < p->update.uses && st == PPL_OK; use++) {
        const void *from = scratch ? scratch : p->grads[use];
        if (scratch) st = device->copy_out(r->device, scratch, p->grads[use], bytes, 0);
        for (int64_t n = 0; n < p->update.n && st == PPL_OK; n++) out[n] += ppl_number_get(from, p->update.dtype, n);
    }
    ppl_free(scratch);
    return st;
}

ppl_status ppl_exec_gradient(const ppl_exec *e, int32_t param, double *out) {
    for (int32_t i = 0; i < e->plan->ranks; i++) {
        for (int32_t k = 0; k < e->rank[i].n_params; k++) {
            const ppl_rank_param *p = &e->rank[i].params[k];
            if (p->param != param || !p->counts) continue;
            return gradient_read(&e->rank[i], p, out);
        }
    }
    return ppl_fail(PPL_ERR_ARG, "exec: parameter %d has no gradient, want one that is trained", param);
}
