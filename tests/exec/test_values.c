// test_values.c - training a small model on the reference device: losses, norms and weights are bit-equal over stages,
// placements, schedules, links and ways of clipping, and numbers that are not finite end the run by name.
#include "exec/model.h"

#include "support/interpret.h"

static ppl_optimizer_options adamw(int32_t clip, double norm) {
    return (ppl_optimizer_options){.kind = PPL_ADAMW,
                                   .lr = 0.02,
                                   .beta1 = 0.9,
                                   .beta2 = 0.99,
                                   .eps = 1e-8,
                                   .weight_decay = 0.1,
                                   .clip = clip,
                                   .clip_norm = norm};
}

typedef struct outcome {
    model m;
    double loss_forward[MICROBATCHES]; // of step 0's data with dropout off, after training
    double *weights, *gradients;       // of all parameters, one after the other
    size_t numbers;
} outcome;

static void outcome_read(outcome *o, const ppl_graph *g, const model_run *r) {
    o->numbers = 0;
    for (size_t i = 0; i < g->n_params; i++) o->numbers += (size_t)ppl_type_elements(&g->params[i].type);
    o->weights = calloc(o->numbers, sizeof(double));
    o->gradients = calloc(o->numbers, sizeof(double));
    size_t at = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        OK(ppl_store_read(r->store, (int32_t)i, PPL_PART_WEIGHT, o->weights + at));
        OK(ppl_exec_gradient(r->exec, (int32_t)i, o->gradients + at));
        at += (size_t)ppl_type_elements(&g->params[i].type);
        const ppl_store_entry *first = ppl_store_first(r->store, (int32_t)i);
        for (int32_t k = 0; k < r->store->ranks; k++) { // tied copies are bit-equal
            const ppl_store_entry *e = ppl_store_at(r->store, k, (int32_t)i);
            if (e->master) assert_memory_equal(e->master, first->master, ppl_type_bytes(&g->params[i].type));
        }
    }
}

// Trains STEPS steps in pieces of 1 and the rest, evaluates.
static outcome train(ppl_graph *g, ppl_schedule *s, bool copies, const ppl_optimizer_options *o, uint64_t delay_seed) {
    outcome out;
    ppl_exec_client client = model_client(&out.m, g, o);
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    options.delay_seed = delay_seed;
    options.delay = 100e-6;
    model_run r = model_open(g, s, copies, &options, &client);
    int64_t done;
    OK(ppl_exec_steps(r.exec, 0, 1, &done));
    OK(ppl_exec_steps(r.exec, 1, STEPS - 1, &done));
    for (int32_t k = 0; k < r.plan->ranks; k++) assert_int_equal(out.m.peak[k], r.plan->rank[k].peak_live);
    for (int32_t k = 0; k < STEPS; k++) assert_int_equal(out.m.told[k], 1);
    outcome_read(&out, g, &r);
    double kept[MICROBATCHES];
    memcpy(kept, out.m.loss[0], sizeof kept);
    OK(ppl_exec_forward(r.exec, 0, 1));
    memcpy(out.loss_forward, out.m.loss[0], sizeof kept);
    memcpy(out.m.loss[0], kept, sizeof kept);
    model_close(&r);
    ppl_schedule_close(s);
    return out;
}

static void outcome_clear(outcome *o) {
    free(o->weights);
    free(o->gradients);
}

static void assert_same(const outcome *a, const outcome *b) {
    assert_memory_equal(a->m.loss, b->m.loss, sizeof a->m.loss);
    assert_memory_equal(a->m.norm, b->m.norm, sizeof a->m.norm);
    assert_memory_equal(a->m.clipped, b->m.clipped, sizeof a->m.clipped);
    assert_memory_equal(a->loss_forward, b->loss_forward, sizeof a->loss_forward);
    assert_memory_equal(a->gradients, b->gradients, a->numbers * sizeof(double));
    assert_memory_equal(a->weights, b->weights, a->numbers * sizeof(double));
}

