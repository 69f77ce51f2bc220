// plans.c - a plan's lists run in a random order of ranks, with every buffer and ticket watched. Knows nothing of how plans
// are made: it goes by ppl.h's words on each kind of task and by the stages' edges.
#include "support/plans.h"
#include "base/random.h"
#include "support/watch.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct buffer {    // of the producer's, or one that a reader owns
    int64_t use, sent_use; // which use of the edge it holds, and held when it was last sent; -1 none
    int32_t readers;       // stages that have not read it for the last time (the producer's: its own stage as well)
    int64_t sent, *freed;  // how often; by reader
} buffer;

typedef struct replay {
    const ppl_plan *p;
    buffer **out;          // [edges][buffers]
    buffer ***own;         // [edges][readers][reader_buffers]
    int64_t *at, *step;    // of the task that a rank is at
    int64_t *turn, *round; // [ranks]: how it came there, see ppl_plan_turn; round -1: what runs ahead of the first step
    int64_t *second;       // [ranks]: tasks of the next action that have run beside the one that the rank is in
    bool beside;           // some have
    int32_t steps;         // from step 0 on
    watch *inside;
} replay;

static int64_t use_of(const replay *x, int32_t edge, int64_t step, int32_t mb) {
    return step * ppl_plan_uses(x->p, edge) + x->p->edge[edge].order[mb];
}

// The place of use `sequence` of a step among so many; in plans that flow they go round over the steps.
static int32_t place_of(const replay *x, int32_t edge, int32_t places, int64_t step, int32_t sequence) {
    return (int32_t)(((ppl_plan_flows(x->p) ? step * ppl_plan_uses(x->p, edge) : 0) + sequence) % places);
}

static bool phase_of(const ppl_task *t, int32_t phase) {
    switch ((ppl_task_kind)t->kind) {
    case PPL_TASK_F: return phase == PPL_PHASE_F;
    case PPL_TASK_B: return phase != PPL_PHASE_F;
    case PPL_TASK_I: return phase == PPL_PHASE_I;
    case PPL_TASK_W: return phase == PPL_PHASE_W;
    case PPL_TASK_CREDIT:
    case PPL_TASK_RECEIVE:
    case PPL_TASK_SEND:
    case PPL_TASK_RELEASE:
    case PPL_TASK_NORM:
    case PPL_TASK_UPDATE:
    case PPL_TASK_VALIDATE:
    case PPL_TASK_KINDS: break;
    }
    return false;
}

static int32_t first_read(const ppl_plan *p, int32_t edge, int32_t reader) {
    const ppl_edge *e = &p->stages->edges[edge];
    const ppl_stage *s = &p->stages->stage[e->readers[reader].stage];
    for (int32_t i = 0; i < s->n_values; i++)
        if (s->values[i].edge == edge) return s->values[i].born;
    return PPL_PHASE_W;
}

// Holders of a freshly written use: the producer's stage where it reads on, and each reader that uses this buffer.
static int32_t count_holders(const ppl_plan *p, int32_t edge) {
    const ppl_edge *e = &p->stages->edges[edge];
    int32_t n = !p->options.forward_only && e->src_last >= 0;
    for (int32_t i = 0; i < e->n_readers; i++) {
        if (e->kind == PPL_U) n += p->edge[edge].reader_rank[i] != ppl_plan_edge_rank(p, edge); // its own updates first
        else n += !p->options.forward_only || first_read(p, edge, i) == PPL_PHASE_F;
    }
    return n;
}

static const char *write_edge(replay *x, int32_t rank, const ppl_task *t, int32_t edge) {
    int64_t use = use_of(x, edge, x->step[rank], t->microbatch);
    int32_t buffers = x->p->edge[edge].buffers;
    if (!buffers) return NULL;
    buffer *b = &x->out[edge][place_of(x, edge, buffers, x->step[rank], x->p->edge[edge].order[t->microbatch])];
    if (b->use >= 0 && b->readers)
        return watch_say("stage %d overwrites use %lld of edge %d with %lld while %d still read it", t->stage,
                         (long long)b->use, edge, (long long)use, b->readers);
    b->use = use;
    b->readers = count_holders(x->p, edge);
    return NULL;
}

