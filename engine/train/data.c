// data.c - any source of samples: arguments are checked here and what a step lacks is padded with targets that do not
// count. Before: data_text.c, data_queue.c. After: run.c fills the graph's inputs.
#include "train/data_source.h"
#include <inttypes.h>
#include <math.h>

int32_t ppl_data_input(const ppl_data *d, const char *name) {
    for (int32_t i = 0; i < d->inputs; i++)
        if (strcmp(d->field[i].name, name) == 0) return i;
    return -1;
}

int32_t ppl_data_inputs(const ppl_data *d) {
    return d->inputs;
}

const char *ppl_data_input_name(const ppl_data *d, int32_t input) {
    return d->field[input].name;
}

ppl_type ppl_data_sample_type(const ppl_data *d, int32_t input) {
    return d->field[input].type;
}

void ppl_data_close(ppl_data *d) {
    if (d) d->ops->close(d);
}

int64_t ppl_data_samples(const ppl_data *d) {
    return d ? d->ops->samples(d) : 0;
}

ppl_status ppl_data_push(ppl_data *d, int32_t samples, const void *const *arrays) {
    if (!d) return ppl_fail(PPL_ERR_ARG, "data: push into nothing, want a queue");
    return d->ops->push(d, samples, arrays);
}

void ppl_data_end(ppl_data *d) {
    if (d) d->ops->end(d);
}

void ppl_data_seek(ppl_data *d, int64_t step) {
    d->ops->seek(d, step);
}

void ppl_data_rewind(ppl_data *d, int64_t step) {
    d->ops->rewind(d, step);
}

void ppl_data_done(ppl_data *d, int64_t step) {
    d->ops->done(d, step);
}

static ppl_status present_and_weight(ppl_data *d, int64_t step, int32_t batch, int32_t *present, double *weight) {
    if (batch < 1) return ppl_fail(PPL_ERR_ARG, "data: a batch of %d samples, want 1 at least", batch);
    if (step < 0 || step > INT64_MAX / batch - 1)
        return ppl_fail(PPL_ERR_ARG, "data: step %" PRId64 ", want 0 to %" PRId64, step, INT64_MAX / batch - 1);
    return d->ops->present(d, step, batch, present, weight);
}

ppl_status ppl_data_present(ppl_data *d, int64_t step, int32_t batch, int32_t *out) {
    double weight;
    return present_and_weight(d, step, batch, out, &weight);
}

ppl_status ppl_data_weight(ppl_data *d, int64_t step, int32_t batch, double *out) {
    int32_t present;
    return present_and_weight(d, step, batch, &present, out);
}

ppl_status ppl_data_ready(ppl_data *d, int64_t step, int32_t batch) {
    int32_t present = 0;
    double weight = 0;
    PPL_TRY(present_and_weight(d, step, batch, &present, &weight));
    if (weight > 0) return PPL_OK;
    return ppl_fail(PPL_ERR_DATA, "data, step %" PRId64 ": none of its targets counts, want one at least", step);
}

// Sets n samples to what does not count: zeros, and -1 or NaN in targets.
static void pad(const ppl_data *d, int32_t input, int32_t dtype, void *dst, int64_t elements) {
    size_t size = ppl_dtype_size(dtype);
    memset(dst, 0, (size_t)elements * size);
    if (input != d->targets) return;
    for (int64_t i = 0; i < elements; i++) ppl_number_set(dst, dtype, i, dtype == PPL_I32 ? -1.0 : (double)NAN);
}

ppl_status ppl_data_read_as(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                            int32_t dtype, void *dst) {
    if (input < 0 || input >= d->inputs)
        return ppl_fail(PPL_ERR_ARG, "data: input %d, want 0 to %d", input, d->inputs - 1);
    const ppl_data_field *f = &d->field[input];
    if ((f->type.dtype == PPL_I32) != (dtype == PPL_I32))
        return ppl_fail(PPL_ERR_ARG, "data: input '%s' is %s, it cannot be read as %s", f->name,
                        ppl_dtype_name(f->type.dtype), ppl_dtype_name(dtype));
    if (first < 0 || samples < 0 || samples > batch || first > batch - samples)
        return ppl_fail(PPL_ERR_ARG, "data: samples %d to %d, want them inside the batch of %d", first,
                        first + samples - 1, batch);
    int32_t present = 0;
    PPL_TRY(ppl_data_present(d, step, batch, &present));
    int32_t there = present <= first ? 0 : present - first < samples ? present - first : samples;
    int64_t elements = ppl_type_elements(&f->type);
    if (there) PPL_TRY(d->ops->read(d, step, first, there, batch, input, dtype, dst));
    pad(d, input, dtype, (char *)dst + (size_t)(elements * there) * ppl_dtype_size(dtype),
        elements * (samples - there));
    return PPL_OK;
}

ppl_status ppl_data_read(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                         void *dst) {
    if (!d) return ppl_fail(PPL_ERR_ARG, "data: read from nothing, want text or a queue");
    int32_t dtype = input >= 0 && input < d->inputs ? d->field[input].type.dtype : PPL_F32;
    return ppl_data_read_as(d, step, first, samples, batch, input, dtype, dst);
}