// One step against the whole graph run node by node, without stages, plans or links.
static void test_interpreted(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options o = adamw(PPL_CLIP_NONE, 0);
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 3, MICROBATCHES, 1);
    model_run r = model_open(g, s, false, &options, &client);
    ppl_interpret t;
    OK(ppl_interpret_open(&t, g, "reference", 1));
    double x[WORDS * WIDTH * 2], want[WORDS * WIDTH * 2], loss[MICROBATCHES], squares = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        OK(ppl_store_read(r.store, (int32_t)i, PPL_PART_WEIGHT, x));
        ppl_interpret_write(&t, g->params[i].value, x);
    }
    for (int32_t mb = 0; mb < MICROBATCHES; mb++) {
        for (size_t v = 0; v < g->n_values; v++) {
            if (g->values[v].kind != PPL_VALUE_INPUT) continue;
            int32_t ids[SAMPLES * TOKENS];
            OK(model_fill(&m, 0, mb, (ppl_value)v, ids));
            for (int i = 0; i < SAMPLES * TOKENS; i++) x[i] = ids[i];
            ppl_interpret_write(&t, (ppl_value)v, x);
        }
        t.env = (ppl_call_env){.seed = options.seed, .step = 0, .first_sample = mb * SAMPLES, .training = true};
        OK(ppl_interpret_forward(&t));
        ppl_interpret_read(&t, g->loss, &loss[mb]);
        OK(ppl_interpret_backward(&t, 1 / model_weight(&m, 0), mb > 0));
    }
    int64_t done;
    OK(ppl_exec_steps(r.exec, 0, 1, &done));
    assert_memory_equal(loss, m.loss[0], sizeof loss);
    for (size_t i = 0; i < g->n_params; i++) {
        OK(ppl_exec_gradient(r.exec, (int32_t)i, x));
        ppl_interpret_gradient(&t, (int32_t)i, want);
        int64_t n = ppl_type_elements(&g->params[i].type);
        assert_memory_equal(x, want, (size_t)n * sizeof(double));
        for (int64_t k = 0; k < n; k++) squares += want[k] * want[k];
    }
    assert_float_equal(m.norm[0], sqrt(squares), 1e-12);
    ppl_interpret_close(&t);
    model_close(&r);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

// A norm that clips some of the steps.
static double middle_norm(const outcome *o) {
    double low = o->m.norm[0], high = o->m.norm[0];
    for (int i = 1; i < STEPS; i++) {
        low = fmin(low, o->m.norm[i]);
        high = fmax(high, o->m.norm[i]);
    }
    assert_true(high > low);
    return (low + high) / 2;
}

#ifdef __SANITIZE_THREAD__
enum { EVERY = 3 }; // slow: a third of the combinations
#else
enum { EVERY = 1 };
#endif

static void all_equal(int32_t dtype) {
    ppl_graph *g = model_graph(dtype);
    ppl_optimizer_options none = adamw(PPL_CLIP_NONE, 0);
    outcome free_run = train(g, schedule_make(ORDER_NAIVE, 1, MICROBATCHES, 1), false, &none, 0);
    double norm = middle_norm(&free_run);
    ppl_optimizer_options before = adamw(PPL_CLIP_BEFORE, norm), after = adamw(PPL_CLIP_AFTER, norm);
    outcome one = train(g, schedule_make(ORDER_NAIVE, 1, MICROBATCHES, 1), false, &before, 0);
    int clipped = 0;
    for (int i = 0; i < STEPS; i++) clipped += one.m.clipped[i];
    assert_true(clipped > 0 && clipped < STEPS);
    assert_true(one.m.loss[0][0] > 0 && one.m.loss[0][0] != one.loss_forward[0]);
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 4; p += p < 2 ? 1 : 2) // 1, 2, 4
            for (int kind = 0; kind < 3; kind++) {
                bool copies = (o + p + kind) % 2;
                if ((o + p + kind) % EVERY) continue;
                ppl_schedule *s = schedule_make(o, p, MICROBATCHES, 2);
                outcome out = train(g, s, copies, kind == 0 ? &none : kind == 1 ? &before : &after, 0);
                assert_same(kind == 0 ? &free_run : &one, &out);
                outcome_clear(&out);
            }
    outcome_clear(&free_run);
    outcome_clear(&one);
    ppl_graph_close(g);
}

