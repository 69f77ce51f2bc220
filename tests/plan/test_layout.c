// test_layout.c - the layout of real graphs: every program is run over memory that only remembers which value was written
// where, and must find each input where it was left. Edges with skips, ties and several readers are replayed.
#include "plan/graphs.h"
#include "support/plans.h"
#include "support/schedules.h"

// Memory that knows the value in each of its 64 bytes.
typedef struct tags {
    int32_t *of; // value + 1
    size_t count;
} tags;

typedef struct memory {
    const ppl_plan *p;
    tags *slot, *pending, *edge; // [stages], [stages], [edges]
    tags *work, *grad;           // [ranks]
} memory;

static tags make_tags(size_t bytes) {
    tags t = {.count = (bytes + 63) / 64};
    t.of = calloc(t.count + 1, sizeof *t.of);
    return t;
}

static tags *tags_at(const memory *m, int32_t stage, const ppl_place *place) {
    int32_t rank = m->p->stage_rank[stage];
    switch ((ppl_region)place->region) {
    case PPL_REGION_SLOT: return &m->slot[stage];
    case PPL_REGION_PENDING: return &m->pending[stage];
    case PPL_REGION_EDGE: return &m->edge[place->index];
    case PPL_REGION_WORK: return &m->work[rank];
    case PPL_REGION_GRAD: return &m->grad[rank];
    case PPL_REGION_NONE:
    case PPL_REGION_PARAM:
    case PPL_REGION_SEED: break;
    }
    return NULL;
}

static void write_value(const memory *m, int32_t stage, ppl_value v) {
    const ppl_graph *g = m->p->stages->graph;
    const ppl_place *place = &m->p->layout[stage].place[v];
    tags *t = tags_at(m, stage, place);
    if (!t) fail_msg("stage %d: value %d has no memory", stage, v);
    size_t first = place->offset / 64, n = (ppl_type_bytes(&g->values[v].type) + 63) / 64;
    assert_int_equal(place->offset % 64, 0);
    if (first + n > t->count) fail_msg("stage %d: value %d ends outside its region %d", stage, v, place->region);
    for (size_t i = 0; i < n; i++) t->of[first + i] = v + 1;
}

static void read_value(const memory *m, int32_t stage, ppl_value v) {
    const ppl_graph *g = m->p->stages->graph;
    ppl_value root = ppl_graph_root(g, v);
    const ppl_place *place = &m->p->layout[stage].place[v], *at = &m->p->layout[stage].place[root];
    assert_int_equal(place->region, at->region);
    assert_int_equal(place->offset, at->offset);
    if (g->values[root].kind == PPL_VALUE_PARAM) {
        assert_int_equal(place->region, PPL_REGION_PARAM);
        assert_int_equal(place->index, g->values[root].param);
        return;
    }
    if (g->values[root].kind == PPL_VALUE_SEED) {
        assert_int_equal(place->region, PPL_REGION_SEED);
        return;
    }
    const tags *t = tags_at(m, stage, place);
    if (!t) fail_msg("stage %d: value %d has no memory", stage, v);
    size_t first = place->offset / 64, n = (ppl_type_bytes(&g->values[v].type) + 63) / 64;
    for (size_t i = 0; i < n; i++)
        if (t->of[first + i] != root + 1)
            fail_msg("stage %d: value %d was overwritten by %d (region %d)", stage, v, t->of[first + i] - 1,
                     place->region);
}

static void run_phase(const memory *m, int32_t stage, int32_t phase) {
    const ppl_stage *s = &m->p->stages->stage[stage];
    const ppl_graph *g = m->p->stages->graph;
    tags *work = &m->work[m->p->stage_rank[stage]];
    memset(work->of, 0, work->count * sizeof *work->of);
    for (int32_t i = 0; phase == PPL_PHASE_F && i < s->n_inputs; i++) write_value(m, stage, s->inputs[i]);
    for (int32_t i = 0; i < s->program[phase].count; i++) {
        const ppl_node *n = &g->nodes[s->program[phase].nodes[i]];
        for (int32_t k = 0; k < n->outputs; k++) write_value(m, stage, n->out[k]);
        for (int32_t k = 0; k < n->inputs; k++) read_value(m, stage, n->in[k]); // the outputs must not have hit them
        for (int32_t k = 0; k < n->outputs; k++) read_value(m, stage, n->out[k]);
    }
    if (phase == PPL_PHASE_F && stage == m->p->stages->count - 1) read_value(m, stage, g->loss); // to its end
}

