// test_device.c - the cuda device's host side on the emulation: what it refuses and in which words, memory that runs out,
// ids and targets out of range, events, programs that neither allocate nor wait, the optimizer against the reference.
#include "base/random.h"
#include "device/device.h"
#include "emulation/emulation.h"
#include "train/optimizer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const ppl_device_ops *const ops = &ppl_device_cuda;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

static void refused(ppl_status is, ppl_status want, const char *words) {
    if (!strstr(ppl_error(), words)) fail_msg("\"%s\" does not say \"%s\"", ppl_error(), words);
    assert_int_equal(is, want);
}

static ppl_status device_open(int32_t rank, ppl_device **out) {
    ppl_device_options options = {.rank = rank, .threads = 1, .fail_task = -1, .stall_task = -1};
    return ops->open(&options, out);
}

static ppl_device *opened(void) {
    ppl_device *d;
    emu_reset();
    OK(device_open(0, &d));
    return d;
}

static void closed(ppl_device *d) {
    ops->close(d);
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events, 0);
    assert_string_equal(emu_report(), "");
}

static void *device_copy(ppl_device *d, const void *from, size_t bytes) {
    void *p;
    OK(ops->memory_get(d, bytes, &p));
    OK(ops->copy_in(d, p, from, bytes, 0));
    OK(ops->synchronize(d));
    return p;
}

// A node of this operator with inputs of these types; outputs are the test's to set.
static ppl_device_node node_of(int32_t op, int32_t inputs, const ppl_type *in) {
    ppl_device_node n = {.name = "node", .param = -1};
    n.spec = (ppl_kernel_spec){.op = op, .inputs = inputs, .outputs = 1, .threads = 1, .param_input = -1};
    memcpy(n.spec.in, in, (size_t)inputs * sizeof *in);
    return n;
}

static ppl_type type_of(int32_t dtype, int32_t ndim, int64_t a, int64_t b, int64_t c) {
    return ppl_type_make(dtype, ndim, (int64_t[]){a, b, c});
}

static void test_no_gpu(void **state) {
    (void)state;
    int32_t count = 7;
    ppl_gpu gpu;
    ppl_device *d;
    emu_reset();
    emu_set_probe(35);
    refused(ppl_gpu_count(&count), PPL_ERR_DEVICE, "driver");
    assert_int_equal(count, 0);
    refused(device_open(0, &d), PPL_ERR_DEVICE, "driver");
    emu_set_probe(100);
    refused(ppl_gpu_count(&count), PPL_ERR_DEVICE, "there is no GPU");
    refused(ppl_gpu_get(0, &gpu), PPL_ERR_DEVICE, "there is no GPU");
    emu_set_probe(0);
    emu_set_devices(3);
    OK(ppl_gpu_count(&count));
    assert_int_equal(count, 3);
    OK(ppl_gpu_get(2, &gpu));
    assert_true(gpu.memory > 0 && gpu.name[0]);
    refused(ppl_gpu_get(3, &gpu), PPL_ERR_ARG, "want 0..2");
}

static void test_out_of_memory(void **state) {
    (void)state;
    emu_reset();
    emu_set_memory((size_t)128 << 20);
    ppl_device *d;
    void *p;
    OK(device_open(0, &d));
    refused(ops->memory_get(d, (size_t)1 << 30, &p), PPL_ERR_MEMORY, "rank 0 asks GPU 0 for 1024.0 MiB more");
    OK(ops->memory_get(d, 1000, &p)); // and it goes on
    closed(d);
    emu_set_memory((size_t)40 << 20);
    refused(device_open(0, &d), PPL_ERR_MEMORY, "rank 0 asks"); // the second workspace has no room
    assert_int_equal(emu_still_open().allocations + emu_still_open().streams, 0);
    emu_reset();
}

static void test_memory(void **state) {
    (void)state;
    ppl_device *d = opened();
    char *p[20], back[300];
    for (int i = 0; i < 20; i++) {
        size_t bytes = i % 5 == 4 ? (size_t)20 << 20 : 300;
        OK(ops->memory_get(d, bytes, (void **)&p[i]));
        assert_int_equal((uintptr_t)p[i] % 256, 0);
        OK(ops->copy_out(d, back, p[i], sizeof back, 0));
        for (int k = 0; k < 300; k++) assert_int_equal(back[k], 0);
        for (int k = 0; k < i; k++) assert_true(p[k] != p[i]);
    }
    for (int i = 0; i < 20; i += 2) ops->memory_free(d, p[i]);
    OK(ops->copy_in(d, p[1], "abc", 4, 0));
    OK(ops->copy(d, p[3], p[1], 4, 0));
    OK(ops->copy_out(d, back, p[3], 4, 0));
    assert_string_equal(back, "abc");
    ops->memory_free(d, NULL);
    closed(d);
}