static void test_f32(void **state) {
    (void)state;
    all_equal(PPL_F32);
}
static void test_bf16(void **state) {
    (void)state;
    all_equal(PPL_BF16);
}

// Every step is rolled back while sends and tasks are delayed: the bits stay those of clipping before.
static void test_rollback(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options before = adamw(PPL_CLIP_BEFORE, 1e-3), after = adamw(PPL_CLIP_AFTER, 1e-3);
    outcome one = train(g, schedule_make(ORDER_NAIVE, 1, MICROBATCHES, 1), false, &before, 0);
    for (int i = 0; i < STEPS; i++) assert_int_equal(one.m.clipped[i], 1);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        int32_t kind = seed % 3 == 0 ? ORDER_ZB_H1 : seed % 3 == 1 ? ORDER_1F1B : ORDER_V;
        outcome out = train(g, schedule_make(kind, 2 + (int32_t)seed % 3, MICROBATCHES, 2), seed % 2, &after, seed);
        assert_same(&one, &out);
        outcome_clear(&out);
    }
    outcome_clear(&one);
    ppl_graph_close(g);
}

// Clipping by stage is refused where a parameter is tied over stages, and scales each stage by itself elsewhere.
static void test_stage_clip(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options o = adamw(PPL_CLIP_STAGE, 1e-2);
    outcome one = train(g, schedule_make(ORDER_NAIVE, 1, MICROBATCHES, 1), false, &o, 0);
    o.clip = PPL_CLIP_BEFORE; // with one stage, its norm is the norm
    outcome same = train(g, schedule_make(ORDER_NAIVE, 1, MICROBATCHES, 1), false, &o, 0);
    assert_same(&one, &same);
    outcome_clear(&one);
    outcome_clear(&same);
    o.clip = PPL_CLIP_STAGE;
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, MICROBATCHES, 1);
    int32_t cut[2];
    ppl_stages *stages;
    ppl_plan *plan;
    ppl_store *store;
    ppl_exec *e;
    OK(ppl_graph_cut_even(g, 2, cut));
    OK(ppl_stages_build(g, 2, cut, &stages));
    OK(ppl_plan_build(s, stages, &(ppl_plan_options){0}, &plan));
    bool uses[2 * 64];
    memset(uses, 1, sizeof uses);
    OK(ppl_store_build(g, 2, uses, 3, &o, &store));
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    FAILS(PPL_ERR_ARG, "parameter table is tied over stages 0 and 1: clip is by stage, want it before or none",
          ppl_exec_open(plan, store, &options, &client, &e));
    ppl_store_free(store);
    ppl_plan_close(plan);
    ppl_stages_free(stages);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

// What the executor says it took is what the plan says it takes.
static void test_memory(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_BF16);
    ppl_optimizer_options o = adamw(PPL_CLIP_NONE, 0);
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, MICROBATCHES, 1);
    model_run r = model_open(g, s, false, &options, &client);
    for (int32_t k = 0; k < 2; k++) {
        int64_t slots = 0, parameters = 0;
        const ppl_stage_layout *l = &r.plan->layout[k], *forward = &r.eval->layout[k];
        slots = (int64_t)((size_t)l->slots * l->slot_bytes + (size_t)forward->slots * forward->slot_bytes);
        for (int32_t i = 0; i < r.plan->rank[k].n_params; i++) // bf16 and its f32 master
            parameters += 6 * ppl_type_elements(&g->params[r.plan->rank[k].params[i]].type);
        assert_int_equal(ppl_exec_memory(r.exec, k, PPL_MEM_ACTIVATIONS), slots);
        assert_int_equal(ppl_exec_memory(r.exec, k, PPL_MEM_PARAMETERS), parameters);
        assert_int_equal(ppl_exec_memory(r.exec, k, PPL_MEM_GRADIENTS), r.plan->rank[k].grad_bytes);
        assert_true(ppl_exec_memory(r.exec, k, PPL_MEM_EDGES) > 0);
        assert_true(ppl_exec_memory(r.exec, k, PPL_MEM_WORKSPACE) >= (int64_t)r.plan->rank[k].work_bytes);
        assert_true(ppl_exec_memory(r.exec, k, PPL_MEM_OTHER) > 0);
    }
    model_close(&r);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

