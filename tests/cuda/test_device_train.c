// test_device_train.c - a tiny GPT and a tiny Llama trained by the cuda device on the emulation and by the cpu device: forward,
// backward over two microbatches, the gradient's norm, clipping and AdamW, in f32 and bf16. Losses stay near each other; the
// cuda device gives the same bits again, in whatever order threads and blocks run.
#include "base/random.h"
#include "emulation/emulation.h"
#include "support/gpt.h"
#include "support/interpret.h"
#include "support/llama.h"
#include "train/optimizer.h"
#include "train/store.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
enum { STEPS = 2 }; // fibers are slow there
#else
enum { STEPS = 3 };
#endif
enum { SAMPLES = 3, MICROBATCHES = 2, MOST_PARAMS = 200 };

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

typedef struct training {
    ppl_interpret t;
    void *master[MOST_PARAMS], *moment1[MOST_PARAMS], *moment2[MOST_PARAMS]; // of the device
    double loss[STEPS], norm[STEPS];
} training;

// Ids below the input's limit, the same for the same step and microbatch.
static void inputs_fill(training *r, int64_t step, int32_t microbatch, int32_t limit) {
    const ppl_graph *g = r->t.graph;
    for (size_t v = 0; v < g->n_values; v++) {
        if (g->values[v].kind != PPL_VALUE_INPUT) continue;
        int64_t n = ppl_type_elements(&g->values[v].type);
        double *x = malloc((size_t)n * sizeof *x);
        for (int64_t i = 0; i < n; i++) {
            uint32_t word[4];
            ppl_philox(9, (uint64_t)(step * MICROBATCHES + microbatch), (uint64_t)i, word);
            x[i] = word[0] % (uint32_t)limit; // targets are the tokens themselves: there is something to learn
        }
        ppl_interpret_write(&r->t, (ppl_value)v, x);
        free(x);
    }
}

static void *zeros(training *r, size_t bytes) {
    void *p;
    OK(r->t.ops->memory_get(r->t.device, bytes, &p));
    return p;
}

static void params_open(training *r) {
    const ppl_graph *g = r->t.graph;
    assert_true(g->n_params <= MOST_PARAMS);
    for (size_t i = 0; i < g->n_params; i++) {
        const ppl_param *p = &g->params[i];
        int64_t n = ppl_type_elements(&p->type);
        size_t bytes = (size_t)n * sizeof(float);
        float *x = malloc(bytes);
        double *wide = malloc((size_t)n * sizeof *wide);
        ppl_init_fill(x, PPL_F32, n, &p->spec, 5, p->name);
        for (int64_t k = 0; k < n; k++) wide[k] = x[k];
        ppl_interpret_write(&r->t, p->value, wide);
        r->moment1[i] = zeros(r, bytes), r->moment2[i] = zeros(r, bytes);
        r->master[i] = g->dtype == PPL_F32 ? r->t.data[p->value] : zeros(r, bytes);
        OK(r->t.ops->copy_in(r->t.device, r->master[i], x, bytes, 0));
        OK(r->t.ops->synchronize(r->t.device));
        free(x), free(wide);
    }
}

static int32_t grads_of(const training *r, size_t param, const void **grads) {
    const ppl_param *p = &r->t.graph->params[param];
    for (int32_t k = 0; k < p->n_uses; k++) grads[k] = r->t.data[p->uses[k]];
    return p->n_uses;
}

static void params_step(training *r, int64_t step) {
    const ppl_graph *g = r->t.graph;
    const ppl_optimizer_options o = {
        .kind = PPL_ADAMW, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    const void *grads[8];
    double squares = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        double sum;
        int32_t uses = grads_of(r, i, grads);
        OK(r->t.ops->square_sum(r->t.device, grads, uses, PPL_F32, ppl_type_elements(&g->params[i].type), &sum));
        squares += sum;
    }
    r->norm[step] = sqrt(squares);
    for (size_t i = 0; i < g->n_params; i++) {
        const ppl_param *p = &g->params[i];
        ppl_update u = {.n = ppl_type_elements(&p->type), .grads = grads, .uses = grads_of(r, i, grads)};
        u.weight = u.weight_out = r->master[i];
        u.copy = g->dtype == PPL_F32 ? NULL : r->t.data[p->value], u.copy_dtype = g->dtype;
        u.moment1 = u.moment1_out = r->moment1[i], u.moment2 = u.moment2_out = r->moment2[i];
        u.dtype = PPL_F32, u.scale = fmin(1, 1 / r->norm[step]);
        ppl_update_set(&u, &o, step, step, p->spec.decay != 0);
        OK(r->t.ops->update(r->t.device, &u, 0));
        OK(r->t.ops->pack(r->t.device, (int32_t)i, r->t.data[p->value]));
    }
}