static void check_layout(const ppl_plan *p) {
    int32_t stages = p->stages->count;
    bool forward_only = p->options.forward_only;
    memory m = {.p = p};
    m.slot = calloc((size_t)stages, sizeof *m.slot);
    m.pending = calloc((size_t)stages, sizeof *m.pending);
    m.edge = calloc((size_t)p->stages->n_edges + 1, sizeof *m.edge);
    m.work = calloc((size_t)p->ranks, sizeof *m.work);
    m.grad = calloc((size_t)p->ranks, sizeof *m.grad);
    for (int32_t k = 0; k < stages; k++) {
        m.slot[k] = make_tags(p->layout[k].slot_bytes);
        m.pending[k] = make_tags(p->layout[k].pending_bytes);
    }
    for (int32_t i = 0; i < p->stages->n_edges; i++) m.edge[i] = make_tags(p->stages->edges[i].bytes);
    for (int32_t r = 0; r < p->ranks; r++) {
        m.work[r] = make_tags(p->rank[r].work_bytes);
        m.grad[r] = make_tags(p->rank[r].grad_bytes);
    }
    for (int32_t k = 0; k < stages; k++) run_phase(&m, k, PPL_PHASE_F);
    for (int32_t k = stages - 1; !forward_only && k >= 0; k--) run_phase(&m, k, PPL_PHASE_I);
    for (int32_t k = stages - 1; !forward_only && k >= 0; k--) run_phase(&m, k, PPL_PHASE_W);
    for (int32_t k = 0; !forward_only && k < stages;
         k++) { // all accumulators are there at the step's end, also the tied ones of others
        const ppl_graph *g = p->stages->graph;
        for (int32_t i = 0; i < p->stages->stage[k].n_params; i++) {
            const ppl_param *param_ = &g->params[p->stages->stage[k].params[i]];
            for (int32_t u = 0; u < param_->n_uses; u++)
                if (p->layout[k].place[param_->uses[u]].region != PPL_REGION_NONE) read_value(&m, k, param_->uses[u]);
                else fail_msg("stage %d: gradient %d of %s is nowhere", k, param_->uses[u], param_->name);
        }
    }
    for (int32_t k = 0; k < stages; k++) free(m.slot[k].of), free(m.pending[k].of);
    for (int32_t i = 0; i < p->stages->n_edges; i++) free(m.edge[i].of);
    for (int32_t r = 0; r < p->ranks; r++) free(m.work[r].of), free(m.grad[r].of);
    free(m.slot), free(m.pending), free(m.edge), free(m.work), free(m.grad);
}

// Where a task of this kind stands for an edge (and a reader of it) on a rank, -1 nowhere; it must not stand twice.
static int64_t find_task(const ppl_plan *p, int32_t rank, int32_t kind, int32_t edge, int32_t reader) {
    int64_t found = -1;
    for (int64_t at = 0; at < p->rank[rank].count; at++) {
        const ppl_task *t = &p->rank[rank].tasks[at];
        if (t->kind != kind || t->edge != edge || t->slot != reader) continue;
        assert_int_equal(found, -1);
        found = at;
    }
    return found;
}

// Accumulators of tied parameters: a credit before the first W that writes them, handed over behind the last action, read
// by the updates, given back behind those.
static void check_tied(const ppl_plan *p) {
    for (int32_t i = 0; !p->options.forward_only && i < p->stages->n_edges; i++) {
        const ppl_edge *e = &p->stages->edges[i];
        if (e->kind != PPL_U) continue;
        int32_t from = p->stage_rank[e->src];
        bool crosses = false;
        for (int32_t k = 0; k < e->n_readers; k++) {
            int32_t to = p->stage_rank[e->readers[k].stage];
            bool remote = to != from, copies = p->edge[i].reader_buffers[k] > 0;
            crosses |= remote;
            int64_t receive = find_task(p, to, PPL_TASK_RECEIVE, i, k),
                    release = find_task(p, to, PPL_TASK_RELEASE, i, k);
            int64_t norm = find_task(p, to, PPL_TASK_NORM, -1, -1);
            assert_int_equal(copies, remote && (p->options.copy_links || p->options.validate));
            assert_int_equal(receive >= 0, remote);
            assert_int_equal(release >= 0, remote && !copies);
            if (remote) assert_true(receive < norm);
            if (release >= 0) assert_true(release > norm + p->rank[to].n_stages);
        }
        int64_t credit = find_task(p, from, PPL_TASK_CREDIT, i, -1), send = find_task(p, from, PPL_TASK_SEND, i, -1);
        assert_int_equal(credit >= 0, crosses);
        assert_int_equal(send >= 0, crosses);
        if (crosses) assert_true(send < find_task(p, from, PPL_TASK_NORM, -1, -1));
        for (int64_t at = 0; crosses && at < credit; at++) {
            const ppl_task *t = &p->rank[from].tasks[at];
            assert_false(t->stage == e->src && (t->kind == PPL_TASK_B || t->kind == PPL_TASK_W));
        }
        for (int64_t at = send; crosses && at < p->rank[from].count; at++)
            assert_true(p->rank[from].tasks[at].kind < PPL_TASK_F || p->rank[from].tasks[at].kind > PPL_TASK_W);
    }
}

