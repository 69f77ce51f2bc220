// test_program.c - programs of the synchronous devices, over kernels made for the test: order, scratch, packed parameters
// shared by key, errors with the node's name, no allocation while running, and the registry.
#include "device/host.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Allocations by ppl's objects while `counting`; the linker sends them here (tests.mk). Number fail_at of them fails.
static bool counting;
static int allocations, fail_at = -1;
void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
static bool fails(void) {
    return counting && allocations++ == fail_at;
}
void *__wrap_malloc(size_t n) {
    return fails() ? NULL : __real_malloc(n);
}
void *__wrap_realloc(void *p, size_t n) {
    return fails() ? NULL : __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t a, size_t n) {
    return fails() ? NULL : __real_aligned_alloc(a, n);
}

// A kernel that packs (SCALE): y = packed[0], the pack is the first number times f0. i0: bytes of the pack, i1: key,
// i2: scratch, i3: 1 refuses, 2 fails when run.
static int prepared, freed, packs;
static void *last_scratch;

static ppl_status fake_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    if (spec->attrs.i[3] == 1) return ppl_fail(PPL_ERR_DEVICE, "scale: refuses");
    *needs = (ppl_kernel_needs){
        .pack = (size_t)spec->attrs.i[0], .pack_key = (uint64_t)spec->attrs.i[1], .scratch = (size_t)spec->attrs.i[2]};
    *state = calloc(1, 8); // freed by the program
    assert_int_equal(spec->threads, 3);
    prepared++;
    return PPL_OK;
}

static ppl_status fake_pack(const ppl_kernel_spec *spec, void *state, const void *param, void *packed) {
    assert_non_null(state);
    packs++;
    *(float *)packed = *(const float *)param * (float)spec->attrs.f[0];
    return PPL_OK;
}

static ppl_status fake_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    assert_non_null(state);
    if (spec->attrs.i[3] == 2) return ppl_fail(PPL_ERR_DATA, "scale: fails");
    assert_int_equal(call->packed != NULL, spec->attrs.i[0] != 0);
    assert_int_equal(call->env->step, 7);
    last_scratch = call->scratch;
    *(float *)call->out[0] = call->packed ? *(const float *)call->packed : *(const float *)call->in[0] + 1;
    return PPL_OK;
}

static void fake_free(void *state) {
    free(state);
    freed++;
}

static const ppl_kernel fake = {
    .name = "scale", .prepare = fake_prepare, .pack = fake_pack, .run = fake_run, .free = fake_free};

static const ppl_kernel *fake_kernel(int32_t op) {
    return op == PPL_OP_SCALE ? &fake : NULL;
}

static ppl_device_node node(const char *name, int32_t param, int64_t bytes, int64_t key, double factor) {
    ppl_device_node n = {.name = name, .param = param, .node = 0};
    n.spec = (ppl_kernel_spec){.op = PPL_OP_SCALE, .inputs = 1, .outputs = 1, .threads = 1, .param_input = -1};
    n.spec.attrs = (ppl_attrs){.i = {bytes, key, 128}, .f = {factor}};
    return n;
}

static ppl_device *open_fake(void) {
    ppl_device *d;
    prepared = freed = packs = 0;
    assert_int_equal(ppl_host_open("fake", fake_kernel, &(ppl_device_options){.threads = 3}, &d), PPL_OK);
    return d;
}