static const char *read_edge(replay *x, int32_t rank, const ppl_task *t, int32_t edge, int32_t reader, bool last) {
    const ppl_edge_plan *e = &x->p->edge[edge];
    int64_t use = use_of(x, edge, x->step[rank], t->microbatch);
    int64_t step = x->step[rank];
    buffer *b = &x->out[edge][place_of(x, edge, e->buffers ? e->buffers : 1, step, e->order[t->microbatch])];
    if (reader >= 0 && e->reader_buffers[reader])
        b = &x->own[edge][reader][place_of(x, edge, e->reader_buffers[reader], step, e->order[t->microbatch])];
    if (b->use != use)
        return watch_say("stage %d reads edge %d and finds use %lld, wants %lld", t->stage, edge, (long long)b->use,
                         (long long)use);
    bool remote = reader >= 0 && e->reader_rank[reader] != ppl_plan_edge_rank(x->p, edge);
    if (remote && !e->reader_buffers[reader] && b->sent_use != use)
        return watch_say("stage %d reads use %lld of edge %d before its send", t->stage, (long long)use, edge);
    if (last && (!remote || e->reader_buffers[reader])) b->readers--; // a remote one lets go at its RELEASE
    return NULL;
}

static const char *run_program(replay *x, int32_t rank, const ppl_task *t) {
    const ppl_plan *p = x->p;
    const char *bad;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        const ppl_edge *e = &p->stages->edges[i];
        if (e->kind == PPL_U) {
            const buffer *b = &x->out[i][0];
            if (e->src == t->stage && t->microbatch == 0 && phase_of(t, PPL_PHASE_W) && b->use >= 0 && b->readers)
                return watch_say("stage %d begins to write edge %d while %d still read it", t->stage, i, b->readers);
            continue;
        }
        int32_t made = e->kind == PPL_F ? PPL_PHASE_F : PPL_PHASE_I;
        for (int32_t k = 0; k < e->n_readers; k++) {
            if (e->readers[k].stage != t->stage) continue;
            int32_t first = first_read(p, i, k), last = p->options.forward_only ? PPL_PHASE_F : e->readers[k].last;
            bool reads = false;
            for (int32_t f = first; f <= last; f++) reads |= phase_of(t, f);
            if (reads && (bad = read_edge(x, rank, t, i, k, phase_of(t, last)))) return bad;
        }
        if (e->src != t->stage) continue;
        if (phase_of(t, made) && (bad = write_edge(x, rank, t, i))) return bad;
        if (e->src_last >= 0 && !p->options.forward_only && phase_of(t, e->src_last) &&
            (bad = read_edge(x, rank, t, i, -1, true)))
            return bad;
    }
    return NULL;
}

static int64_t uses_before(const replay *x, const ppl_task *t, int64_t step) { // of the task's buffer
    const ppl_edge_plan *e = &x->p->edge[t->edge];
    int32_t uses = ppl_plan_uses(x->p, t->edge);
    if (ppl_plan_flows(x->p)) return (step * uses + t->sequence) / e->buffers;
    return step * (uses / e->buffers + (t->buffer < uses % e->buffers)) + t->sequence / e->buffers;
}

static const ppl_task *task_at(const ppl_plan *p, int32_t rank, int64_t turn) {
    return turn < p->rank[rank].count ? &p->rank[rank].tasks[ppl_plan_turn(p, rank, turn)] : NULL;
}

// Where receives may begin early: what the program behind this one receives must find its buffers free by now.
static const char *check_early(const replay *x, int32_t rank) {
    const ppl_plan *p = x->p;
    const ppl_task *t;
    if (!p->options.receive_early || x->at[rank] != ppl_plan_turn(p, rank, x->turn[rank])) return NULL;
    for (int64_t k = x->turn[rank] + 1; (t = task_at(p, rank, k)); k++) {
        bool program = t->kind == PPL_TASK_F || t->kind == PPL_TASK_B || t->kind == PPL_TASK_I || t->kind == PPL_TASK_W;
        if (program || t->kind == PPL_TASK_VALIDATE || t->kind == PPL_TASK_NORM) return NULL;
        if (t->kind != PPL_TASK_RECEIVE) continue;
        int32_t buffers = p->edge[t->edge].reader_buffers[t->slot];
        int64_t step = x->round[rank] + (ppl_plan_turn(p, rank, k) < ppl_plan_ahead(p, rank));
        if (step < 0 || step >= x->steps) return NULL;
        const buffer *own =
            buffers ? &x->own[t->edge][t->slot][place_of(x, t->edge, buffers, step, t->sequence)] : NULL;
        if (own && own->use >= 0 && own->readers)
            return watch_say("edge %d: an early receive overwrites what is still read", t->edge);
    }
    return NULL;
}

