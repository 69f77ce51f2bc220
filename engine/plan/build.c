// build.c - compiles a schedule over stages into a plan. Before: a schedule from a script, stages from the graph. After:
// exec runs the plan, sim simulates it, `ppl plan` prints it.
#include "plan/build.h"
#include "trace/trace.h"
#include <stdio.h>
#include <string.h>

static ppl_status check_arguments(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options) {
    if (stages->count != s->stages)
        return ppl_fail(PPL_ERR_PLAN, "schedule %s: %d stages, want the %d that the model is cut into", s->name,
                        s->stages, stages->count);
    if (s->weights != PPL_WEIGHTS_SYNC && options->validate)
        return ppl_fail(PPL_ERR_PLAN, "schedule %s: clip is after, want stage or none with weights \"%s\"", s->name,
                        ppl_weights_name(s->weights));
    return PPL_OK;
}

static ppl_status open_plan(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options,
                            ppl_plan **out) {
    ppl_plan *p = ppl_alloc(sizeof *p);
    if (!p) return PPL_ERR_MEMORY;
    ppl_status st = PPL_ERR_MEMORY;
    p->stages = stages;
    p->options = *options;
    p->ranks = s->ranks;
    p->microbatches = s->microbatches;
    p->weights = options->forward_only ? PPL_WEIGHTS_SYNC : s->weights;
    snprintf(p->schedule, sizeof p->schedule, "%s", s->name);
    p->stage_rank = ppl_arena_get(&p->arena, (size_t)s->stages * sizeof *p->stage_rank);
    p->rank = ppl_arena_get(&p->arena, (size_t)s->ranks * sizeof *p->rank);
    p->layout = ppl_arena_get(&p->arena, (size_t)s->stages * sizeof *p->layout);
    p->edge = ppl_arena_get(&p->arena, (size_t)stages->n_edges * sizeof *p->edge);
    if (!p->stage_rank || !p->rank || !p->layout || !p->edge) goto fail;
    memcpy(p->stage_rank, s->stage_rank, (size_t)s->stages * sizeof *p->stage_rank);
    PPL_GOTO(ppl_schedule_copy(s, &p->actions));
    *out = p;
    return PPL_OK;
fail:
    ppl_plan_close(p);
    return st;
}

void ppl_plan_close(ppl_plan *p) {
    if (!p) return;
    ppl_trace_free(p->trace);
    ppl_free(p->load);
    ppl_schedule_close(p->actions);
    ppl_stages_free(p->owned_stages);
    ppl_arena_clear(&p->arena);
    ppl_free(p);
}

static void number_buffers(ppl_plan *p) {
    for (int32_t r = 0; r < p->ranks; r++)
        for (int64_t at = 0; at < p->rank[r].count; at++) {
            ppl_task *t = &p->rank[r].tasks[at];
            if (t->edge >= 0) t->buffer = (int16_t)(t->sequence % p->edge[t->edge].buffers);
        }
}

static void insert_validate(ppl_plan *p) {
    for (int32_t i = 0; i < p->ranks; i++) {
        ppl_rank_plan *r = &p->rank[i];
        ppl_task *t = &r->tasks[r->forward_tasks];
        memmove(t + 1, t, (size_t)(r->count - r->forward_tasks) * sizeof *t);
        *t = (ppl_task){.kind = PPL_TASK_VALIDATE,
                        .slot = -1,
                        .pending = -1,
                        .buffer = -1,
                        .stage = -1,
                        .microbatch = -1,
                        .edge = -1,
                        .sequence = -1,
                        .action = -1,
                        .version = -1};
        r->count++;
    }
}

static ppl_status compile(ppl_build *b) {
    ppl_plan *p = b->plan;
    PPL_TRY(ppl_build_ends(b));
    PPL_TRY(ppl_build_tasks(b));
    PPL_TRY(ppl_build_pace(b));
    PPL_TRY(ppl_build_buffers(b));
    PPL_TRY(p->options.least_buffers ? ppl_plan_prove_least(p, b->circle) : ppl_plan_prove(p, b->circle));
    number_buffers(p);
    PPL_TRY(ppl_plan_find_forward(p));
    if (p->options.validate) insert_validate(p);
    return ppl_plan_lay_out(p, &b->arena);
}

// Where ranks wait for each other in a circle that steps close by overlapping, half of what runs ahead there may not.
static bool keep_less_ahead(ppl_build *b) {
    bool less = false;
    for (int32_t r = 0; b->flow && r < b->schedule->ranks; r++) {
        if (b->circle[r] && b->flow[r].ahead) b->most[r] = b->flow[r].ahead / 2, less = true;
        b->circle[r] = false;
    }
    if (less) ppl_schedule_unmark();
    return less;
}

ppl_status ppl_plan_build(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options,
                          ppl_plan **out) {
    *out = NULL;
    ppl_build b = {.schedule = s, .stages = stages};
    ppl_schedule_unmark();
    PPL_TRY(check_arguments(s, stages, options));
    PPL_TRY(ppl_schedule_positions(s, &b.positions));
    ppl_status st = PPL_ERR_MEMORY;
    b.most = ppl_alloc((size_t)s->ranks * sizeof *b.most);
    b.circle = ppl_alloc((size_t)s->ranks * sizeof *b.circle);
    for (int32_t r = 0; b.most && r < s->ranks; r++) b.most[r] = INT32_MAX;
    for (bool again = b.most && b.circle; again;) {
        b.plan = NULL;
        st = open_plan(s, stages, options, &b.plan);
        if (st == PPL_OK) st = compile(&b);
        again = st == PPL_ERR_PLAN && keep_less_ahead(&b);
        if (st != PPL_OK) ppl_plan_close(b.plan);
        ppl_arena_clear(&b.arena);
        b.flow = NULL;
    }
    ppl_free(b.circle);
    ppl_free(b.most);
    ppl_free(b.positions.at);
    if (st == PPL_OK) *out = b.plan;
    return st;
}

ppl_status ppl_plan_abstract(const ppl_schedule *s, ppl_plan **out) {
    *out = NULL;
    ppl_stages *stages;
    PPL_TRY(ppl_stages_chain(s->stages, &stages));
    ppl_plan_options options = {0};
    ppl_status st = ppl_plan_build(s, stages, &options, out);
    if (st != PPL_OK) ppl_stages_free(stages);
    else (*out)->owned_stages = stages;
    return st;
}
