// data_source.h - what a kind of data is to data.c: a table of functions. Before: a script opens one of data_*.c.
// After: data.c checks arguments, pads what is missing, and serves run.c by data.h.
#ifndef PPL_TRAIN_DATA_SOURCE_H
#define PPL_TRAIN_DATA_SOURCE_H
#include "train/data.h"

typedef struct ppl_data_field { // one input
    char name[PPL_NAME_BYTES];
    ppl_type type; // of one sample: I32 or F32
} ppl_data_field;

// Arguments are checked by data.c: step >= 0, batch >= 1, and step * batch + batch does not overflow.
typedef struct ppl_data_ops {
    void (*close)(ppl_data *d);
    int64_t (*samples)(const ppl_data *d); // of an epoch; -1 unknown
    ppl_status (*push)(ppl_data *d, int32_t samples, const void *const *arrays);
    void (*end)(ppl_data *d);
    void (*seek)(ppl_data *d, int64_t step);
    // As seek; steps that wait in a queue are forgotten, and so is its end.
    void (*rewind)(ppl_data *d, int64_t step);
    // How many samples of the step there are and how many targets count; PPL_ERR_DATA when it is beyond the data.
    ppl_status (*present)(ppl_data *d, int64_t step, int32_t batch, int32_t *present, double *weight);
    // Samples first .. first + samples - 1, all present, of one input. Called by several threads.
    ppl_status (*read)(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                       int32_t dtype, void *dst);
    void (*done)(ppl_data *d, int64_t step);
} ppl_data_ops;

struct ppl_data { // first member of each source's own struct
    const ppl_data_ops *ops;
    int32_t inputs;
    int32_t targets;       // index of the input named "targets"; -1
    ppl_data_field *field; // [inputs]
};

#endif
