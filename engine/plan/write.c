// write.c - a plan's compute order with its sends and receives as a CSV file. Before: a proven plan. After: PyTorch's pipelining.
//
// There a stage sends to the next one and its gradient to the one before, and nothing else: plans whose edges are others are
// refused by name.
#include "plan/plan.h"
#include "schedule/csv.h"

static ppl_status check_edge(const ppl_plan *p, const ppl_edge *e) {
    const char *name = e->value >= 0 && p->stages->graph ? p->stages->graph->values[e->value].name : "a value";
    for (int32_t i = 0; i < e->n_readers; i++) {
        int32_t stage = e->readers[i].stage;
        if (e->kind == PPL_U)
            return ppl_fail(PPL_ERR_PLAN,
                            "plan %s: a parameter is tied over stages %d and %d (%s), which the CSV form with messages "
                            "cannot say, want each on one stage",
                            p->schedule, e->src, stage, name);
        if (stage != e->src + (e->kind == PPL_F ? 1 : -1))
            return ppl_fail(
                PPL_ERR_PLAN,
                "plan %s: %s skips from stage %d to stage %d, which the CSV form with messages cannot say, want "
                "values for the next stage alone",
                p->schedule, name, e->src, stage);
    }
    return PPL_OK;
}

ppl_status ppl_plan_write(const ppl_plan *p, const char *path) {
    for (int32_t i = 0; i < p->stages->n_edges; i++) PPL_TRY(check_edge(p, &p->stages->edges[i]));
    return ppl_csv_write(p->actions, true, path);
}
