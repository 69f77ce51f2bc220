// run_params.c - a run's parameters: listed, read, written, saved, loaded. Before: run.c, between steps. After: scripts,
// checkpoint files.
#include "train/run.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

int32_t ppl_run_parameters(const ppl_run *r) {
    return (int32_t)r->graph->n_params;
}

static ppl_status index_check(const ppl_run *r, int32_t index) {
    if (index >= 0 && (size_t)index < r->graph->n_params) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "run: parameter %d, want 0 to %zu", index, r->graph->n_params - 1);
}

static bool stage_uses(const ppl_stage *s, int32_t param) {
    for (int32_t i = 0; i < s->n_params; i++)
        if (s->params[i] == param) return true;
    return false;
}

ppl_status ppl_run_parameter(const ppl_run *r, int32_t index, ppl_param_info *out) {
    PPL_TRY(index_check(r, index));
    const ppl_param *p = &r->graph->params[index];
    *out = (ppl_param_info){.type = p->type, .first_stage = -1, .last_stage = -1, .frozen = p->spec.frozen};
    snprintf(out->name, sizeof out->name, "%s", p->name);
    for (int32_t s = 0; s < r->stages->count; s++) {
        if (!stage_uses(&r->stages->stage[s], index)) continue;
        if (out->first_stage < 0) out->first_stage = s;
        out->last_stage = s;
    }
    return PPL_OK;
}

static ppl_status gradient_check(const ppl_run *r, int32_t index) {
    const ppl_param *p = &r->graph->params[index];
    if (p->spec.frozen || p->n_uses == 0)
        return ppl_fail(PPL_ERR_ARG, "run: parameter '%s' has no gradient, it is %s", p->name,
                        p->spec.frozen ? "frozen" : "used nowhere");
    if (!r->engine.exec || r->steps_here == 0)
        return ppl_fail(PPL_ERR_ARG, "run: parameter '%s' has no gradient before the first step", p->name);
    return PPL_OK;
}

// The process that can read a part: its gradient where its first stage is, else where it is kept.
static int32_t reader_of(const ppl_run *r, int32_t index, int32_t part) {
    ppl_param_info info;
    if (part == PPL_PART_GRADIENT && ppl_run_parameter(r, index, &info) == PPL_OK && info.first_stage >= 0)
        return ppl_plan_process(r->engine.plan, r->engine.plan->stage_rank[info.first_stage]);
    return ppl_store_owner(r->engine.store, index);
}

ppl_status ppl_run_read(const ppl_run *r, int32_t index, int32_t part, double *data) {
    PPL_TRY(index_check(r, index));
    if (part == PPL_PART_GRADIENT) PPL_TRY(gradient_check(r, index));
    int32_t reader = reader_of(r, index, part);
    ppl_status st = PPL_OK;
    if (part != PPL_PART_GRADIENT) st = ppl_run_fetch(r);
    if (st == PPL_OK && ppl_world_process_of(r->world) == reader)
        st = part == PPL_PART_GRADIENT ? ppl_exec_gradient(r->engine.exec, index, data)
                                       : ppl_store_read(r->engine.store, index, part, data);
    ppl_vote same = {.what = "a parameter",
                     .key = (uint64_t)index * 8 + (uint64_t)part,
                     .status = st,
                     .key_words = "which parameter it reads"};
    PPL_TRY(ppl_world_vote(r->world, &same));
    return ppl_world_share(r->world, reader, data,
                           (size_t)ppl_type_elements(&r->graph->params[index].type) * sizeof *data);
}

ppl_status ppl_run_write(ppl_run *r, int32_t index, int32_t part, const double *data) {
    PPL_TRY(index_check(r, index));
    PPL_TRY(ppl_run_usable(r));
    PPL_TRY(ppl_run_fetch(r));
    PPL_TRY(ppl_store_write(r->engine.store, index, part, data));
    if (part != PPL_PART_WEIGHT && r->device->flags & PPL_DEVICE_HOST) return PPL_OK;
    ppl_status st = ppl_exec_weights_changed(r->engine.exec);
    return st == PPL_OK ? PPL_OK : ppl_run_fail(r, st);
}

ppl_status ppl_run_norm(const ppl_run *r, int32_t index, int32_t part, double *out) {
    PPL_TRY(index_check(r, index));
    int64_t n = ppl_type_elements(&r->graph->params[index].type);
    double *x = ppl_alloc((size_t)n * sizeof *x), sum = 0;
    if (!x) return PPL_ERR_MEMORY;
    ppl_status st = ppl_run_read(r, index, part, x);
    for (int64_t i = 0; st == PPL_OK && i < n; i++) sum += x[i] * x[i];
    ppl_free(x);
    if (st == PPL_OK) *out = sqrt(sum);
    return st;
}

ppl_status ppl_run_save(const ppl_run *r, const char *path, int32_t state) {
    PPL_TRY(ppl_run_usable(r)); // a failure may have come in the middle of an update
    PPL_TRY(ppl_run_fetch(r));
    return ppl_checkpoint_save(r->engine.store, path, state != 0, r->step);
}

ppl_status ppl_run_load(ppl_run *r, const char *path) {
    int64_t step = 0;
    PPL_TRY(ppl_checkpoint_load(r->engine.store, path, &step));
    r->step = step < 0 ? 0 : step;
    ppl_data_seek(r->train.data, r->step);
    for (int32_t i = 0; i < r->rows; i++) r->row[i].record.step = -1; // of another course of the training
    if (r->failed != PPL_OK) return ppl_run_restart(r);
    ppl_status st = ppl_exec_weights_changed(r->engine.exec);
    return st == PPL_OK ? PPL_OK : ppl_run_fail(r, st);
}
