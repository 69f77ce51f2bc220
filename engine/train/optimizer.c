// optimizer.c - learning-rate schedules, the numbers of one update and the scale that clipping gives. Before it: a run's
// options and step count; after it: the device's update.
#include "train/optimizer.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

double ppl_lr(const ppl_optimizer_options *o, int64_t step) {
    if (step < o->warmup) return o->lr * (double)(step + 1) / (double)o->warmup;
    double part = step >= o->steps ? 1 : (double)(step - o->warmup) / (double)(o->steps - o->warmup);
    switch ((ppl_decay)o->decay) {
    case PPL_LR_CONSTANT: return o->lr;
    case PPL_LR_COSINE: return o->min_lr + (o->lr - o->min_lr) * 0.5 * (1 + cos(pi * part));
    case PPL_LR_LINEAR: return o->lr + (o->min_lr - o->lr) * part;
    }
    return o->lr; // ppl_optimizer_check refuses other shapes
}

void ppl_update_set(ppl_update *u, const ppl_optimizer_options *o, int64_t step, int64_t updates, bool decays) {
    u->kind = o->kind;
    u->lr = ppl_lr(o, step);
    u->beta1 = o->beta1;
    u->beta2 = o->beta2;
    u->eps = o->eps;
    u->momentum = o->momentum;
    u->decay = decays ? o->weight_decay : 0;
    u->bias1 = 1 - pow(o->beta1, (double)(updates + 1));
    u->bias2 = 1 - pow(o->beta2, (double)(updates + 1));
}

static ppl_status below_one(const char *name, double x) { // NaN fails too
    if (x >= 0 && x < 1) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "optimizer: %s is %g, want at least 0 and below 1", name, x);
}

static ppl_status not_negative(const char *name, double x) {
    if (x >= 0 && isfinite(x)) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "optimizer: %s is %g, want a number that is at least 0", name, x);
}

ppl_status ppl_optimizer_check(const ppl_optimizer_options *o) {
    if (o->kind != PPL_SGD && o->kind != PPL_ADAMW)
        return ppl_fail(PPL_ERR_ARG, "optimizer: kind is %d, want %d (sgd) or %d (adamw)", o->kind, PPL_SGD, PPL_ADAMW);
    if (o->decay < PPL_LR_CONSTANT || o->decay > PPL_LR_LINEAR) {
        return ppl_fail(PPL_ERR_ARG, "optimizer: decay is %d, want %d (constant), %d (cosine) or %d (linear)", o->decay,
                        PPL_LR_CONSTANT, PPL_LR_COSINE, PPL_LR_LINEAR);
    }
    if (o->clip < PPL_CLIP_NONE || o->clip > PPL_CLIP_STAGE) {
        return ppl_fail(PPL_ERR_ARG, "optimizer: clip is %d, want %d (none), %d (before), %d (after) or %d (stage)",
                        o->clip, PPL_CLIP_NONE, PPL_CLIP_BEFORE, PPL_CLIP_AFTER, PPL_CLIP_STAGE);
    }
    PPL_TRY(not_negative("lr", o->lr));
    PPL_TRY(not_negative("min_lr", o->min_lr));
    PPL_TRY(not_negative("weight_decay", o->weight_decay));
    if (o->decay != PPL_LR_CONSTANT && o->min_lr > o->lr)
        return ppl_fail(PPL_ERR_ARG, "optimizer: min_lr is %g, want at most lr, %g", o->min_lr, o->lr);
    if (o->warmup < 0) {
        return ppl_fail(PPL_ERR_ARG, "optimizer: warmup is %lld steps, want 0 or more", (long long)o->warmup);
    }
    if (o->decay != PPL_LR_CONSTANT && o->steps <= o->warmup) {
        return ppl_fail(PPL_ERR_ARG, "optimizer: the decay ends at step %lld, want it after warmup, %lld",
                        (long long)o->steps, (long long)o->warmup);
    }
    if (o->kind == PPL_SGD) PPL_TRY(below_one("momentum", o->momentum));
    if (o->kind == PPL_ADAMW) {
        PPL_TRY(below_one("beta1", o->beta1));
        PPL_TRY(below_one("beta2", o->beta2));
        PPL_TRY(not_negative("eps", o->eps));
    }
    if (o->clip != PPL_CLIP_NONE && !(o->clip_norm > 0 && isfinite(o->clip_norm)))
        return ppl_fail(PPL_ERR_ARG, "optimizer: clip_norm is %g, want a number above 0", o->clip_norm);
    return PPL_OK;
}

double ppl_clip_scale(const ppl_optimizer_options *o, double norm) {
    if (o->clip == PPL_CLIP_NONE) return 1;
    double scale = o->clip_norm / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}
