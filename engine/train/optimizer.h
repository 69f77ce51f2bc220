// optimizer.h - learning-rate schedules and the arithmetic of one update, shared by the CPU devices.
#ifndef PPL_TRAIN_OPTIMIZER_H
#define PPL_TRAIN_OPTIMIZER_H
#include "device/kernel.h"
#include "ppl.h"

// Learning rate of a step (from 0). Warm-up: lr * (step + 1) / warmup while step < warmup; then constant, linear or half a
// cosine from lr to min_lr, reached at step `steps`.
double ppl_lr(const ppl_optimizer_options *o, int64_t step);
// Fills kind, lr, betas, bias corrections (t = updates + 1) and decay (0 unless the parameter decays). updates: of the
// parameter before this one.
void ppl_update_set(ppl_update *u, const ppl_optimizer_options *o, int64_t step, int64_t updates, bool decays);
ppl_status ppl_optimizer_check(const ppl_optimizer_options *o); // domains, by name
// min(1, clip / (norm + 1e-6)), PyTorch's clip_grad_norm_.
double ppl_clip_scale(const ppl_optimizer_options *o, double norm);

#endif