static void test_packs_are_shared(void **state) {
    (void)state;
    ppl_device *d = open_fake();
    ppl_program_needs a, b;
    ppl_device_program *first, *second;
    ppl_device_node nodes[] = {
        node("u", 4, 100, 1, 2), // packs parameter 4 in layout 1
        node("v", 4, 100, 1, 2), // shares it
        node("w", 4, 8, 2, 3),   // another layout
        node("x", 5, 100, 1, 2), // another parameter
        node("y", -1, 0, 0, 0),  // none
    };
    nodes[1].spec.attrs.i[2] = 4096;
    assert_int_equal(ppl_host_program_build(d, 0, 0, nodes, 5, &a, &first), PPL_OK);
    assert_int_equal(a.pack, 128 + 64 + 128);
    assert_int_equal(a.scratch, 4096);
    ppl_device_node again[] = {node("z", 4, 8, 2, 3), node("new", 0, 1, 1, 5)};
    assert_int_equal(ppl_host_program_build(d, 0, 1, again, 2, &b, &second), PPL_OK);
    assert_int_equal(b.pack, 64); // only parameter 0's: the rest is there
    assert_int_equal(b.scratch, 128);

    char *memory = ppl_alloc(a.pack + b.pack);
    assert_int_equal(ppl_host_pack_bind(d, memory, a.pack), PPL_ERR_ARG); // too small
    assert_int_equal(ppl_host_pack_bind(d, memory, a.pack + b.pack), PPL_OK);
    float four = 4, five = 5, in = 10, out[7] = {0};
    assert_int_equal(ppl_host_pack_run(d, 4, &four), PPL_OK);
    assert_int_equal(packs, 2); // one for each layout
    assert_int_equal(ppl_host_pack_run(d, 5, &five), PPL_OK);
    assert_int_equal(ppl_host_pack_run(d, 0, &five), PPL_OK);
    assert_int_equal(ppl_host_pack_run(d, 99, &five), PPL_OK); // nobody packs it
    assert_int_equal(packs, 4);

    ppl_call calls[7] = {0};
    for (int i = 0; i < 7; i++) calls[i].in[0] = &in, calls[i].out[0] = &out[i];
    ppl_call_env env = {.step = 7};
    ppl_program_run run = {.calls = calls, .scratch = memory, .env = &env};
    counting = true, allocations = 0;
    assert_int_equal(ppl_host_program_run(d, first, &run), PPL_OK);
    run.calls = calls + 5;
    assert_int_equal(ppl_host_program_run(d, second, &run), PPL_OK);
    assert_int_equal(ppl_host_pack_run(d, 4, &four), PPL_OK);
    counting = false;
    assert_int_equal(allocations, 0);
    assert_ptr_equal(last_scratch, memory);
    const float want[] = {8, 8, 12, 10, 11, 12, 25};
    for (int i = 0; i < 7; i++) assert_true(out[i] == want[i]);

    // The layout that both programs read is still packed when the program that packed it is gone.
    ppl_host_program_free(d, first);
    assert_int_equal(freed, 5);
    four = 40, packs = 0;
    assert_int_equal(ppl_host_pack_run(d, 4, &four), PPL_OK);
    assert_int_equal(packs, 1);
    assert_int_equal(ppl_host_program_run(d, second, &run), PPL_OK);
    assert_true(out[5] == 120);
    ppl_host_close(d); // frees what is left
    assert_int_equal(freed, prepared);
    ppl_free(memory);
}

static void wants(ppl_status is, ppl_status want, const char *words) {
    assert_int_equal(is, want);
    if (!strstr(ppl_error(), words)) fail_msg("\"%s\" does not say \"%s\"", ppl_error(), words);
}

static void test_errors(void **state) {
    (void)state;
    ppl_device *d = open_fake();
    ppl_program_needs needs;
    ppl_device_program *p = NULL;
    ppl_device_node nodes[] = {node("first", -1, 0, 0, 0), node("bad", -1, 0, 0, 0)};
    nodes[1].spec.attrs.i[3] = 1;
    wants(ppl_host_program_build(d, 0, 0, nodes, 2, &needs, &p), PPL_ERR_DEVICE, "bad: scale: refuses");
    assert_int_equal(freed, prepared);
    nodes[1] = node("unknown", -1, 0, 0, 0);
    nodes[1].spec.op = PPL_OP_ROPE;
    wants(ppl_host_program_build(d, 0, 0, nodes, 2, &needs, &p), PPL_ERR_DEVICE, "unknown: device fake has no kernel");
    nodes[1] = node("packs", -1, 64, 0, 0);
    wants(ppl_host_program_build(d, 0, 0, nodes, 2, &needs, &p), PPL_ERR_DEVICE, "packs: ");
    assert_int_equal(freed, prepared);
    nodes[1] = node("fails", -1, 0, 0, 0);
    nodes[1].spec.attrs.i[3] = 2;
    assert_int_equal(ppl_host_program_build(d, 0, 0, nodes, 2, &needs, &p), PPL_OK);
    float x = 1, y;
    ppl_call calls[2] = {{.in = {&x}, .out = {&y}}, {.in = {&x}, .out = {&y}}};
    ppl_program_run run = {.calls = calls, .env = &(ppl_call_env){.step = 7}};
    wants(ppl_host_program_run(d, p, &run), PPL_ERR_DATA, "fails: scale: fails");
    ppl_host_close(d);
    wants(ppl_host_open("fake", fake_kernel, &(ppl_device_options){.threads = 0}, &d), PPL_ERR_ARG, "threads");
}

