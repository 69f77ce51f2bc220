// activity.h - how busy a GPU is, by its own counters: what the executor asks of the cuda device between ranges of steps.
// Before: exec/activity.c. After: cuda/activity.c; gpu_none.c stands in for it in a build without CUDA.
#ifndef PPL_DEVICE_ACTIVITY_H
#define PPL_DEVICE_ACTIVITY_H
#include "ppl.h"

typedef struct ppl_activity ppl_activity; // of one GPU; one thread at a time

// PPL_ERR_DEVICE where its counters cannot be read, with the reason. All memory is had here.
ppl_status ppl_activity_open(int32_t gpu, ppl_activity **out);
void ppl_activity_close(ppl_activity *a);
// Work that is to be counted begins, and has ended. Neither fails, nor touches the error text: what goes wrong is told with
// the figures. Counters want 0.1 s between two readings: work that is shorter counts together with the next that follows at
// once (within a tenth of its time), and is left out where none does. NULL: nothing is done.
void ppl_activity_begin(ppl_activity *a);
void ppl_activity_end(ppl_activity *a);
// Of the newest work that could be counted.
void ppl_activity_read(const ppl_activity *a, ppl_gpu_activity *out);

#endif