// Does one task if it need not wait; *done tells. Link tasks as link.h has them: tickets counted by buffer.
static const char *run_task(replay *x, int32_t rank, bool *done) {
    const ppl_plan *p = x->p;
    const ppl_task *t = &p->rank[rank].tasks[x->at[rank]];
    const ppl_edge_plan *e = t->edge >= 0 ? &p->edge[t->edge] : NULL;
    buffer *b = e ? &x->out[t->edge][place_of(x, t->edge, e->buffers, x->step[rank], t->buffer)] : NULL;
    int64_t before = e ? uses_before(x, t, x->step[rank]) : 0;
    *done = true;
    switch ((ppl_task_kind)t->kind) {
    case PPL_TASK_CREDIT:
        for (int32_t i = 0; i < e->n_readers; i++)
            if (e->reader_rank[i] != rank && b->freed[i] < before) *done = false;
        return NULL;
    case PPL_TASK_RECEIVE:
        if (b->sent <= before) {
            *done = false;
            return NULL;
        }
        if (b->sent != before + 1)
            return watch_say("edge %d buffer %d was sent again before it was received", t->edge, t->buffer);
        if (e->reader_buffers[t->slot]) {
            int32_t own_place = place_of(x, t->edge, e->reader_buffers[t->slot], x->step[rank], t->sequence);
            buffer *own = &x->own[t->edge][t->slot][own_place];
            if (own->use >= 0 && own->readers)
                return watch_say("edge %d: a receive overwrites what is still read", t->edge);
            *own = (buffer){.use = b->use, .readers = p->stages->edges[t->edge].kind != PPL_U};
            b->readers--;
            b->freed[t->slot]++;
        }
        return NULL;
    case PPL_TASK_SEND:
        if (p->stages->edges[t->edge].kind == PPL_U) b->use = x->step[rank], b->readers = count_holders(p, t->edge);
        b->sent_use = b->use;
        b->sent++;
        return NULL;
    case PPL_TASK_RELEASE:
        b->readers--;
        b->freed[t->slot]++;
        return NULL;
    case PPL_TASK_F:
    case PPL_TASK_B:
    case PPL_TASK_I:
    case PPL_TASK_W: {
        const char *bad = check_early(x, rank);
        if (!bad) bad = run_program(x, rank, t);
        return bad ? bad : watch_task(x->inside, t, x->step[rank]);
    }
    case PPL_TASK_UPDATE: return watch_task(x->inside, t, x->step[rank]);
    case PPL_TASK_NORM:
    case PPL_TASK_VALIDATE:
    case PPL_TASK_KINDS: break;
    }
    return NULL;
}

static void close_replay(replay *x) {
    for (int32_t i = 0; i < x->p->stages->n_edges; i++) {
        for (int32_t k = 0; k < x->p->edge[i].buffers; k++) free(x->out[i][k].freed);
        for (int32_t k = 0; k < x->p->edge[i].n_readers; k++) free(x->own[i][k]);
        free(x->out[i]);
        free(x->own[i]);
    }
    free(x->out);
    free(x->own);
    free(x->at);
    free(x->step);
    free(x->turn);
    free(x->round);
    free(x->second);
    watch_close(x->inside);
}

static void open_replay(replay *x, const ppl_plan *p) {
    size_t edges = (size_t)p->stages->n_edges + 1;
    *x = (replay){.p = p};
    x->out = calloc(edges, sizeof *x->out);
    x->own = calloc(edges, sizeof *x->own);
    x->at = calloc((size_t)p->ranks, sizeof *x->at);
    x->step = calloc((size_t)p->ranks, sizeof *x->step);
    x->turn = calloc((size_t)p->ranks, sizeof *x->turn);
    x->round = calloc((size_t)p->ranks, sizeof *x->round);
    x->second = calloc((size_t)p->ranks, sizeof *x->second);
    x->inside = watch_open(p);
    for (int32_t r = 0; r < p->ranks; r++) x->round[r] = ppl_plan_ahead(p, r) ? -1 : 0;
    for (int32_t i = 0; i < p->stages->n_edges; i++) {
        const ppl_edge_plan *e = &p->edge[i];
        x->out[i] = calloc((size_t)e->buffers + 1, sizeof **x->out);
        x->own[i] = calloc((size_t)e->n_readers, sizeof **x->own);
        for (int32_t k = 0; k < e->buffers; k++)
            x->out[i][k] = (buffer){.use = -1, .sent_use = -1, .freed = calloc((size_t)e->n_readers, sizeof(int64_t))};
        for (int32_t k = 0; k < e->n_readers; k++) {
            x->own[i][k] = calloc((size_t)e->reader_buffers[k] + 1, sizeof ***x->own);
            for (int32_t n = 0; n < e->reader_buffers[k]; n++) x->own[i][k][n].use = -1;
        }
    }
}

