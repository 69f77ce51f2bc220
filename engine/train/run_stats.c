// run_stats.c - what came of a run's steps: records, and what the trace says of stages, ranks and edges. Before:
// run_client.c and trace.h. After: a script's tables.
#include "train/run.h"
#include <inttypes.h>

ppl_status ppl_run_record(const ppl_run *r, int64_t step, ppl_step_record *out) {
    int64_t oldest = r->step - (r->rows - PPL_RUN_FLIGHT);
    if (step >= oldest && step >= 0 && step < r->step && r->row[step % r->rows].record.step == step) {
        *out = r->row[step % r->rows].record;
        return PPL_OK;
    }
    return ppl_fail(PPL_ERR_ARG, "run: step %" PRId64 " has no record, want one of the newest %d before step %" PRId64,
                    step, r->rows - PPL_RUN_FLIGHT, r->step);
}

static ppl_status exec_check(const ppl_run *r) {
    return r->engine.exec ? PPL_OK : ppl_run_usable(r);
}

// Numbers of the parameters whose first use is in this stage: over all stages each counts once.
static int64_t parameters_of(const ppl_run *r, int32_t stage) {
    int64_t n = 0;
    for (int32_t i = 0; i < r->stages->stage[stage].n_params; i++) {
        ppl_param_info info;
        int32_t param = r->stages->stage[stage].params[i];
        if (ppl_run_parameter(r, param, &info) == PPL_OK && info.first_stage == stage)
            n += ppl_type_elements(&info.type);
    }
    return n;
}

ppl_status ppl_run_stage_stats(const ppl_run *r, int32_t stage, ppl_stage_stats *out) {
    PPL_TRY(exec_check(r));
    if (stage < 0 || stage >= r->stages->count)
        return ppl_fail(PPL_ERR_ARG, "run: stage %d, want 0 to %d", stage, r->stages->count - 1);
    const ppl_stage *s = &r->stages->stage[stage];
    const ppl_trace *t = ppl_exec_trace(r->engine.exec);
    double p95;
    int64_t samples;
    *out = (ppl_stage_stats){.stage = stage,
                             .rank = r->engine.plan->stage_rank[stage],
                             .first_layer = s->first_layer,
                             .layers = s->layers,
                             .parameters = parameters_of(r, stage),
                             .flops_f = s->flops[PPL_PHASE_F],
                             .flops_b = s->flops[PPL_PHASE_I] + s->flops[PPL_PHASE_W],
                             .activation_bytes = (int64_t)r->engine.plan->layout[stage].slot_bytes};
    ppl_trace_stage_stats(t, stage, PPL_PHASE_F, &out->f_median, &out->f_p95, &out->samples);
    ppl_trace_stage_stats(t, stage, PPL_PHASE_I, &out->i_median, &out->i_p95, &samples);
    ppl_trace_stage_stats(t, stage, PPL_PHASE_W, &out->w_median, &out->w_p95, &samples);
    ppl_trace_stage_stats(t, stage, PPL_PHASES, &out->u_median, &p95, &samples);
    return ppl_run_tell(r, "times of a stage", PPL_OK, out, sizeof *out); // process 0 has all spans
}

ppl_status ppl_run_rank_stats(const ppl_run *r, int32_t rank, ppl_rank_stats *out) {
    PPL_TRY(exec_check(r));
    if (rank < 0 || rank >= r->engine.plan->ranks)
        return ppl_fail(PPL_ERR_ARG, "run: rank %d, want 0 to %d", rank, r->engine.plan->ranks - 1);
    ppl_trace_rank t;
    ppl_trace_rank_stats(ppl_exec_trace(r->engine.exec), rank, &t);
    *out = (ppl_rank_stats){.rank = rank,
                            .peak_live = r->engine.peak_live[rank],
                            .planned_live = r->engine.plan->rank[rank].peak_live,
                            .waits_for = t.waits_for,
                            .busy = t.busy,
                            .wait = t.wait,
                            .span_idle = t.span_idle,
                            .iteration = t.iteration};
    PPL_TRY(ppl_run_tell(r, "times of a rank", PPL_OK, out, sizeof *out));
    for (int32_t kind = 0; kind < PPL_MEMORIES; kind++) out->memory[kind] = ppl_exec_memory(r->engine.exec, rank, kind);
    return ppl_world_share(r->world, ppl_plan_process(r->engine.plan, rank), out->memory, sizeof out->memory);
}

ppl_status ppl_run_gpu_activity(const ppl_run *r, int32_t rank, ppl_gpu_activity *out) {
    PPL_TRY(exec_check(r));
    if (rank < 0 || rank >= r->engine.plan->ranks)
        return ppl_fail(PPL_ERR_ARG, "run: rank %d, want 0 to %d", rank, r->engine.plan->ranks - 1);
    int32_t owner = ppl_plan_process(r->engine.plan, rank);
    *out = (ppl_gpu_activity){.gpu = -1};
    if (ppl_world_process_of(r->world) == owner) ppl_exec_gpu_activity(r->engine.exec, rank, out);
    return ppl_world_share(r->world, owner, out, sizeof *out);
}

ppl_status ppl_run_edge_stats(const ppl_run *r, ppl_edge_stats *out, int32_t max, int32_t *count) {
    PPL_TRY(exec_check(r));
    const ppl_plan *p = r->engine.plan;
    const ppl_trace *t = ppl_exec_trace(r->engine.exec);
    int32_t n = 0;
    for (int32_t i = 0; i < r->stages->n_edges; i++) {
        const ppl_edge *e = &r->stages->edges[i];
        for (int32_t k = 0; k < e->n_readers; k++, n++) {
            if (n >= max) continue;
            out[n] = (ppl_edge_stats){.edge = i,
                                      .src_stage = e->src,
                                      .dst_stage = e->readers[k].stage,
                                      .src_rank = ppl_plan_edge_rank(p, i),
                                      .dst_rank = p->edge[i].reader_rank[k],
                                      .kind = e->kind,
                                      .buffers = p->edge[i].buffers,
                                      .bytes = (int64_t)e->bytes,
                                      .median = ppl_trace_edge_median(t, i, k)};
        }
    }
    *count = n;
    return ppl_run_tell(r, "times of links", PPL_OK, out, (size_t)(n < max ? n : max) * sizeof *out);
}

ppl_status ppl_run_events(const ppl_run *r, int64_t step, ppl_event *events, int64_t max, int64_t *count) {
    PPL_TRY(exec_check(r));
    ppl_status st =
        ppl_run_leads(r) ? ppl_trace_events(ppl_exec_trace(r->engine.exec), step, events, max, count) : PPL_OK;
    PPL_TRY(ppl_run_tell(r, "events", st, count, sizeof *count));
    return ppl_world_share(r->world, 0, events, (size_t)(*count < max ? *count : max) * sizeof *events);
}

ppl_status ppl_run_write_trace(const ppl_run *r, const char *path) {
    PPL_TRY(exec_check(r));
    ppl_status st = ppl_run_leads(r) ? ppl_trace_write(ppl_exec_trace(r->engine.exec), path) : PPL_OK;
    return ppl_world_settle(r->world, "the trace", st);
}
