// test_tensor.c - eager tensors: reading and writing by dtype, operators at once, and refusals in words.
#include "base/numbers.h"
#include "ppl.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char *const devices[] = {"cpu", "reference"};
enum { DEVICES = sizeof devices / sizeof *devices };

static ppl_tensor *make(const char *device, int32_t dtype, int32_t ndim, const int64_t *dim, const void *data,
                        int32_t host) {
    ppl_tensor *t = NULL;
    ppl_type type = ppl_type_make(dtype, ndim, dim);
    if (ppl_tensor_open(device, &type, data, host, &t) != PPL_OK) fail_msg("%s", ppl_error());
    return t;
}

static void wants(ppl_status is, ppl_status want, const char *words) {
    assert_int_equal(is, want);
    if (!strstr(ppl_error(), words)) fail_msg("\"%s\" does not say \"%s\"", ppl_error(), words);
}

static void test_read(void **state) {
    (void)state;
    const double x[] = {1, -2.5, 1 + 0x1p-8, 3e9};
    for (int d = 0; d < DEVICES; d++) {
        ppl_tensor *t = make(devices[d], PPL_BF16, 2, (int64_t[]){2, 2}, x, PPL_F64);
        ppl_type type;
        ppl_tensor_type(t, &type);
        assert_int_equal(type.ndim, 2);
        assert_int_equal(type.dtype, PPL_BF16);
        float f[4];
        int32_t i[4];
        assert_int_equal(ppl_tensor_read(t, f, PPL_F32), PPL_OK);
        assert_true(f[0] == 1 && f[1] == -2.5f && f[2] == 1); // ties go to even
        assert_int_equal(ppl_tensor_read(t, i, PPL_I32), PPL_OK);
        assert_int_equal(i[1], -2);
        assert_int_equal(i[3], INT32_MAX); // saturates
        wants(ppl_tensor_read(t, f, PPL_BF16), PPL_ERR_ARG, "host_dtype");
        ppl_tensor_close(t);
        t = make(devices[d], PPL_F32, 0, NULL, NULL, 0); // a scalar of zeros
        assert_int_equal(ppl_tensor_read(t, f, PPL_F32), PPL_OK);
        assert_true(f[0] == 0);
        ppl_tensor_close(t);
    }
    ppl_tensor_close(NULL);
}

static void test_apply(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0, -1, 2, 2, 2}, b[] = {0, 100};
    const float want[] = {0, 112, 0, 130}, want_pre[] = {-2, 112, -2, 130};
    for (int d = 0; d < DEVICES; d++) {
        ppl_tensor *in[] = {make(devices[d], PPL_F32, 2, (int64_t[]){2, 3}, x, PPL_F32),
                            make(devices[d], PPL_F32, 2, (int64_t[]){2, 3}, w, PPL_F32),
                            make(devices[d], PPL_F32, 1, (int64_t[]){2}, b, PPL_F32)};
        ppl_tensor *out[2] = {NULL};
        ppl_attrs relu = {.i = {PPL_ACT_RELU}};
        if (ppl_tensor_apply(PPL_OP_LINEAR, in, 3, &relu, 0, out) != PPL_OK) fail_msg("%s", ppl_error());
        float y[4];
        assert_int_equal(ppl_tensor_read(out[0], y, PPL_F32), PPL_OK);
        for (int i = 0; i < 4; i++) assert_true(y[i] == want[i]);
        assert_int_equal(ppl_tensor_read(out[1], y, PPL_F32), PPL_OK);
        for (int i = 0; i < 4; i++) assert_true(y[i] == want_pre[i]);
        ppl_tensor_close(out[0]), ppl_tensor_close(out[1]);

        ppl_attrs shape = {.i = {1, 6}};
        float flat[6];
        assert_int_equal(ppl_tensor_apply(PPL_OP_RESHAPE, in, 1, &shape, 0, out), PPL_OK);
        ppl_type type;
        ppl_tensor_type(out[0], &type);
        assert_int_equal(type.ndim, 1);
        assert_int_equal(ppl_tensor_read(out[0], flat, PPL_F32), PPL_OK);
        assert_memory_equal(flat, x, sizeof flat);
        ppl_tensor_close(out[0]);

        ppl_attrs half = {.f = {0.5}};
        for (int training = 0; training < 2; training++) {
            assert_int_equal(ppl_tensor_apply(PPL_OP_DROPOUT, in, 1, &half, training, out), PPL_OK);
            assert_int_equal(ppl_tensor_read(out[0], flat, PPL_F32), PPL_OK);
            for (int i = 0; i < 6; i++) assert_true(training ? flat[i] == 0 || flat[i] == 2 * x[i] : flat[i] == x[i]);
            ppl_tensor_close(out[0]);
        }
        for (int i = 0; i < 3; i++) ppl_tensor_close(in[i]);
    }
}

