// test_checkpoint.c - files that go out and come back, files of every dtype, and files that are wrong in every way.
#include "base/json.h"
#include "support/params.h"
#include "train/store.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { WTE = 0, BIAS, LN, FROZEN };
static const bool all[2][TEST_PARAMS] = {{1, 1, 0, 1}, {1, 0, 1, 0}};
static const ppl_optimizer_options adamw = {.kind = PPL_ADAMW, .lr = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
static char dir[] = "/tmp/ppl_checkpoint_XXXXXX", path[64];
static ppl_graph *graph;

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/c.safetensors", dir);
    graph = test_params(PPL_F32);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_params_free(graph);
    unlink(path);
    return rmdir(dir); // fails if a temporary file was left behind
}

static ppl_store *build(const ppl_graph *g, uint64_t seed, const ppl_optimizer_options *o) {
    ppl_store *s = NULL;
    if (ppl_store_build(g, 2, &all[0][0], seed, o, &s) != PPL_OK) fail_msg("%s", ppl_error());
    return s;
}

static void fill_moments(ppl_store *s) {
    double x[21];
    for (int32_t i = 0; i < 3; i++)
        for (int32_t part = PPL_PART_MOMENT1; part <= PPL_PART_MOMENT2; part++) {
            for (int32_t k = 0; k < 21; k++) x[k] = i + part * 0.1 + k * 1e-3;
            assert_int_equal(ppl_store_write(s, i, part, x), PPL_OK);
        }
}

static bool same(const ppl_store *a, const ppl_store *b, int32_t i, int32_t part) {
    const void *x = ppl_store_part(ppl_store_first(a, i), part), *y = ppl_store_part(ppl_store_first(b, i), part);
    return !x == !y && (!x || memcmp(x, y, ppl_type_bytes(&a->graph->params[i].type)) == 0);
}

static bool same_weights(const ppl_store *a, const ppl_store *b) {
    for (int32_t i = 0; i < TEST_PARAMS; i++)
        if (!same(a, b, i, PPL_PART_WEIGHT)) return false;
    return true;
}

static void test_round_trip(void **state) {
    (void)state;
    static const int32_t dtypes[] = {PPL_F32, PPL_BF16, PPL_F64};
    for (int32_t d = 0; d < 3; d++) {
        ppl_graph *g = test_params(dtypes[d]);
        ppl_store *a = build(g, 1, &adamw), *b = build(g, 2, &adamw);
        int64_t step = 0;
        fill_moments(a);
        assert_false(same_weights(a, b));
        assert_int_equal(ppl_checkpoint_save(a, path, true, 1234567890123), PPL_OK);
        assert_int_equal(ppl_checkpoint_load(b, path, &step), PPL_OK);
        assert_int_equal(step, 1234567890123);
        assert_true(same_weights(a, b));
        for (int32_t i = 0; i < TEST_PARAMS; i++)
            assert_true(same(a, b, i, PPL_PART_MOMENT1) && same(a, b, i, PPL_PART_MOMENT2));
        const ppl_store_entry *first = ppl_store_at(b, 0, WTE), *second = ppl_store_at(b, 1, WTE);
        assert_memory_equal(first->master, second->master, ppl_type_bytes(&g->params[WTE].type));
        if (first->copy) assert_memory_equal(first->copy, second->copy, 42);
        ppl_store_free(a);
        ppl_store_free(b);
        test_params_free(g);
    }
}

// Weights alone: training begins anew, so the moments are zero.
static void test_weights_only(void **state) {
    (void)state;
    ppl_store *a = build(graph, 1, &adamw), *b = build(graph, 2, &adamw);
    int64_t step = 0;
    double m[21];
    fill_moments(a);
    fill_moments(b);
    assert_int_equal(ppl_checkpoint_save(a, path, false, 9), PPL_OK);
    assert_int_equal(ppl_checkpoint_load(b, path, &step), PPL_OK);
    assert_int_equal(step, -1);
    assert_true(same_weights(a, b));
    assert_int_equal(ppl_store_read(b, WTE, PPL_PART_MOMENT2, m), PPL_OK);
    for (int32_t i = 0; i < 21; i++) assert_true(m[i] == 0);
    ppl_store_free(a);
    ppl_store_free(b);
}

