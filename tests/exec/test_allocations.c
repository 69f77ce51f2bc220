// test_allocations.c - a step allocates nothing: linked with malloc's family wrapped, so that every call from the engine's
// own objects is counted (what libraries allocate inside is not).
#include "exec/model.h"
#include <stdatomic.h>

static atomic_llong calls, fail_at = -1; // fail_at: that many calls from now on, one gives NULL

static bool fails(void) {
    atomic_fetch_add(&calls, 1);
    return atomic_load(&fail_at) >= 0 && atomic_fetch_sub(&fail_at, 1) == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n) {
    return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    return fails() ? NULL : __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n) {
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

static void run(const ppl_device_ops *device, int32_t clip, bool copies) {
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options o = {.kind = PPL_SGD, .lr = 1e-3, .momentum = 0.9, .clip = clip, .clip_norm = 0.1};
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_exec_options options = model_options(device, NULL);
    ppl_schedule *s = schedule_make(ORDER_ZB_H1, 3, MICROBATCHES, 1);
    int64_t done, before = atomic_load(&calls);
    model_run r = model_open(g, s, copies, &options, &client);
    assert_true(atomic_load(&calls) > before); // the count counts
    before = atomic_load(&calls);
    for (int i = 0; i < 2; i++) { // ten steps, under the numbers 0 .. 4 that the client has room for
        OK(ppl_exec_steps(r.exec, 0, STEPS, &done));
        OK(ppl_exec_forward(r.exec, 0, 1));
    }
    OK(ppl_exec_weights_changed(r.exec));
    assert_int_equal(atomic_load(&calls) - before, 0);
    model_close(&r);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

static void test_steps(void **state) {
    (void)state;
    run(&ppl_device_reference, PPL_CLIP_BEFORE, false);
    run(&ppl_device_reference, PPL_CLIP_AFTER, true);
    run(&ppl_device_emulated, PPL_CLIP_NONE, false);
}

// Every allocation of opening fails once: the error is passed on, what was had is given back, no thread is left.
static void test_failures(void **state) {
    (void)state;
    ppl_graph *g = model_graph(PPL_F32);
    ppl_optimizer_options o = {.kind = PPL_SGD, .lr = 1e-3, .clip = PPL_CLIP_NONE};
    model m;
    ppl_exec_client client = model_client(&m, g, &o);
    ppl_exec_options options = model_options(&ppl_device_reference, NULL);
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, MICROBATCHES, 1);
    model_run r = model_open(g, s, true, &options, &client);
    options.eval_plan = r.eval;
    int64_t n = 0;
    for (;; n += 1 + n / 16) {
        ppl_exec *e = NULL;
        atomic_store(&fail_at, n);
        ppl_status st = ppl_exec_open(r.plan, r.store, &options, &client, &e);
        bool failed = atomic_exchange(&fail_at, -1) < 0;
        if (st == PPL_OK) ppl_exec_close(e);
        else assert_int_equal(st, PPL_ERR_MEMORY);
        if (!failed) break; // it took fewer calls
    }
    assert_true(n > 50);
    model_close(&r);
    ppl_schedule_close(s);
    ppl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
