// data.h - where microbatches come from. A source is a function of (step, sample): any rank may ask for what it needs, so
// inputs never travel over links.
#ifndef PPL_TRAIN_DATA_H
#define PPL_TRAIN_DATA_H
#include "base/numbers.h"
#include "base/status.h"
#include "ppl.h"

// Index of an input by name, -1 none.
int32_t ppl_data_input(const ppl_data *d, const char *name);
int32_t ppl_data_inputs(const ppl_data *d);
const char *ppl_data_input_name(const ppl_data *d, int32_t input);
// The type of one sample of an input (I32 or F32).
ppl_type ppl_data_sample_type(const ppl_data *d, int32_t input);
// Says which step comes next, before the first one and whenever steps do not follow one another (a checkpoint was loaded, an
// evaluation begins): a queue hands its oldest samples to that step. Sources that know any step by its number ignore it.
void ppl_data_seek(ppl_data *d, int64_t step);
// As seek, and what waits in a queue is forgotten, its end too: the next push is of this step.
void ppl_data_rewind(ppl_data *d, int64_t step);
// Fails with PPL_ERR_DATA when `step` is beyond the data, or when none of its targets counts. batch: samples of a step.
ppl_status ppl_data_ready(ppl_data *d, int64_t step, int32_t batch);
// How many samples of the step there really are (<= batch: the last of an epoch, a short push); the rest is padding, which
// ppl_data_read fills with zeros, and with -1 (i32) or NaN (f32) for the input named "targets".
ppl_status ppl_data_present(ppl_data *d, int64_t step, int32_t batch, int32_t *out);
// May be called from several threads. The step's data may be dropped once ppl_data_done says so.
// (ppl_data_read is public.) The same into another dtype: F32 inputs of a bf16 or f64 graph; I32 stays I32.
ppl_status ppl_data_read_as(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                            int32_t dtype, void *dst);
void ppl_data_done(ppl_data *d, int64_t step);
// Targets that count in the whole step: elements of "targets" that are >= 0 (i32) or not NaN (f32); without an input of that
// name, the samples that are present.
ppl_status ppl_data_weight(ppl_data *d, int64_t step, int32_t batch, double *out);

#endif
