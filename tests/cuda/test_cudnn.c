// test_cudnn.c - attention by cuDNN on the emulation: against the reference device, which shapes it serves and what is told of
// the others, what PPL_CUDA_ATTENTION does and refuses, plans that fail.
#include "base/random.h"
#include "device/device.h"
#include "emulation/emulation.h"
#include "support/kernel_check.h"
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

static void mode_set(const char *mode) {
    emu_reset();
    if (mode) {
        setenv("PPL_CUDA_ATTENTION", mode, 1);
    } else {
        unsetenv("PPL_CUDA_ATTENTION");
    }
}

static ppl_status device_open(ppl_device **out) {
    return ops->open(&(ppl_device_options){.threads = 1, .fail_task = -1, .stall_task = -1}, out);
}

// ---- numbers

// Heads of a multiple of 8 numbers: the others are own kernels'.
static bool serves(const ppl_case *c) {
    bool packed = c->in[1].kind == CASE_NONE;
    return c->in[0].dim[2] / (c->attrs.i[0] + (packed ? 2 * c->attrs.i[1] : 0)) % 8 == 0;
}

static void test_kernels(void **state) {
    (void)state;
    mode_set("cudnn");
    ppl_kernel_check check = {
        .ops = ops, .dtype = PPL_BF16, .threads = 1, .multiplies_bf16 = true, .only = "attention", .wants = serves};
    emu_count_from_here();
    ppl_kernel_check_run(&check);
    assert_true(emu_counted().attentions > 20);
    assert_string_equal(emu_report(), "");
    emu_open left = emu_still_open();
    assert_int_equal(left.allocations + left.streams + left.events, 0);
}

// ---- one node by hand: 2 x 24 positions, 4 heads of 16, 2 of keys, causal

enum { BATCH = 2, TIME = 24, HEADS = 4, KEYS = 2, SIZE = 16, ROW = (HEADS + 2 * KEYS) * SIZE, OUT = HEADS * SIZE };

static ppl_device_node node_of(bool backward, int32_t dtype, int64_t time, int64_t size) {
    ppl_device_node n = {.name = "node", .param = -1};
    ppl_kernel_spec *s = &n.spec;
    ppl_type qkv = ppl_type_make(dtype, 3, (int64_t[]){BATCH, time, (HEADS + 2 * KEYS) * size});
    ppl_type o = ppl_type_make(dtype, 3, (int64_t[]){BATCH, time, HEADS * size});
    ppl_type lse = ppl_type_make(PPL_F32, 3, (int64_t[]){BATCH, HEADS, time});
    *s = (ppl_kernel_spec){.op = backward ? PPL_OP_ATTENTION_GRAD : PPL_OP_ATTENTION, .threads = 1, .param_input = -1};
    s->attrs = (ppl_attrs){.i = {HEADS, KEYS, 1}};
    s->inputs = backward ? 4 : 1, s->outputs = backward ? 1 : 2;
    if (backward) {
        s->in[0] = s->in[1] = o, s->in[2] = lse, s->in[3] = s->out[0] = qkv;
    } else {
        s->in[0] = qkv, s->out[0] = o, s->out[1] = lse;
    }
    return n;
}

static ppl_status node_build(ppl_device *d, bool backward, int32_t dtype, int64_t time, int64_t size,
                             ppl_program_needs *needs, ppl_device_program **out) {
    ppl_device_node n = node_of(backward, dtype, time, size);
    return ops->program_build(d, 0, 0, &n, 1, needs, out);
}

typedef struct arrays {
    ppl_device *device;
    void *qkv, *o, *lse, *dy, *dqkv, *scratch;
    ppl_device_program *program[2]; // forward, backward
} arrays;

static void *filled(ppl_device *d, int64_t count, uint64_t key) {
    ppl_bf16 *x = malloc((size_t)count * sizeof *x);
    void *p;
    for (int64_t i = 0; i < count; i++) {
        uint32_t word[4];
        ppl_philox(key, 0, (uint64_t)i, word);
        x[i] = ppl_bf16_from_f32(4 * ppl_unit(word[0]) - 2);
    }
    OK(ops->memory_get(d, (size_t)count * sizeof *x, &p));
    OK(ops->copy_in(d, p, x, (size_t)count * sizeof *x, 0));
    OK(ops->synchronize(d));
    free(x);
    return p;
}

static void arrays_open(arrays *a) {
    size_t scratch = 1;
    OK(device_open(&a->device));
    for (int k = 0; k < 2; k++) {
        ppl_program_needs needs;
        OK(node_build(a->device, k, PPL_BF16, TIME, SIZE, &needs, &a->program[k]));
        if (needs.scratch > scratch) scratch = needs.scratch;
    }
    a->qkv = filled(a->device, BATCH * TIME * ROW, 1);
    a->dy = filled(a->device, BATCH * TIME * OUT, 2);
    OK(ops->memory_get(a->device, BATCH * TIME * OUT * 2, &a->o));
    OK(ops->memory_get(a->device, BATCH * HEADS * TIME * 4, &a->lse));
    OK(ops->memory_get(a->device, BATCH * TIME * ROW * 2, &a->dqkv));
    OK(ops->memory_get(a->device, scratch, &a->scratch));
}