static void test_refusals(void **state) {
    (void)state;
    ppl_device *d = opened();
    ppl_device_program *p;
    ppl_program_needs needs;
    ppl_type wide = type_of(PPL_F64, 2, 3, 4, 1), heads = type_of(PPL_BF16, 3, 1, 8, 3 * 300);
    ppl_device_node n = node_of(PPL_OP_SCALE, 1, &wide);
    refused(ops->program_build(d, 0, 0, &n, 1, &needs, &p), PPL_ERR_DEVICE, "node: scale: input 0 is f64");
    n = node_of(PPL_OP_ATTENTION, 1, &heads);
    n.spec.attrs = (ppl_attrs){.i = {1, 1, 1}};
    refused(ops->program_build(d, 0, 0, &n, 1, &needs, &p), PPL_ERR_DEVICE, "heads of 300 numbers, want 256 at most");
    double sum;
    refused(ops->square_sum(d, NULL, 1, PPL_F64, 1, &sum), PPL_ERR_DEVICE, "want f32");
    refused(ops->update(d, &(ppl_update){.dtype = PPL_F32, .uses = 1000}, 0), PPL_ERR_DEVICE, "1000 times");
    closed(d);
}

// An id outside the table, in the forward and in the gradient, and a target: told when the host waits, and once.
static void test_bad_ids(void **state) {
    (void)state;
    ppl_device *d = opened();
    const int32_t ids[4] = {0, 2, 9, 1};
    const float numbers[16] = {0}, one = 1;
    ppl_type id = type_of(PPL_I32, 1, 4, 1, 1), table = type_of(PPL_F32, 2, 3, 4, 1),
             rows = type_of(PPL_F32, 2, 4, 4, 1);
    ppl_type logits = type_of(PPL_F32, 2, 4, 3, 1), scalar = ppl_type_make(PPL_F32, 0, NULL),
             lse = type_of(PPL_F32, 1, 4, 1, 1);
    ppl_device_node n[3] = {node_of(PPL_OP_EMBEDDING, 2, (ppl_type[]){id, table}),
                            node_of(PPL_OP_EMBEDDING_DW, 2, (ppl_type[]){id, rows}),
                            node_of(PPL_OP_CROSS_ENTROPY_GRAD, 4, (ppl_type[]){scalar, logits, id, lse})};
    n[0].spec.out[0] = rows, n[1].spec.out[0] = table, n[2].spec.out[0] = logits;
    void *ids_at = device_copy(d, ids, sizeof ids), *x = device_copy(d, numbers, sizeof numbers), *y, *scratch;
    void *seed = device_copy(d, &one, sizeof one);
    OK(ops->memory_get(d, 4096, &y));
    OK(ops->memory_get(d, 4096, &scratch));
    ppl_call calls[3] = {
        {.in = {ids_at, x}, .out = {y}}, {.in = {ids_at, x}, .out = {y}}, {.in = {seed, x, ids_at, x}, .out = {y}}};
    static const char *const words[] = {"embedding: id 9 at position 2, want 0..2",
                                        "embedding: id 9 at position 2, want 0..2",
                                        "cross_entropy: target 9 at position 2, want below 3"};
    for (int i = 0; i < 3; i++) {
        ppl_program_needs needs;
        ppl_device_program *p;
        OK(ops->program_build(d, 0, 0, &n[i], 1, &needs, &p));
        assert_true(needs.scratch <= 4096);
        OK(ops->program_run(d, p,
                            &(ppl_program_run){.calls = &calls[i], .scratch = scratch, .env = &(ppl_call_env){0}}));
        refused(ops->synchronize(d), PPL_ERR_DATA, words[i]);
        OK(ops->synchronize(d));
    }
    closed(d);
}

