// nvml.h - what the driver's management library says of GPUs and of the paths between them. It is loaded where it is there;
// without it, or where it does not answer, nothing is filled in.
#ifndef PPL_DEVICE_CUDA_NVML_H
#define PPL_DEVICE_CUDA_NVML_H
#include "ppl.h"

// "580.65.06"; "" where it is not known.
void ppl_nvml_driver(char *text, size_t bytes);
// path, nvlinks and promised of the link between two GPUs, by their buses ("0000:01:00.0").
void ppl_nvml_link(const char *from, const char *to, ppl_gpu_link *out);

#endif
