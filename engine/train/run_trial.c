// run_trial.c - another schedule tried on a copy of the weights, then all put back. Before: run.c, between steps. After: the
// same run, as if nothing had been. The engine that is put aside keeps its ranks, which sleep, and its memory: a trial
// takes a second engine's memory beside it.
#include "train/run.h"

struct ppl_run_aside {
    ppl_run_engine engine;
    int64_t step, steps_here, bad_step;
    ppl_status failed;
    ppl_run_row row[]; // [rows]
};

ppl_status ppl_run_trial_begin(ppl_run *r, const ppl_schedule *schedule) {
    if (r->aside) return ppl_fail(PPL_ERR_ARG, "run: a trial is on already, want its end before the next");
    PPL_TRY(ppl_run_fits(r, schedule));
    PPL_TRY(ppl_run_fetch(r));
    ppl_run_aside *a = ppl_alloc(sizeof *a + (size_t)r->rows * sizeof *a->row);
    if (!a) return PPL_ERR_MEMORY;
    ppl_run_engine next;
    ppl_status st = ppl_run_engine_build(r, schedule, r->engine.store, &next);
    if (st != PPL_OK) {
        ppl_free(a);
        return st;
    }
    a->engine = r->engine;
    a->step = r->step;
    a->steps_here = r->steps_here;
    a->bad_step = r->bad_step;
    a->failed = r->failed;
    memcpy(a->row, r->row, (size_t)r->rows * sizeof *a->row);
    r->engine = next;
    r->steps_here = 0;
    r->aside = a;
    ppl_data_rewind(r->train.data, r->step);
    return PPL_OK;
}

ppl_status ppl_run_trial_end(ppl_run *r) {
    ppl_run_aside *a = r->aside;
    if (!a) return ppl_fail(PPL_ERR_ARG, "run: no trial is on, want one to end");
    ppl_run_engine_close(&r->engine);
    r->engine = a->engine;
    r->step = a->step;
    r->steps_here = a->steps_here;
    r->bad_step = a->bad_step;
    r->failed = a->failed;
    memcpy(r->row, a->row, (size_t)r->rows * sizeof *a->row);
    ppl_data_rewind(r->train.data, r->step);
    r->aside = NULL;
    ppl_free(a);
    return PPL_OK;
}
