// measure.h - links measured: what the public call (measure.c) asks of the cuda device; gpu_none.c stands in for it.
#ifndef PPL_DEVICE_MEASURE_H
#define PPL_DEVICE_MEASURE_H
#include "ppl.h"

// From one GPU to another by a way, with messages of so many bytes and no longer than so many seconds.
ppl_status ppl_cuda_link_measure(int32_t from, int32_t to, int32_t way, size_t bytes, double seconds,
                                 ppl_link_cost *out);

#endif