static ppl_status node_run(const arrays *a, int k, int32_t stream) {
    ppl_call call = k ? (ppl_call){.in = {a->dy, a->o, a->lse, a->qkv}, .out = {a->dqkv}}
                      : (ppl_call){.in = {a->qkv}, .out = {a->o, a->lse}};
    ppl_program_run run = {.calls = &call, .scratch = a->scratch, .env = &(ppl_call_env){0}, .stream = stream};
    return ops->program_run(a->device, a->program[k], &run);
}

static void arrays_close(arrays *a) {
    ops->close(a->device);
    assert_string_equal(emu_report(), "");
    assert_int_equal(emu_still_open().allocations + emu_still_open().streams, 0);
}

// Enqueues only, on either stream, and holds what it counted as scratch.
static void test_enqueues(void **state) {
    (void)state;
    mode_set("cudnn");
    arrays a = {0};
    arrays_open(&a);
    for (int i = 0; i < 2; i++) {
        emu_count_from_here();
        OK(node_run(&a, 0, i));
        OK(node_run(&a, 1, i));
        emu_counts c = emu_counted();
        assert_int_equal(c.mallocs + c.frees + c.host_waits + c.null_stream + c.launches, 0);
        assert_int_equal(c.attentions, 2);
        OK(ops->synchronize(a.device));
    }
    arrays_close(&a);
}

// Sums in order by default, though the library proposes first what is uncertain; in any order where that is asked for.
static void test_order(void **state) {
    (void)state;
    static const char *const mode[] = {NULL, "cudnn", "cudnn-any-order"};
    for (int m = 0; m < 3; m++) {
        static char first[BATCH * TIME * ROW * 2], again[sizeof first];
        arrays a = {0};
        mode_set(mode[m]);
        arrays_open(&a);
        OK(node_run(&a, 0, 0));
        for (int i = 0; i < 2; i++) {
            OK(node_run(&a, 1, 0));
            OK(ops->copy_out(a.device, i ? again : first, a.dqkv, sizeof first, 0));
        }
        assert_int_equal(memcmp(first, again, sizeof first) == 0, m < 2);
        arrays_close(&a);
    }
}

// ---- the choice

static bool told(const char *words) {
    const char *text;
    for (int32_t i = 0; (text = ppl_gpu_attention_exception(i)); i++)
        if (strstr(text, words)) return true;
    return false;
}

static void test_choice(void **state) {
    (void)state;
    ppl_device *d;
    ppl_device_program *p;
    ppl_program_needs needs;
    mode_set(NULL);
    assert_non_null(strstr(ppl_gpu_attention(), "cuDNN 9."));
    OK(device_open(&d));
    OK(node_build(d, false, PPL_BF16, TIME, 12, &needs, &p));
    assert_true(told("forward of 2 x 24 positions, 4 heads of 12: own kernels: cuDNN 9."));
    OK(node_build(d, true, PPL_BF16, 16384, 64, &needs, &p)); // 4 GiB of weights between keys and queries
    assert_true(told("backward of 2 x 16384 positions, 4 heads of 64: own kernels: cuDNN 9."));
    assert_true(told("needs 4.00 GiB of workspace for it, want 0.06 at most"));
    assert_true(needs.scratch < (size_t)1 << 20);
    OK(node_build(d, false, PPL_F32, TIME, 32, &needs, &p));
    assert_false(told("heads of 32")); // cuDNN's is in bf16, which is no exception
    OK(node_build(d, true, PPL_BF16, 1024, 64, &needs, &p));
    assert_true(needs.scratch > (size_t)BATCH * HEADS * 1024 * 1024 * 2);
    assert_false(told("x 1024 positions"));
    ops->close(d);

    mode_set("cudnn");
    OK(device_open(&d));
    refused(node_build(d, false, PPL_BF16, TIME, 12, &needs, &p), PPL_ERR_DEVICE, "PPL_CUDA_ATTENTION is 'cudnn'");
    refused(node_build(d, true, PPL_F32, TIME, SIZE, &needs, &p), PPL_ERR_DEVICE, "cuDNN's is in bf16");
    ops->close(d);

    mode_set("own");
    assert_non_null(strstr(ppl_gpu_attention(), "own kernels"));
    mode_set("flash");
    refused(device_open(&d), PPL_ERR_ARG, "PPL_CUDA_ATTENTION is 'flash', want own, cudnn or cudnn-any-order");
    assert_non_null(strstr(ppl_gpu_attention(), "flash"));
    mode_set(NULL);
}

static void test_failures(void **state) {
    (void)state;
    ppl_device *d;
    ppl_device_program *p;
    ppl_program_needs needs;
    mode_set(NULL);
    emu_set_cudnn_version(91500);
    OK(device_open(&d));
    refused(node_build(d, false, PPL_BF16, TIME, SIZE, &needs, &p), PPL_ERR_DEVICE,
            "by cuDNN 9.15.0, want cuDNN 9.16 or later, or PPL_CUDA_ATTENTION=own");
    ops->close(d);

    mode_set(NULL);
    arrays a = {0};
    arrays_open(&a);
    emu_fail(EMU_FAULT_ATTENTION, 1);
    refused(node_run(&a, 0, 0), PPL_ERR_DEVICE,
            "node: device cuda: cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED: a fault that was planted");
    OK(node_run(&a, 0, 0)); // and it goes on
    OK(ops->synchronize(a.device));
    arrays_close(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_enqueues), cmocka_unit_test(test_order),
        cmocka_unit_test(test_choice),  cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
