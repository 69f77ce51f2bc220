// watch.c - see watch.h. The rules are those of the papers, not the plan's own arithmetic: a forward of PipeDream reads the
// newest weights and its backward the same ones, a step of 2BW reads what the step before it stepped.
#include "support/watch.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct stage_watch {
    int64_t *slot, *pending; // which use of the run is in each; -1 none
    int64_t *read;           // [2 steps][microbatches]: the version that the forward read
    int64_t *version;        // [versions]: which update made what is in each place
    int64_t newest;
} stage_watch;

struct watch {
    const ppl_plan *p;
    stage_watch *stage;
    int32_t *live, *peak; // [ranks]
};

const char *watch_say(const char *format, ...) {
    static char words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return words;
}

static int64_t *filled(int32_t n, int64_t with) {
    int64_t *list = malloc((size_t)n * sizeof *list + 1);
    for (int32_t i = 0; i < n; i++) list[i] = with;
    return list;
}

watch *watch_open(const ppl_plan *p) {
    watch *w = calloc(1, sizeof *w);
    w->p = p;
    w->stage = calloc((size_t)p->stages->count, sizeof *w->stage);
    w->live = calloc((size_t)p->ranks, sizeof *w->live);
    w->peak = calloc((size_t)p->ranks, sizeof *w->peak);
    for (int32_t k = 0; k < p->stages->count; k++)
        w->stage[k] = (stage_watch){.slot = filled(p->layout[k].slots, -1),
                                    .pending = filled(p->layout[k].pendings, -1),
                                    .read = filled(2 * p->microbatches, -1),
                                    .version = filled(p->layout[k].versions, 0)};
    return w;
}

void watch_close(watch *w) {
    for (int32_t k = 0; k < w->p->stages->count; k++) {
        free(w->stage[k].slot);
        free(w->stage[k].pending);
        free(w->stage[k].read);
        free(w->stage[k].version);
    }
    free(w->stage);
    free(w->live);
    free(w->peak);
    free(w);
}

// The place of a slot in the step's turn, by ppl_task's words.
static int64_t turn(const watch *w, int32_t slot, int64_t step, int32_t places) {
    return ppl_plan_flows(w->p) ? (slot + step * w->p->microbatches) % places : slot;
}

static const char *take(int64_t *at, int64_t use, const ppl_task *t, const char *what) {
    if (*at >= 0)
        return watch_say("stage %d, microbatch %d: its %s still holds use %lld", t->stage, t->microbatch, what,
                         (long long)*at);
    *at = use;
    return NULL;
}

static const char *held(const int64_t *at, int64_t use, const ppl_task *t, const char *what) {
    if (*at == use) return NULL;
    return watch_say("stage %d, microbatch %d: its %s holds use %lld", t->stage, t->microbatch, what, (long long)*at);
}

// The place of the version that a task reads: what ppl_task.version means to an executor that begins with step 0.
static const char *check_version(watch *w, const ppl_task *t, int64_t step) {
    const ppl_plan *p = w->p;
    stage_watch *s = &w->stage[t->stage];
    int64_t a_step = p->weights == PPL_WEIGHTS_STASH ? p->microbatches : 1, want = s->newest;
    int64_t *read = &s->read[(step & 1) * p->microbatches + t->microbatch];
    if (p->weights == PPL_WEIGHTS_2BW) want = step ? step - 1 : 0;
    if (p->weights == PPL_WEIGHTS_STASH && t->kind != PPL_TASK_F) want = *read;
    *read = want;
    int64_t is = step * a_step + t->version;
    if (is < 0) is = 0; // the first step
    if (is != want)
        return watch_say("stage %d, microbatch %d of step %lld reads version %lld, want %lld", t->stage, t->microbatch,
                         (long long)step, (long long)is, (long long)want);
    if (s->version[is % p->layout[t->stage].versions] == is) return NULL;
    return watch_say("stage %d, microbatch %d of step %lld: version %lld is overwritten", t->stage, t->microbatch,
                     (long long)step, (long long)is);
}

static const char *update(watch *w, const ppl_task *t, int64_t step) {
    stage_watch *s = &w->stage[t->stage];
    int64_t a_step = w->p->weights == PPL_WEIGHTS_STASH ? w->p->microbatches : 1;
    if (ppl_plan_flows(w->p) && step * a_step + t->version != s->newest)
        return watch_say("stage %d: update of version %lld, the newest is %lld", t->stage,
                         (long long)(step * a_step + t->version), (long long)s->newest);
    s->newest++;
    s->version[s->newest % w->p->layout[t->stage].versions] = s->newest;
    return NULL;
}

const char *watch_task(watch *w, const ppl_task *t, int64_t step) {
    const ppl_plan *p = w->p;
    if (t->kind == PPL_TASK_UPDATE) return update(w, t, step);
    if (p->options.forward_only || t->kind < PPL_TASK_F || t->kind > PPL_TASK_W) return NULL;
    stage_watch *s = &w->stage[t->stage];
    const ppl_stage_layout *l = &p->layout[t->stage];
    int32_t rank = p->stage_rank[t->stage];
    int64_t use = step * p->microbatches + t->microbatch, *slot = &s->slot[turn(w, t->slot, step, l->slots)];
    int64_t *pending = t->pending < 0 ? NULL : &s->pending[turn(w, t->pending, step, l->pendings)];
    const char *bad = check_version(w, t, step);
    if (!bad) bad = t->kind == PPL_TASK_F ? take(slot, use, t, "slot") : held(slot, use, t, "slot");
    if (!bad && (t->kind == PPL_TASK_I || t->kind == PPL_TASK_B)) bad = take(pending, use, t, "pending");
    if (!bad && t->kind == PPL_TASK_W) bad = held(pending, use, t, "pending");
    if (bad) return bad;
    if (t->kind == PPL_TASK_F && ++w->live[rank] > w->peak[rank]) w->peak[rank] = w->live[rank];
    if (t->kind == PPL_TASK_W || t->kind == PPL_TASK_B) *slot = *pending = -1, w->live[rank]--;
    return NULL;
}

const char *watch_end(const watch *w) {
    for (int32_t r = 0; r < w->p->ranks && !w->p->options.forward_only; r++) {
        if (w->live[r]) return watch_say("rank %d ends with %d live activations", r, w->live[r]);
        if (w->peak[r] != ppl_plan_peak_live(w->p, r))
            return watch_say("rank %d had %d live activations at once, the plan says %d", r, w->peak[r],
                             ppl_plan_peak_live(w->p, r));
    }
    return NULL;
}