static void test_bad_data(void **state) {
    (void)state;
    const int32_t ids[] = {0, 4}, targets[] = {-1, 3};
    const float w[12] = {0};
    for (int d = 0; d < DEVICES; d++) {
        ppl_tensor *out[2];
        ppl_tensor *embedding[] = {make(devices[d], PPL_I32, 1, (int64_t[]){2}, ids, PPL_I32),
                                   make(devices[d], PPL_F32, 2, (int64_t[]){4, 3}, w, PPL_F32)};
        wants(ppl_tensor_apply(PPL_OP_EMBEDDING, embedding, 2, NULL, 0, out), PPL_ERR_DATA, "4");
        ppl_tensor *loss[] = {make(devices[d], PPL_F32, 2, (int64_t[]){2, 3}, w, PPL_F32),
                              make(devices[d], PPL_I32, 1, (int64_t[]){2}, targets, PPL_I32)};
        wants(ppl_tensor_apply(PPL_OP_CROSS_ENTROPY, loss, 2, NULL, 0, out), PPL_ERR_DATA, "3");
        for (int i = 0; i < 2; i++) ppl_tensor_close(embedding[i]), ppl_tensor_close(loss[i]);
    }
}

static void test_refusals(void **state) {
    (void)state;
    ppl_tensor *t = NULL, *out[4];
    ppl_type type = ppl_type_make(PPL_F32, 1, (int64_t[]){3});
    wants(ppl_tensor_open("abacus", &type, NULL, 0, &t), PPL_ERR_ARG, "abacus");
    wants(ppl_tensor_open("emulated", &type, NULL, 0, &t), PPL_ERR_ARG, "emulated");
    wants(ppl_tensor_open("reference", &type, "x", PPL_BF16, &t), PPL_ERR_ARG, "host_dtype");
    type.dtype = 99;
    wants(ppl_tensor_open("reference", &type, NULL, 0, &t), PPL_ERR_ARG, "dtype is 99");
    type = ppl_type_make(PPL_F32, 1, (int64_t[]){3});
    type.ndim = 7;
    wants(ppl_tensor_open("reference", &type, NULL, 0, &t), PPL_ERR_SHAPE, "7 dims");
    type.ndim = 1, type.dim[0] = 0;
    wants(ppl_tensor_open("reference", &type, NULL, 0, &t), PPL_ERR_SHAPE, "dim 0");
    type = ppl_type_make(PPL_F32, 3, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40, 2});
    wants(ppl_tensor_open("reference", &type, NULL, 0, &t), PPL_ERR_MEMORY, "elements");

    type = ppl_type_make(PPL_F64, 1, (int64_t[]){3});
    wants(ppl_tensor_open("cpu", &type, NULL, 0, &t), PPL_ERR_ARG, "f64");

    t = make("reference", PPL_F32, 1, (int64_t[]){3}, NULL, 0);
    ppl_tensor *two[] = {t, NULL};
    wants(ppl_tensor_apply(PPL_OPS, two, 1, NULL, 0, out), PPL_ERR_ARG, "operator");
    wants(ppl_tensor_apply(-1, two, 1, NULL, 0, out), PPL_ERR_ARG, "operator");
    wants(ppl_tensor_apply(PPL_OP_ADD, two, 1, NULL, 0, out), PPL_ERR_ARG, "add: 1 inputs");
    wants(ppl_tensor_apply(PPL_OP_ADD, two, 9, NULL, 0, out), PPL_ERR_ARG, "add: 9 inputs");
    wants(ppl_tensor_apply(PPL_OP_ADD, two, 2, NULL, 0, out), PPL_ERR_ARG, "input 1 is missing");
    two[1] = make("reference", PPL_F32, 1, (int64_t[]){4}, NULL, 0);
    assert_int_equal(ppl_tensor_apply(PPL_OP_ADD, two, 2, NULL, 0, out), PPL_ERR_SHAPE);
    ppl_tensor_close(two[1]);
    two[1] = make("cpu", PPL_F32, 1, (int64_t[]){3}, NULL, 0);
    wants(ppl_tensor_apply(PPL_OP_ADD, two, 2, NULL, 0, out), PPL_ERR_ARG, "input 1 is on device cpu");
    ppl_param_spec spec = {.init = 17};
    wants(ppl_tensor_fill(t, &spec, 1, "w"), PPL_ERR_ARG, "init is 17");
    ppl_tensor_close(two[0]), ppl_tensor_close(two[1]);
}

static void test_fill(void **state) {
    (void)state;
    ppl_param_spec spec = {.init = PPL_INIT_NORMAL, .a = 0.02};
    ppl_tensor *f32 = make("reference", PPL_F32, 2, (int64_t[]){5, 7}, NULL, 0);
    ppl_tensor *bf16 = make("reference", PPL_BF16, 1, (int64_t[]){35}, NULL, 0);
    float a[35], b[35];
    assert_int_equal(ppl_tensor_fill(f32, &spec, 9, "w"), PPL_OK);
    assert_int_equal(ppl_tensor_fill(bf16, &spec, 9, "w"), PPL_OK);
    assert_int_equal(ppl_tensor_read(f32, a, PPL_F32), PPL_OK);
    assert_int_equal(ppl_tensor_read(bf16, b, PPL_F32), PPL_OK);
    for (int i = 0; i < 35; i++) assert_true(b[i] == ppl_bf16_to_f32(ppl_bf16_from_f32(a[i])) && a[i] != 0);
    ppl_tensor_close(f32), ppl_tensor_close(bf16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),     cmocka_unit_test(test_apply), cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