static void test_other_optimizer(void **state) {
    (void)state;
    ppl_optimizer_options sgd = {.kind = PPL_SGD, .lr = 1, .momentum = 0.9};
    ppl_store *a = build(graph, 1, &adamw), *b = build(graph, 2, &sgd);
    int64_t step;
    assert_int_equal(ppl_checkpoint_save(a, path, true, 9), PPL_OK);
    assert_int_equal(ppl_checkpoint_load(b, path, &step), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "holds the state of adamw, want that of sgd"));
    assert_false(same_weights(a, b));
    assert_int_equal(ppl_checkpoint_save(b, path, true, 9), PPL_OK);
    assert_int_equal(ppl_checkpoint_load(b, path, &step), PPL_OK);
    ppl_store_free(a);
    ppl_store_free(b);
}

static void test_cannot_save(void **state) {
    (void)state;
    ppl_store *a = build(graph, 1, &adamw);
    char other[96];
    snprintf(other, sizeof other, "%s/no/c", dir);
    assert_int_equal(ppl_checkpoint_save(a, other, true, 9), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "no/c: cannot be written: No such file"));
    snprintf(other, sizeof other, "%s/d", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(ppl_checkpoint_save(a, other, true, 9), PPL_ERR_IO); // a directory has the name
    assert_int_equal(rmdir(other), 0);
    ppl_graph *g = test_params(PPL_F32);
    g->params[BIAS].name = "optimizer.m.wte";
    ppl_store *b = build(g, 1, &adamw);
    assert_int_equal(ppl_checkpoint_save(b, path, false, 9), PPL_OK);
    assert_int_equal(ppl_checkpoint_save(b, path, true, 9), PPL_ERR_ARG);
    assert_non_null(strstr(ppl_error(), "'optimizer.m.wte' stands for two things"));
    g->params[BIAS].name = "b\xff";
    assert_int_equal(ppl_checkpoint_save(b, path, false, 9), PPL_ERR_ARG);
    assert_non_null(strstr(ppl_error(), "is not UTF-8"));
    ppl_store_free(a);
    ppl_store_free(b);
    test_params_free(g);
}

// Writes a file of a header and `bytes` zeros or numbers behind it.
static void put(const char *header, const void *data, size_t bytes) {
    size_t n = strlen(header);
    char *file = calloc(1, 8 + n + bytes);
    for (int32_t i = 0; i < 8; i++) file[i] = (char)(n >> (8 * i));
    memcpy(file + 8, header, n);
    if (data) memcpy(file + 8 + n, data, bytes);
    assert_int_equal(ppl_write_file(path, file, 8 + n + bytes), PPL_OK);
    free(file);
}

// Every dtype on the way in, at any alignment.
static void test_dtypes(void **state) {
    (void)state;
    static const char header[] = "{\"ln.w\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]},"
                                 "\"block.b\":{\"dtype\":\"BF16\",\"shape\":[5],\"data_offsets\":[2,12]},"
                                 "\"frozen\":{\"dtype\":\"F64\",\"shape\":[2,2],\"data_offsets\":[12,44]},"
                                 "\"wte\":{\"dtype\":\"F16\",\"shape\":[7,3],\"data_offsets\":[44,86]}}";
    static const struct {
        uint16_t half;
        double is;
    } halves[] = {{0x3c00, 1},
                  {0xc000, -2},
                  {0x7bff, 65504},
                  {0x0001, 0x1p-24},
                  {0x03ff, 1023 * 0x1p-24},
                  {0x0400, 0x1p-14},
                  {0x3555, 0.333251953125},
                  {0x8000, -0.0}};
    char data[86] = {0};
    double frozen[4] = {1.5, -2.5, 1e-3, 4}, x[21];
    uint16_t ln = 0x4200;
    memcpy(data, &ln, 2);
    for (int32_t i = 0; i < 5; i++) {
        uint16_t b = ppl_bf16_from_f32((float)i - 2);
        memcpy(data + 2 + 2 * i, &b, 2);
    }
    memcpy(data + 12, frozen, 32);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) memcpy(data + 44 + 2 * i, &halves[i].half, 2);
    ppl_store *s = build(graph, 1, &adamw);
    int64_t step;
    static const struct {
        uint16_t half;
        const char *words;
    } endless[] = {{0x7e00, "tensor 'wte', number 20: is nan, want finite"},
                   {0xfe00, "number 20: is nan"},
                   {0x7c00, "number 20: is inf"},
                   {0xfc00, "number 20: is -inf"}};
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) { // refused, and nothing is changed
        memcpy(data + 44 + 40, &endless[i].half, 2);
        put(header, data, sizeof data);
        assert_int_equal(ppl_store_read(s, LN, PPL_PART_WEIGHT, x), PPL_OK);
        double before = x[0];
        assert_int_equal(ppl_checkpoint_load(s, path, &step), PPL_ERR_NUMBER);
        if (!strstr(ppl_error(), endless[i].words)) fail_msg("%s", ppl_error());
        assert_int_equal(ppl_store_read(s, LN, PPL_PART_WEIGHT, x), PPL_OK);
        assert_true(x[0] == before);
    }
    memset(data + 44 + 40, 0, 2);
    put(header, data, sizeof data);
    if (ppl_checkpoint_load(s, path, &step) != PPL_OK) fail_msg("%s", ppl_error());
    assert_int_equal(ppl_store_read(s, LN, PPL_PART_WEIGHT, x), PPL_OK);
    assert_true(x[0] == 3);
    assert_int_equal(ppl_store_read(s, BIAS, PPL_PART_WEIGHT, x), PPL_OK);
    for (int32_t i = 0; i < 5; i++) assert_true(x[i] == i - 2);
    assert_int_equal(ppl_store_read(s, FROZEN, PPL_PART_WEIGHT, x), PPL_OK);
    for (int32_t i = 0; i < 4; i++) assert_true(x[i] == (double)(float)frozen[i]);
    assert_int_equal(ppl_store_read(s, WTE, PPL_PART_WEIGHT, x), PPL_OK);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        assert_true(x[i] == halves[i].is && signbit(x[i]) == signbit(halves[i].is));
    ppl_store_free(s);
}