static void train(const ppl_graph *g, const char *device, int32_t limit, training *r) {
    OK(ppl_interpret_open(&r->t, g, device, 1));
    params_open(r);
    ppl_type loss = g->values[g->loss].type;
    double tokens = 0, sum;
    assert_int_equal(loss.ndim, 0);
    for (size_t v = 0; v < g->n_values; v++)
        if (g->values[v].kind == PPL_VALUE_INPUT) tokens = (double)ppl_type_elements(&g->values[v].type) * MICROBATCHES;
    for (int64_t step = 0; step < STEPS; step++) {
        r->loss[step] = 0;
        for (int32_t m = 0; m < MICROBATCHES; m++) {
            r->t.env = (ppl_call_env){.seed = 3, .step = step, .first_sample = m * SAMPLES, .training = true};
            inputs_fill(r, step, m, limit);
            OK(ppl_interpret_forward(&r->t));
            ppl_interpret_read(&r->t, g->loss, &sum);
            r->loss[step] += sum / tokens;
            OK(ppl_interpret_backward(&r->t, 1 / tokens, m > 0));
        }
        params_step(r, step);
    }
    OK(r->t.ops->synchronize(r->t.device));
}

static void finish(training *r) {
    const ppl_device_ops *ops = r->t.ops;
    for (size_t i = 0; i < r->t.graph->n_params; i++) {
        ops->memory_free(r->t.device, r->moment1[i]);
        ops->memory_free(r->t.device, r->moment2[i]);
        if (r->t.graph->dtype != PPL_F32) ops->memory_free(r->t.device, r->master[i]);
    }
    ppl_interpret_close(&r->t);
}

static void same_bits(const training *a, const training *b) {
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    for (size_t i = 0; i < a->t.graph->n_params; i++) {
        int64_t n = ppl_type_elements(&a->t.graph->params[i].type);
        float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
        OK(a->t.ops->copy_out(a->t.device, x, a->master[i], (size_t)n * sizeof *x, 0));
        OK(b->t.ops->copy_out(b->t.device, y, b->master[i], (size_t)n * sizeof *y, 0));
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
        free(x), free(y);
    }
}

static void check(ppl_graph *g, int32_t limit, double tolerance) {
    static training cpu, cuda, again;
    OK(ppl_graph_differentiate(g));
    train(g, "cpu", limit, &cpu);
    emu_reset();
    train(g, "cuda", limit, &cuda);
    emu_set_order(EMU_GREEDY);
    emu_set_seed(11);
    train(g, "cuda", limit, &again);
    same_bits(&cuda, &again);
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(cuda.loss[i] - cpu.loss[i]) <= tolerance * cpu.loss[i]))
            fail_msg("step %d: the loss is %.9g, want %.9g", i, cuda.loss[i], cpu.loss[i]);
        if (!(fabs(cuda.norm[i] - cpu.norm[i]) <= 10 * tolerance * cpu.norm[i]))
            fail_msg("step %d: the norm is %.9g, want %.9g", i, cuda.norm[i], cpu.norm[i]);
    }
    if (STEPS > 2) assert_true(cuda.loss[STEPS - 1] < cuda.loss[0]); // it learns, though not from the first step on
    assert_string_equal(emu_report(), "");
    finish(&cpu), finish(&cuda), finish(&again);
    ppl_graph_close(g);
}

static void test_gpt_f32(void **state) {
    (void)state;
    check(test_gpt(PPL_F32, SAMPLES, 0.1), 40, 1e-4);
}

static void test_gpt_bf16(void **state) {
    (void)state;
    check(test_gpt(PPL_BF16, SAMPLES, 0.1), 40, 2e-2);
}

static void test_llama_f32(void **state) {
    (void)state;
    check(test_llama(PPL_F32, SAMPLES), LLAMA_VOCABULARY, 1e-4);
}

static void test_llama_bf16(void **state) {
    (void)state;
    check(test_llama(PPL_BF16, SAMPLES), LLAMA_VOCABULARY, 2e-2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt_f32), cmocka_unit_test(test_gpt_bf16),
                                       cmocka_unit_test(test_llama_f32), cmocka_unit_test(test_llama_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