static void test_registry(void **state) {
    (void)state;
    int32_t count;
    const ppl_device_ops *const *list = ppl_device_list(&count), *found;
    assert_true(count >= 2);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(ppl_device_find(list[i]->name, &found), PPL_OK);
        assert_ptr_equal(found, list[i]);
        const void *const *slot = (const void *const *)&list[i]->open; // every slot is filled
        for (; slot <= (const void *const *)&list[i]->synchronize; slot++) assert_non_null(*slot);
    }
    wants(ppl_device_find("tpu", &found), PPL_ERR_ARG, "tpu");
    wants(ppl_device_find(NULL, &found), PPL_ERR_ARG, "reference");
}

static void test_memory(void **state) {
    (void)state;
    ppl_device *d = open_fake();
    const ppl_device_ops *ops = &ppl_device_reference;
    void *p;
    bool done = false;
    assert_int_equal(ops->memory_get(d, 100, &p), PPL_OK);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 100; i++) assert_int_equal(((char *)p)[i], 0);
    assert_int_equal(ops->copy_in(d, p, "abc", 4, 0), PPL_OK);
    assert_int_equal(ops->copy(d, (char *)p + 8, p, 4, 0), PPL_OK);
    char back[4];
    assert_int_equal(ops->copy_out(d, back, (char *)p + 8, 4, 0), PPL_OK);
    assert_string_equal(back, "abc");
    ops->memory_free(d, p);
    assert_int_equal(ops->event_open(d, &p), PPL_OK);
    assert_int_equal(ops->event_record(d, p, 0), PPL_OK);
    assert_int_equal(ops->event_wait(d, p, 1), PPL_OK);
    assert_int_equal(ops->event_done(d, p, &done), PPL_OK);
    assert_true(done);
    ops->event_close(d, p);
    assert_int_equal(ops->synchronize(d), PPL_OK);
    ppl_host_close(d);
}

// Opens a device, builds two programs that pack, and applies an operator to tensors.
static ppl_status build_all(void) {
    ppl_device *d = NULL;
    ppl_program_needs needs;
    ppl_device_program *p;
    ppl_tensor *in[2] = {NULL, NULL}, *out = NULL;
    ppl_type type = ppl_type_make(PPL_F32, 2, (int64_t[]){3, 3});
    ppl_device_node nodes[] = {node("u", 4, 100, 1, 2), node("v", 40, 100, 1, 2), node("w", 4, 8, 2, 3)};
    ppl_status st;
    PPL_GOTO(ppl_host_open("fake", fake_kernel, &(ppl_device_options){.threads = 3}, &d));
    PPL_GOTO(ppl_host_program_build(d, 0, 0, nodes, 2, &needs, &p));
    PPL_GOTO(ppl_host_program_build(d, 0, 1, nodes + 1, 2, &needs, &p));
    for (int i = 0; i < 2; i++) PPL_GOTO(ppl_tensor_open("reference", &type, NULL, 0, &in[i]));
    PPL_GOTO(ppl_tensor_apply(PPL_OP_LINEAR, in, 2, NULL, 0, &out));
fail:
    for (int i = 0; i < 2; i++) ppl_tensor_close(in[i]);
    ppl_tensor_close(out);
    ppl_host_close(d);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    ppl_status st = PPL_ERR_MEMORY;
    for (fail_at = 0; st != PPL_OK && fail_at < 1000; fail_at++) {
        prepared = freed = allocations = 0;
        counting = true;
        st = build_all();
        counting = false;
        assert_int_equal(st, allocations > fail_at ? PPL_ERR_MEMORY : PPL_OK);
        assert_int_equal(prepared, freed);
    }
    assert_int_equal(st, PPL_OK);
    assert_true(fail_at > 10); // each failed once before
    fail_at = -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packs_are_shared), cmocka_unit_test(test_errors),        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_memory),           cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