#define WTE_OK    "\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0,84]}"
#define BIAS_OK   ",\"block.b\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[84,104]}"
#define LN_OK     ",\"ln.w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[104,108]}"
#define FROZEN_OK ",\"frozen\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[108,124]}"
#define MOST_OK   BIAS_OK LN_OK FROZEN_OK

static void test_malformed(void **state) {
    (void)state;
    static const struct {
        const char *header, *words;
        size_t bytes;
    } cases[] = {
        {"", "its header, byte 0", 0},
        {"[]", "its header is no JSON object", 0},
        {"{\"wte\":", "its header, byte", 0},
        {"{} x", "its header, byte", 0},
        {"{\"\xff\":1}", "its header, byte", 0},
        {"{" WTE_OK "," WTE_OK MOST_OK "}", "duplicate object key near '\"wte\"'", 124},
        {"{\"wte\":1" MOST_OK "}", "tensor 'wte': is no JSON object", 124},
        {"{\"wte\":{}" MOST_OK "}", "tensor 'wte': dtype (none), want F32", 124},
        {"{\"wte\":{\"dtype\":\"I64\",\"shape\":[7,3],\"data_offsets\":[0,168]}}", "tensor 'wte': dtype I64", 168},
        {"{\"wte\":{\"dtype\":4,\"shape\":[7,3],\"data_offsets\":[0,84]}}", "tensor 'wte': dtype (none)", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"data_offsets\":[0,84]}}", "no array 'shape'", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,\"3\"],\"data_offsets\":[0,84]}}", "a dimension that is no whole",
         84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[-7,-3],\"data_offsets\":[0,84]}}", "a dimension that is no whole", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7.0,3],\"data_offsets\":[0,84]}}", "a dimension that is no whole", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,7,3],\"data_offsets\":[0,84]}}", "too many dimensions", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", "beyond any memory",
         0},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", "its header, byte",
         0},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3]}}", "no pair of whole numbers", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0]}}", "no pair of whole numbers", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0,84.5]}}", "no pair of whole numbers", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":{\"a\":0}}}", "no pair of whole numbers", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0,84]}}", "0 to 84 are outside the 83", 83},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[84,0]}}", "84 to 0 are outside", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[-84,0]}}", "-84 to 0 are outside", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0,80]}}",
         "takes 84 bytes, its data_offsets give 80", 84},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[7,3],\"data_offsets\":[0,84],\"more\":1}}", "more than dtype", 84},
        {"{" WTE_OK ",\"block.b\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[80,100]}}",
         "'wte' and 'block.b' overlap", 104},
        {"{" WTE_OK ",\"block.b\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[88,108]}}",
         "4 bytes before tensor 'block.b'", 108},
        {"{" WTE_OK MOST_OK "}", "2 bytes behind the last tensor", 126},
        {"{" WTE_OK BIAS_OK LN_OK "}", "tensor 'frozen': is missing", 108},
        {"{" WTE_OK MOST_OK ",\"extra\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[124,128]}}",
         "tensor 'extra': nothing in the model", 128},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[3,7],\"data_offsets\":[0,84]}" MOST_OK "}",
         "tensor 'wte' is (3, 7), want (7, 3)", 124},
        {"{\"wte\":{\"dtype\":\"F32\",\"shape\":[21],\"data_offsets\":[0,84]}" MOST_OK "}",
         "tensor 'wte' is (21), want (7, 3)", 124},
        {"{\"__metadata__\":[]," WTE_OK MOST_OK "}", "__metadata__ is no JSON object", 124},
        {"{\"__metadata__\":{\"a\":1}," WTE_OK MOST_OK "}", "__metadata__ 'a' is no text", 124},
        {"{\"__metadata__\":{\"step\":\"-1\"}," WTE_OK MOST_OK "}", "step '-1', want a whole number", 124},
        {"{\"__metadata__\":{\"step\":\"\"}," WTE_OK MOST_OK "}", "step ''", 124},
        {"{\"__metadata__\":{\"step\":\"9999999999999999999\"}," WTE_OK MOST_OK "}", "step '9999999999999999999'", 124},
        {"{\"__metadata__\":{\"step\":\"3\"}," WTE_OK MOST_OK "}", "tensor 'optimizer.m.block.b': is missing", 124},
    };
    ppl_store *s = build(graph, 1, &adamw), *before = build(graph, 1, &adamw);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t step = 77;
        put(cases[i].header, NULL, cases[i].bytes);
        ppl_status st = ppl_checkpoint_load(s, path, &step);
        if (st != PPL_ERR_IO || !strstr(ppl_error(), cases[i].words) || !strstr(ppl_error(), path))
            fail_msg("status %d, '%s' lacks '%s'", st, st ? ppl_error() : "", cases[i].words);
        assert_int_equal(step, 77);
        assert_true(same_weights(s, before));
    }
    put("{" WTE_OK MOST_OK "}", NULL, 124); // what the cases are variations of is fine
    int64_t step;
    assert_int_equal(ppl_checkpoint_load(s, path, &step), PPL_OK);
    ppl_store_free(s);
    ppl_store_free(before);
}