// Finds the rank's next task of one of the steps, from its present turn on; false: there is none.
static bool find_task(replay *x, int32_t rank, int32_t steps) {
    int64_t count = x->p->rank[rank].count, ahead = ppl_plan_ahead(x->p, rank);
    for (; x->round[rank] < steps; x->round[rank]++, x->turn[rank] = 0)
        for (; x->turn[rank] < count; x->turn[rank]++) {
            x->at[rank] = ppl_plan_turn(x->p, rank, x->turn[rank]);
            x->step[rank] = x->round[rank] + (x->at[rank] < ahead);
            if (x->step[rank] >= 0 && x->step[rank] < steps) return true;
        }
    return false;
}

// Where the action begins that may run beside the one that the rank is in; -1: there is none.
static int64_t find_second(const replay *x, int32_t rank) {
    const ppl_task *first = task_at(x->p, rank, x->turn[rank]), *t;
    if (first->stream || first->action < 0) return -1;
    for (int64_t k = x->turn[rank] + 1; (t = task_at(x->p, rank, k)); k++) {
        if (t->action == first->action || t->kind == PPL_TASK_VALIDATE) continue;
        return t->action == first->action + 1 && t->stream ? k : -1;
    }
    return -1;
}

// The next task of that action instead, if it need not wait; false: it has none left, or waits.
static bool run_second(replay *x, int32_t rank, const char **bad) {
    int64_t begin = find_second(x, rank), at = x->at[rank];
    const ppl_task *t = begin < 0 ? NULL : task_at(x->p, rank, begin + x->second[rank]);
    if (!t || !t->stream || t->action != task_at(x->p, rank, begin)->action) return false;
    bool done;
    x->at[rank] = t - x->p->rank[rank].tasks;
    *bad = run_task(x, rank, &done);
    x->at[rank] = at;
    if (done) x->second[rank]++, x->beside = true;
    return done;
}

// Behind a task: what has run already is left out.
static void next_turn(replay *x, int32_t rank) {
    const ppl_task *was = task_at(x->p, rank, x->turn[rank]++), *t = task_at(x->p, rank, x->turn[rank]);
    if (!t || !t->stream || was->stream) return;
    x->turn[rank] += x->second[rank];
    x->second[rank] = 0;
}

const char *plan_replay(const ppl_plan *p, int32_t steps, uint64_t seed) {
    replay x;
    open_replay(&x, p);
    x.steps = steps;
    const char *bad = NULL;
    int32_t idle = 0;
    for (uint64_t n = 0; !bad && idle < 64 * p->ranks; n++) {
        uint32_t bits[4];
        ppl_philox(seed, n, 0, bits);
        int32_t rank = (int32_t)(bits[0] % (uint32_t)p->ranks);
        bool done = false;
        for (uint32_t burst = bits[1] % 8; !bad && find_task(&x, rank, steps); burst--) {
            done = (bits[2] >> burst & 1) && run_second(&x, rank, &bad);
            if (!done) {
                bad = run_task(&x, rank, &done);
                if (!done || bad) break;
                next_turn(&x, rank);
            }
            if (!burst) break;
        }
        idle = done ? 0 : idle + 1;
    }
    for (int32_t r = 0; !bad && r < p->ranks; r++)
        if (find_task(&x, r, steps))
            bad = watch_say("rank %d stops at task %lld of step %lld", r, (long long)x.at[r], (long long)x.step[r]);
    if (!bad && !x.beside) bad = watch_end(x.inside); // else fewer may have been alive
    close_replay(&x);
    return bad;
}
