// nvml.h - what the driver's management library says of GPUs and of the paths between them. It is loaded where it is there;
// without it, or where it does not answer, nothing is filled in.
#ifndef PPL_DEVICE_CUDA_NVML_H
#define PPL_DEVICE_CUDA_NVML_H
#include "ppl.h"

enum { PPL_NVML_NOT_SUPPORTED = 3 }; // NVML_ERROR_NOT_SUPPORTED

// Why the library is not there, and what to do; NULL where it is.
const char *ppl_nvml_missing(void);
// A call of it; NULL where it has none of this name.
void *ppl_nvml_call(const char *symbol);
// Its handle of the GPU on a bus; what it returns, 0 for success.
int ppl_nvml_gpu(const char *bus, void **out);
const char *ppl_nvml_words(int error); // the library's own
// "580.65.06"; "" where it is not known.
void ppl_nvml_driver(char *text, size_t bytes);
// path, nvlinks and promised of the link between two GPUs, by their buses ("0000:01:00.0").
void ppl_nvml_link(const char *from, const char *to, ppl_gpu_link *out);

#endif
