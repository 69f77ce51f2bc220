// run_check.c - what a run is asked for, judged before anything is built: each option by name, the schedule against them,
// the data against the graph. Before: a script's trainer. After: run.c.
#include "schedule/schedule.h"
#include "sim/costs.h"
#include "train/optimizer.h"
#include "train/run.h"
#include <inttypes.h>
#include <math.h>

enum { MOST_THREADS = 1024, MOST_KEPT = 10 * 1000 * 1000 };

static ppl_status at_least(const char *name, int64_t is, int64_t least, int64_t most) {
    if (is >= least && is <= most) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "run: %s is %" PRId64 ", want %" PRId64 " to %" PRId64, name, is, least, most);
}

static ppl_status seconds(const char *name, double is) {
    if (is >= 0 && isfinite(is)) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "run: %s is %g, want seconds from 0", name, is);
}

ppl_status ppl_run_check_options(const ppl_run_options *o, const ppl_graph *g) {
    const ppl_device_ops *device = NULL;
    if (!o->device) return ppl_fail(PPL_ERR_ARG, "run: no device is named, want \"cpu\"");
    PPL_TRY(ppl_device_find(o->device, &device));
    int32_t gpus;
    if (device == &ppl_device_cuda) PPL_TRY(ppl_gpu_count(&gpus));
    PPL_TRY(at_least("stages", o->stages, 1, ppl_graph_layers(g)));
    if (!o->first_layer) return ppl_fail(PPL_ERR_ARG, "run: first_layer is missing, want the cut");
    PPL_TRY(at_least("samples", o->samples, 1, INT32_MAX));
    PPL_TRY(at_least("threads", o->threads, 1, MOST_THREADS));
    PPL_TRY(at_least("trace_steps", o->trace_steps, 0, MOST_KEPT));
    PPL_TRY(at_least("keep_steps", o->keep_steps, 0, MOST_KEPT));
    PPL_TRY(seconds("delay", o->delay));
    PPL_TRY(seconds("stall_seconds", o->stall_seconds));
    PPL_TRY(ppl_optimizer_check(&o->optimizer));
    if (!(device->flags & PPL_DEVICE_COMPUTES)) return ppl_costs_check("run: device emulated", o->costs, o->stages);
    if (g->dtype == PPL_F64 && device != &ppl_device_reference)
        return ppl_fail(PPL_ERR_ARG, "run: a graph of f64 on device %s, want device reference", o->device);
    return PPL_OK;
}

ppl_status ppl_run_check_schedule(const ppl_run_options *o, const ppl_schedule *s) {
    if (s->stages != o->stages)
        return ppl_fail(PPL_ERR_ARG, "run: schedule %s has %d stages, the cut %d, want the same", s->name, s->stages,
                        o->stages);
    int32_t clip = o->optimizer.clip;
    if (s->weights != PPL_WEIGHTS_SYNC && (clip == PPL_CLIP_BEFORE || clip == PPL_CLIP_AFTER))
        return ppl_fail(PPL_ERR_ARG,
                        "run: clip is %s, which needs all ranks' gradients of a step at once: with weights '%s' of "
                        "schedule %s want stage or none",
                        clip == PPL_CLIP_BEFORE ? "before" : "after", ppl_weights_name(s->weights), s->name);
    if (o->samples % s->microbatches)
        return ppl_fail(PPL_ERR_ARG, "run: batch %d does not divide into %d microbatches", o->samples, s->microbatches);
    return PPL_OK;
}

// One input of the graph against one of the data.
static ppl_status match_input(const ppl_run *r, const ppl_value_info *v, const ppl_data *data, int32_t input) {
    char is[128], want[128];
    const ppl_type *type = &v->type;
    ppl_type sample = ppl_data_sample_type(data, input);
    if (type->ndim < 1 || type->dim[0] != r->samples_per_microbatch)
        return ppl_fail(
            PPL_ERR_SHAPE,
            "run: the model's input '%s' is %s, want %d samples in dimension 0 (batch %d in %d microbatches)", v->name,
            ppl_type_print(type, is), r->samples_per_microbatch, r->options.samples, r->microbatches);
    ppl_type one = ppl_type_make(type->dtype == PPL_I32 ? PPL_I32 : PPL_F32, type->ndim - 1, type->dim + 1);
    if (!ppl_type_equal(&one, &sample))
        return ppl_fail(PPL_ERR_SHAPE, "run: a sample of the data's '%s' is %s, the model wants %s", v->name,
                        ppl_type_print(&sample, is), ppl_type_print(&one, want));
    return PPL_OK;
}

ppl_status ppl_run_match(const ppl_run *r, const ppl_data *data, int32_t *input) {
    const ppl_graph *g = r->graph;
    for (size_t i = 0; i < g->n_values; i++) {
        const ppl_value_info *v = &g->values[i];
        input[i] = -1;
        if (v->kind != PPL_VALUE_INPUT) continue;
        input[i] = ppl_data_input(data, v->name);
        if (input[i] < 0)
            return ppl_fail(PPL_ERR_ARG, "run: the model reads '%s', the data has no input of this name, only '%s'%s",
                            v->name, ppl_data_input_name(data, 0), ppl_data_inputs(data) > 1 ? " and others" : "");
        PPL_TRY(match_input(r, v, data, input[i]));
    }
    return PPL_OK;
}