// A program only enqueues: no allocation, no wait, nothing on stream 0; and events order streams.
static void test_enqueues(void **state) {
    (void)state;
    ppl_device *d = opened();
    ppl_type x = type_of(PPL_BF16, 2, 64, 32, 1), w = type_of(PPL_BF16, 2, 48, 32, 1);
    ppl_device_node n[2] = {node_of(PPL_OP_LINEAR, 2, (ppl_type[]){x, w}), node_of(PPL_OP_SCALE, 1, &x)};
    n[0].spec.out[0] = type_of(PPL_BF16, 2, 64, 48, 1), n[1].spec.out[0] = x, n[1].spec.attrs.f[0] = 2;
    ppl_device_program *p;
    ppl_program_needs needs;
    OK(ops->program_build(d, 0, 0, n, 2, &needs, &p));
    void *at[4], *event;
    for (int i = 0; i < 4; i++) OK(ops->memory_get(d, 64 * 48 * 2, &at[i]));
    OK(ops->event_open(d, &event));
    ppl_call calls[2] = {{.in = {at[0], at[1]}, .out = {at[2]}}, {.in = {at[0]}, .out = {at[3]}}};
    emu_count_from_here();
    for (int i = 0; i < 4; i++) {
        OK(ops->program_run(d, p, &(ppl_program_run){.calls = calls, .env = &(ppl_call_env){0}, .stream = i % 2}));
        OK(ops->event_record(d, event, i % 2));
        OK(ops->event_wait(d, event, 1 - i % 2));
    }
    emu_counts c = emu_counted();
    assert_int_equal(c.mallocs + c.frees + c.host_waits + c.null_stream, 0);
    assert_int_equal(c.matmuls, 4);
    assert_int_equal(c.launches, 4);
    bool done = false;
    OK(ops->synchronize(d));
    OK(ops->event_done(d, event, &done));
    assert_true(done);
    ops->event_close(d, event);
    closed(d);
}

enum { N = 5003, USES = 3, ARRAYS = 3 + USES };

// One step of n numbers on a device: weight, moments and square sum afterwards.
static void step_on(const ppl_device_ops *on, int32_t kind, int64_t n, int32_t uses, float (*x)[N], ppl_bf16 *copy,
                    double *square) {
    const ppl_optimizer_options o = {
        .kind = kind, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .momentum = 0.9};
    ppl_device *d;
    void *at[ARRAYS], *copy_at;
    const void *grads[USES];
    OK(on->open(&(ppl_device_options){.threads = 1, .fail_task = -1, .stall_task = -1}, &d));
    for (int k = 0; k < ARRAYS; k++) {
        for (int64_t i = 0; i < N; i++) {
            uint32_t word[4];
            ppl_philox((uint64_t)k, 0, (uint64_t)i, word);
            x[k][i] = ppl_unit(word[0]) - (k == 2 ? 0 : 0.5f); // the second moment is not negative
        }
        OK(on->memory_get(d, sizeof x[k], &at[k]));
        OK(on->copy_in(d, at[k], x[k], sizeof x[k], 0));
        OK(on->synchronize(d));
    }
    for (int k = 0; k < USES; k++) grads[k] = at[3 + k];
    OK(on->memory_get(d, N * sizeof *copy, &copy_at));
    ppl_update u = {
        .n = n, .weight = at[0], .weight_out = at[0], .moment1 = at[1], .moment1_out = at[1], .copy = copy_at};
    u.moment2 = u.moment2_out = kind == PPL_ADAMW ? at[2] : NULL;
    u.grads = grads, u.uses = uses, u.dtype = PPL_F32, u.copy_dtype = PPL_BF16, u.scale = 0.7;
    ppl_update_set(&u, &o, 4, 4, true);
    OK(on->square_sum(d, grads, uses, PPL_F32, n, square));
    OK(on->update(d, &u, 0));
    for (int k = 0; k < 3; k++) OK(on->copy_out(d, x[k], at[k], sizeof x[k], 0));
    OK(on->copy_out(d, copy, copy_at, N * sizeof *copy, 0));
    for (int k = 0; k < ARRAYS; k++) on->memory_free(d, at[k]);
    on->memory_free(d, copy_at);
    on->close(d);
}

static void test_update(void **state) {
    (void)state;
    emu_reset();
    static float is[ARRAYS][N], want[ARRAYS][N];
    static ppl_bf16 copy[N], copy_want[N];
    const int64_t sizes[] = {1, 3, 1000, N};
    for (int i = 0; i < 8; i++) {
        int64_t n = sizes[i % 4];
        double square, square_want;
        step_on(&ppl_device_reference, i / 4 ? PPL_SGD : PPL_ADAMW, n, 1 + i % USES, want, copy_want, &square_want);
        step_on(ops, i / 4 ? PPL_SGD : PPL_ADAMW, n, 1 + i % USES, is, copy, &square);
        assert_true(fabs(square - square_want) <= 1e-6 * square_want);
        for (int k = 0; k < 3; k++)
            for (int64_t j = 0; j < N; j++)
                if (!(fabsf(is[k][j] - want[k][j]) <= 3e-6f))
                    fail_msg("array %d[%d]: %.9g, want %.9g", k, (int)j, is[k][j], want[k][j]);
        for (int64_t j = 0; j < N; j++) assert_int_equal(copy[j], j < n ? ppl_bf16_from_f32(is[0][j]) : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_gpu),   cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_bad_ids),       cmocka_unit_test(test_enqueues),
        cmocka_unit_test(test_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
