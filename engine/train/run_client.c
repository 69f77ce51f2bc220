// run_client.c - the run's side of the executor: samples and weights out, losses and norms in, and the record of a step
// once its last rank is done. All calls come from rank threads. Before: exec's task loop. After: run_stats.c reads records.
#include "train/optimizer.h"
#include "train/run.h"
#include <math.h>

static ppl_status client_fill(void *self, int64_t step, int32_t microbatch, ppl_value input, void *dst) {
    ppl_run *r = self;
    return ppl_data_read_as(r->source->data, step, microbatch * r->samples_per_microbatch, r->samples_per_microbatch,
                            r->options.samples, r->source->input[input], r->graph->values[input].type.dtype, dst);
}

// The step's row, under the lock; the first who asks sets it up.
static ppl_run_row *row_of(ppl_run *r, int64_t step) {
    ppl_run_row *row = &r->row[step % r->rows];
    if (row->record.step == step) return row;
    int32_t present = 0;
    double weight = 0; // both were had when the step was handed over: these cannot fail
    if (ppl_data_present(r->train.data, step, r->options.samples, &present) != PPL_OK ||
        ppl_data_weight(r->train.data, step, r->options.samples, &weight) != PPL_OK)
        present = 0;
    *row = (ppl_run_row){.record = {.step = step,
                                    .loss = NAN,
                                    .lr = ppl_lr(&r->options.optimizer, step),
                                    .grad_norm = NAN,
                                    .weight = weight,
                                    .tokens = r->token_elements * present,
                                    .bubble_ratio = NAN}};
    return row;
}

static double client_weight(void *self, int64_t step) {
    ppl_run *r = self;
    double weight = 0;
    if (ppl_data_weight(r->source->data, step, r->options.samples, &weight) != PPL_OK) return NAN; // seen beforehand
    return weight;
}

static void client_loss(void *self, int64_t step, int32_t microbatch, double sum) {
    ppl_run *r = self; // no lock: one rank has the loss, and each microbatch its place
    r->loss[(step % PPL_RUN_FLIGHT) * r->microbatches + microbatch] = sum;
}

double ppl_run_loss_sum(const ppl_run *r, int64_t step) {
    double sum = 0;
    const double *loss = &r->loss[(step % PPL_RUN_FLIGHT) * r->microbatches];
    for (int32_t i = 0; i < r->microbatches; i++) sum += loss[i];
    return sum;
}

static void client_norm(void *self, int64_t step, double norm, bool clipped) {
    ppl_run *r = self;
    pthread_mutex_lock(&r->lock);
    ppl_run_row *row = row_of(r, step);
    row->record.grad_norm = norm;
    row->record.clipped = clipped;
    pthread_mutex_unlock(&r->lock);
}

// The record of a step that all ranks have done, under the lock.
static void row_finish(ppl_run *r, ppl_run_row *row) {
    ppl_step_record *s = &row->record;
    s->end = (double)(row->end - r->origin) * 1e-9;
    s->begin = s->end - ppl_trace_iteration(ppl_exec_trace(r->engine.exec), s->step);
    s->bubble_ratio = ppl_trace_bubble(ppl_exec_trace(r->engine.exec), s->step);
    s->loss = ppl_run_loss_sum(r, s->step) / s->weight;
    ppl_data_done(r->train.data, s->step);
    if (isfinite(s->loss) || r->bad_step >= 0) return;
    r->bad_step = s->step;
    r->bad_loss = s->loss;
    ppl_exec_interrupt(r->engine.exec); // no use in going on
}

static void client_rank_done(void *self, int32_t rank, int64_t step, int32_t peak_live, int64_t link_bytes) {
    ppl_run *r = self;
    if (!ppl_run_leads(r)) { // process 0 has the records
        if (atomic_load(&r->interrupted)) ppl_exec_interrupt(r->engine.exec);
        return;
    }
    const ppl_plan *plan = r->engine.plan;
    const ppl_span *span = ppl_trace_row(ppl_exec_trace(r->engine.exec), rank, step);
    int64_t tasks = plan->rank[rank].count;
    pthread_mutex_lock(&r->lock);
    ppl_run_row *row = row_of(r, step);
    if (tasks && span[tasks - 1].end > row->end) row->end = span[tasks - 1].end;
    row->record.link_bytes += link_bytes;
    if (peak_live > row->record.peak_live) row->record.peak_live = peak_live;
    if (peak_live > r->engine.peak_live[rank]) r->engine.peak_live[rank] = peak_live;
    if (++row->ranks_done == plan->ranks) row_finish(r, row);
    if (atomic_load(&r->interrupted)) ppl_exec_interrupt(r->engine.exec);
    pthread_mutex_unlock(&r->lock);
}

ppl_exec_client ppl_run_client(ppl_run *r) {
    return (ppl_exec_client){.self = r,
                             .fill = client_fill,
                             .step_weight = client_weight,
                             .loss = client_loss,
                             .norm = client_norm,
                             .rank_done = client_rank_done,
                             .optimizer = r->options.optimizer};
}