static void check_one(const ppl_graph *g, const ppl_schedule *s, const ppl_plan_options *options) {
    int32_t first[16];
    ppl_stages *stages;
    ppl_plan *p;
    OK(ppl_graph_cut_even(g, s->stages, first));
    OK(ppl_stages_build(g, s->stages, first, &stages));
    OK(ppl_plan_build(s, stages, options, &p));
    check_layout(p);
    check_tied(p);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const char *bad = plan_replay(p, 3, seed);
        if (bad)
            fail_msg("%s p=%d m=%d copies=%d validate=%d forward=%d: %s", s->name, s->ranks, s->microbatches,
                     options->copy_links, options->validate, options->forward_only, bad);
    }
    ppl_plan_close(p);
    ppl_stages_free(stages);
}

static void test_graphs(void **state) {
    (void)state;
    ppl_graph *g = make_graph(6);
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t m = 1; m <= 6; m++) {
                if (o == ORDER_INTERLEAVED && m % p) continue;
                ppl_schedule *s = schedule_make((order)o, p, m, 2);
                for (int32_t bits = 0; bits < 6; bits++)
                    check_one(g, s,
                              &(ppl_plan_options){.copy_links = bits & 1,
                                                  .receive_early = (bits & 1) && m % 2,
                                                  .validate = bits / 2 == 1,
                                                  .forward_only = bits / 2 == 2});
                ppl_schedule_close(s);
            }
    ppl_graph_close(g);
}

// Actions that run beside one another, in any order of their tasks.
static void test_beside(void **state) {
    (void)state;
    ppl_graph *g = make_graph(6);
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t m = 2; m <= 6; m++) {
                if (o == ORDER_INTERLEAVED && m % p) continue;
                ppl_schedule *s = schedule_make((order)o, p, m, 2);
                schedule_pair(s, (uint32_t)(o + p * m));
                for (int32_t bits = 0; bits < 4; bits++)
                    check_one(g, s,
                              &(ppl_plan_options){.copy_links = bits & 1, .validate = bits / 2 == 1, .streams = 2});
                ppl_schedule_close(s);
            }
    ppl_graph_close(g);
}

static void test_memory(void **state) {
    (void)state;
    ppl_graph *g = make_graph(2);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 4, 1);
    ppl_stages *stages;
    ppl_plan *p;
    OK(ppl_stages_build(g, 2, (int32_t[]){0, 2}, &stages));
    ppl_plan_options options = {0};
    OK(ppl_plan_build(s, stages, &options, &p));
    assert_int_equal(p->layout[0].slots, 2);
    assert_int_equal(p->layout[1].slots, 1);
    assert_int_equal(p->layout[0].pendings, 1);
    int64_t sum = 0;
    static const int32_t kinds[] = {PPL_MEM_ACTIVATIONS, PPL_MEM_PENDING,   PPL_MEM_EDGES,
                                    PPL_MEM_WORKSPACE,   PPL_MEM_GRADIENTS, PPL_MEM_PARAMETERS};
    for (int32_t i = 0; i < 6; i++) sum += ppl_plan_memory(p, 0, kinds[i]);
    assert_int_equal(ppl_plan_memory(p, 0, PPL_MEM_ACTIVATIONS), 2 * (int64_t)p->layout[0].slot_bytes);
    assert_int_equal(ppl_plan_memory(p, 0, PPL_MEM_GRADIENTS), p->rank[0].grad_bytes);
    assert_int_equal(ppl_plan_memory(p, 0, PPL_MEM_OTHER), 0);
    assert_int_equal(ppl_plan_memory(p, 2, PPL_MEM_EDGES), 0);
    assert_int_equal(p->rank[0].n_params, 2); // wte and block0.w
    assert_int_equal(p->rank[1].n_params, 2); // wte and block1.w
    char want[256];
    snprintf(want, sizeof want,
             "rank 0: the plan takes %lld bytes (activations %lld, pending %lld, edges %lld, workspace %lld, gradients "
             "%lld, parameters %lld), want at most %lld",
             (long long)sum, (long long)ppl_plan_memory(p, 0, kinds[0]), (long long)ppl_plan_memory(p, 0, kinds[1]),
             (long long)ppl_plan_memory(p, 0, kinds[2]), (long long)ppl_plan_memory(p, 0, kinds[3]),
             (long long)ppl_plan_memory(p, 0, kinds[4]), (long long)ppl_plan_memory(p, 0, kinds[5]),
             (long long)sum - 1);
    ppl_plan_close(p);
    options.memory_limit = (size_t)sum - 1;
    FAILS(PPL_ERR_MEMORY, want, ppl_plan_build(s, stages, &options, &p));
    assert_null(p);
    ppl_schedule_close(s);
    ppl_stages_free(stages);
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs), cmocka_unit_test(test_beside),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests_name("plan/layout", tests, NULL, NULL);
}
