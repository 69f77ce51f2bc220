// update.h - the optimizer's launchers where clipping is decided on the device. Before it: device.c. After it: update.cu.
#ifndef PPL_DEVICE_CUDA_UPDATE_H
#define PPL_DEVICE_CUDA_UPDATE_H
#include "device/cuda/job.h"
#ifdef __cplusplus
extern "C" {
#endif

// ppl_cuda_update with gradients multiplied by *scale_at, which lies in memory of the device, instead of u->scale. NULL: that.
cudaError_t ppl_cuda_update_by(const ppl_update *u, const double *scale_at, cudaStream_t stream);
// *out = min(1, limit / (norm + 1e-6)), of the norm whose square is sums[order[0]] + ... + sums[order[n - 1]], in this order.
cudaError_t ppl_cuda_clip_scale(const double *sums, const int32_t *order, int64_t n, double limit, double *out,
                                cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