// A weight that is not a number: the loss says so, and no weight of that step moves.
static void test_bad_loss(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options o = adamw(PPL_CLIP_BEFORE, 1);
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, MICROBATCHES, 1);
    model_run r = model_open(g, s, false, &options, &client);
    double table[WORDS * WIDTH], after[WORDS * WIDTH];
    int64_t done;
    OK(ppl_exec_steps(r.exec, 0, 1, &done));
    OK(ppl_store_read(r.store, 0, PPL_PART_WEIGHT, table));
    for (int i = 0; i < WORDS * WIDTH; i++) table[i] = i == 3 ? NAN : table[i];
    OK(ppl_store_write(r.store, 0, PPL_PART_WEIGHT, table));
    OK(ppl_exec_weights_changed(r.exec));
    assert_int_equal(ppl_exec_steps(r.exec, 1, 2, &done), PPL_ERR_NUMBER);
    assert_int_equal(done, 0);
    assert_non_null(strstr(ppl_error(), "step 1, stage 1, microbatch "));
    assert_non_null(strstr(ppl_error(), "the loss is "));
    OK(ppl_store_read(r.store, 0, PPL_PART_WEIGHT, after));
    for (int i = 0; i < WORDS * WIDTH; i++) assert_true(i == 3 ? isnan(after[i]) : after[i] == table[i]);
    model_close(&r);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

// ---- a gradient that overflows while the loss does not: y = x w with x huge and w = 0 ----

static ppl_status huge_fill(void *self, int64_t step, int32_t microbatch, ppl_value value, void *dst) {
    (void)step, (void)microbatch;
    const ppl_graph *g = ((model *)self)->graph;
    bool x = strcmp(g->values[value].name, "x") == 0;
    ((float *)dst)[0] = x ? 3e38f : 10;
    return PPL_OK;
}

static void test_bad_gradient(void **state) {
    (void)state;
    ppl_graph *g = open_graph(PPL_F32);
    layer(g, "first");
    ppl_value x = input(g, "x", PPL_F32, DIMS(1, 1)), target = input(g, "target", PPL_F32, DIMS(1, 1)), w;
    OK(ppl_graph_param(g, "w", 2, (int64_t[]){1, 1}, &(ppl_param_spec){.init = PPL_INIT_ZEROS}, &w));
    OK(ppl_graph_loss(g, binary(g, PPL_OP_MSE, "loss", binary(g, PPL_OP_LINEAR, "y", x, w), target)));
    OK(ppl_graph_differentiate(g));
    for (int32_t clip = PPL_CLIP_NONE; clip <= PPL_CLIP_STAGE; clip++) {
        ppl_optimizer_options o = adamw(clip, 1);
        model m;
        ppl_exec_client client = model_client(&m, g, &o);
        client.fill = huge_fill;
        ppl_exec_options options = model_options(&ppl_device_reference, NULL);
        ppl_schedule *s = schedule_make(ORDER_1F1B, 1, MICROBATCHES, 1);
        model_run r = model_open(g, s, false, &options, &client);
        int64_t done;
        assert_int_equal(ppl_exec_steps(r.exec, 0, 3, &done), PPL_ERR_NUMBER);
        assert_non_null(strstr(ppl_error(), "step 0, stage 0: the gradient of w has a square sum of "));
        double weight;
        OK(ppl_store_read(r.store, 0, PPL_PART_WEIGHT, &weight));
        assert_true(weight == 0);
        model_close(&r);
        ppl_schedule_close(s);
    }
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interpreted), cmocka_unit_test(test_f32),          cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_rollback),    cmocka_unit_test(test_stage_clip),   cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bad_loss),    cmocka_unit_test(test_bad_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