static void test_no_file(void **state) {
    (void)state;
    ppl_store *s = build(graph, 1, &adamw);
    int64_t step;
    char other[96];
    snprintf(other, sizeof other, "%s/none", dir);
    assert_int_equal(ppl_checkpoint_load(s, other, &step), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "cannot be read: No such file"));
    assert_int_equal(ppl_checkpoint_load(s, dir, &step), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "is no regular file"));
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(ppl_checkpoint_load(s, other, &step), PPL_ERR_IO);
    unlink(other);
    static const char huge[8] = {(char)0xff, (char)0xff, (char)0xff, (char)0xff,
                                 (char)0xff, (char)0xff, (char)0xff, 0x7f};
    assert_int_equal(ppl_write_file(path, huge, 8), PPL_OK);
    assert_int_equal(ppl_checkpoint_load(s, path, &step), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "its header takes 9223372036854775807 bytes, want at most 0"));
    ppl_store_free(s);
}

// Without a sync, and without emptying the file first, which some file systems answer with one: there are thousands.
static void put_raw(const char *data, size_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pwrite(fd, data, bytes, 0), bytes);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    close(fd);
}

// Cut off after every byte, and with every byte changed: an error or a good file, never harm, and no half-load.
static void test_damage(void **state) {
    (void)state;
    ppl_store *a = build(graph, 1, &adamw), *s = build(graph, 2, &adamw), *before = build(graph, 2, &adamw);
    int64_t step;
    assert_int_equal(ppl_checkpoint_save(a, path, true, 5), PPL_OK);
    FILE *f = fopen(path, "rb");
    static char file[4096], work[4096];
    size_t size = fread(file, 1, sizeof file, f), header = (uint8_t)file[0] + 256u * (uint8_t)file[1];
    fclose(f);
    assert_true(size < sizeof file && header % 8 == 0 && header < size);
    for (size_t n = 0; n < size; n++) {
        put_raw(file, n);
        assert_int_equal(ppl_checkpoint_load(s, path, &step), PPL_ERR_IO);
        assert_true(same_weights(s, before));
    }
    static const char bytes[] = {0, '"', '}', ',', '9', '-'};
    for (size_t at = 0; at < 8 + header; at++)
        for (size_t k = 0; k < sizeof bytes; k++) {
            memcpy(work, file, size);
            work[at] = bytes[k];
            put_raw(work, size);
            ppl_status st = ppl_checkpoint_load(s, path, &step);
            assert_true(st == PPL_OK || st == PPL_ERR_IO);
        }
    ppl_store_free(a);
    ppl_store_free(s);
    ppl_store_free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_weights_only), cmocka_unit_test(test_other_optimizer),
        cmocka_unit_test(test_cannot_save), cmocka_unit_test(test_dtypes),       cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_no_file),     cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
