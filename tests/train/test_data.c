// test_data.c - text and queues: every window once an epoch, padding that does not count, and every refusal.
#include "train/data.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { CONTEXT = 4 };
static char dir[] = "/tmp/ppl_data_XXXXXX";
static char big[64], small[64]; // files of 1003 and 5 bytes, of the numbers 0, 1, ... and 200, 201, ...

static void put(char path[64], const char *name, int32_t bytes, int32_t first) {
    uint8_t data[2048];
    snprintf(path, 64, "%s/%s", dir, name);
    for (int32_t i = 0; i < bytes; i++) data[i] = (uint8_t)(first + i);
    assert_int_equal(ppl_write_file(path, data, (size_t)bytes), PPL_OK);
}

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return 1;
    put(big, "big", 1003, 0);
    put(small, "small", 5, 200);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(big);
    unlink(small);
    return rmdir(dir);
}

static ppl_data *text(int32_t part, double held_out, uint64_t seed) {
    const char *files[] = {big, small};
    ppl_data *d = NULL;
    if (ppl_data_text(files, 2, CONTEXT, held_out, part, seed, &d) != PPL_OK) fail_msg("%s", ppl_error());
    return d;
}

static void refused(ppl_status st, ppl_status want, const char *words) {
    if (st != want || !strstr(ppl_error(), words))
        fail_msg("status %d, '%s': want %d with '%s'", st, ppl_error(), want, words);
}

// One sample, its targets checked to be the tokens shifted by one; the number of its window.
static int32_t window(ppl_data *d, int64_t step, int32_t n, int32_t batch) {
    int32_t tokens[CONTEXT], targets[CONTEXT];
    assert_int_equal(ppl_data_read(d, step, n, 1, batch, 0, tokens), PPL_OK);
    assert_int_equal(ppl_data_read(d, step, n, 1, batch, 1, targets), PPL_OK);
    for (int32_t i = 0; i + 1 < CONTEXT; i++) assert_int_equal(targets[i], tokens[i + 1]);
    assert_int_equal(targets[CONTEXT - 1], (tokens[CONTEXT - 1] + 1) % 256);
    return tokens[0];
}

static void test_inputs(void **state) {
    (void)state;
    ppl_data *d = text(0, 0, 1);
    int64_t context = CONTEXT;
    ppl_type want = ppl_type_make(PPL_I32, 1, &context), is = ppl_data_sample_type(d, 1);
    assert_int_equal(ppl_data_inputs(d), 2);
    assert_string_equal(ppl_data_input_name(d, 0), "tokens");
    assert_int_equal(ppl_data_input(d, "targets"), 1);
    assert_int_equal(ppl_data_input(d, "pixels"), -1);
    assert_true(ppl_type_equal(&is, &want));
    assert_int_equal(ppl_data_samples(d), 250 + 1); // (1003 - 1) / 4 and (5 - 1) / 4
    ppl_data_close(d);
    ppl_data_close(NULL);
}

// An epoch has each window once, in an order of its own that the batch size does not change.
static void test_epochs(void **state) {
    (void)state;
    ppl_data *d = text(0, 0, 1), *other = text(0, 0, 2);
    int32_t order[3][251], others[251], seen[2][256];
    for (int32_t epoch = 0; epoch < 3; epoch++) {
        memset(seen, 0, sizeof seen);
        for (int32_t i = 0; i < 251; i++) {
            int64_t n = epoch * 251 + i;
            order[epoch][i] = window(d, n / 10, (int32_t)(n % 10), 10);
            assert_int_equal(order[epoch][i], window(d, n / 3, (int32_t)(n % 3), 3));
            seen[0][order[epoch][i]]++;
        }
        for (int32_t b = 0; b < 256; b++) { // window k begins with byte 4 k of 1000, modulo 256; the small one with 200
            int32_t times = 0;
            for (int32_t k = 0; k < 250; k++) times += 4 * k % 256 == b;
            assert_int_equal(seen[0][b], times + (b == 200));
        }
    }
    for (int32_t i = 0; i < 251; i++) others[i] = window(other, i, 0, 1);
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[1], order[2], sizeof order[0]);
    assert_memory_not_equal(order[0], others, sizeof others);
    ppl_data_close(d);
    ppl_data_close(other);
}

// The order is a permutation for every number of windows, and all places are alike: chi-square over 8 x 8 of them.
static void test_shuffle(void **state) {
    (void)state;
    char path[64];
    for (int32_t windows = 1; windows <= 64; windows++) {
        put(path, "some", windows * CONTEXT + 1, 0);
        const char *file = path;
        ppl_data *d = NULL;
        int32_t count[64] = {0}, epochs = windows == 64 ? 400 : 2;
        assert_int_equal(ppl_data_text(&file, 1, CONTEXT, 0, 0, 5, &d), PPL_OK);
        for (int32_t epoch = 0; epoch < epochs; epoch++) {
            bool seen[64] = {0};
            for (int32_t i = 0; i < windows; i++) {
                int32_t tokens[CONTEXT];
                assert_int_equal(ppl_data_read(d, epoch, i, 1, windows, 0, tokens), PPL_OK);
                int32_t w = tokens[0] / CONTEXT;
                assert_false(seen[w]);
                seen[w] = true;
                count[i / 8 * 8 + w / 8]++;
            }
        }
        double chi = 0;
        for (int32_t i = 0; i < 64; i++) chi += (count[i] - epochs) * (double)(count[i] - epochs) / epochs;
        if (windows == 64) assert_true(chi > 10 && chi < 110); // 49 degrees of freedom: outside once in a million
        ppl_data_close(d);
    }
    unlink(path);
}

// The held-out part is the end of each file, in order, once; its last step is padded.
static void test_held_out(void **state) {
    (void)state;
    ppl_data *d = text(1, 0.1, 9), *train = text(0, 0.1, 9);
    assert_int_equal(ppl_data_samples(d), 24);          // 100 bytes of the big file, none of the small one
    assert_int_equal(ppl_data_samples(train), 225 + 1); // 903 bytes, 5 bytes
    for (int32_t n = 0; n < 24; n++) assert_int_equal(window(d, n / 10, n % 10, 10), (903 + 4 * n) % 256);
    int32_t present;
    double weight;
    assert_int_equal(ppl_data_present(d, 2, 10, &present), PPL_OK);
    assert_int_equal(present, 4);
    assert_int_equal(ppl_data_weight(d, 2, 10, &weight), PPL_OK);
    assert_true(weight == 16);
    assert_int_equal(ppl_data_ready(d, 2, 10), PPL_OK);
    refused(ppl_data_ready(d, 3, 10), PPL_ERR_DATA, "step 3: the held-out part has 24 samples, which is 3 steps of 10");
    int32_t tokens[10 * CONTEXT], targets[10 * CONTEXT];
    assert_int_equal(ppl_data_read(d, 2, 0, 10, 10, 0, tokens), PPL_OK);
    assert_int_equal(ppl_data_read(d, 2, 0, 10, 10, 1, targets), PPL_OK);
    for (int32_t i = 0; i < 10 * CONTEXT; i++) {
        assert_int_equal(tokens[i], i < 16 ? (903 + 80 + i) % 256 : 0);
        assert_int_equal(targets[i], i < 16 ? (903 + 81 + i) % 256 : -1);
    }
    assert_int_equal(ppl_data_read(d, 2, 6, 4, 10, 1, targets), PPL_OK); // padding alone
    for (int32_t i = 0; i < 4 * CONTEXT; i++) assert_int_equal(targets[i], -1);
    ppl_data_close(d);
    ppl_data_close(train);
}

static void test_text_refused(void **state) {
    (void)state;
    char path[64], missing[64], fifo[64];
    const char *files[2] = {big, path};
    ppl_data *d = NULL;
    put(path, "empty", 0, 0);
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_DATA, "empty: is empty");
    unlink(path);
    put(path, "short", CONTEXT, 0);
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_DATA, "short: has 4 bytes, want 5 at least");
    unlink(path);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    files[1] = missing;
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_IO, "missing: cannot be read: No such file");
    files[1] = dir;
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_IO, "is a directory, want a file");
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    files[1] = fifo;
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_IO, "is no regular file");
    unlink(fifo);
    files[1] = NULL;
    refused(ppl_data_text(files, 2, CONTEXT, 0, 0, 1, &d), PPL_ERR_ARG, "file 1 has no name");
    files[1] = small;
    refused(ppl_data_text(files, 0, CONTEXT, 0, 0, 1, &d), PPL_ERR_ARG, "0 files");
    refused(ppl_data_text(files, 2, 0, 0, 0, 1, &d), PPL_ERR_ARG, "a context of 0");
    refused(ppl_data_text(files, 2, CONTEXT, 1, 0, 1, &d), PPL_ERR_ARG, "held_out 1");
    refused(ppl_data_text(files, 2, CONTEXT, NAN, 0, 1, &d), PPL_ERR_ARG, "held_out");
    refused(ppl_data_text(files, 2, CONTEXT, 0, 2, 1, &d), PPL_ERR_ARG, "part 2");
    refused(ppl_data_text(files, 2, CONTEXT, 0, 1, 1, &d), PPL_ERR_DATA, "held_out 0 no file has a window of 5 bytes");
    refused(ppl_data_text(files, 1, INT32_MAX, 0, 0, 1, &d), PPL_ERR_DATA, "want 2147483648 at least");
    assert_null(d);
}

static void test_read_refused(void **state) {
    (void)state;
    ppl_data *d = text(0, 0, 1);
    int32_t x[4 * CONTEXT];
    const void *arrays[2] = {x, x};
    refused(ppl_data_read(d, 0, 0, 1, 4, 2, x), PPL_ERR_ARG, "input 2");
    refused(ppl_data_read(d, 0, 0, 1, 4, -1, x), PPL_ERR_ARG, "input -1");
    refused(ppl_data_read(d, 0, 3, 2, 4, 0, x), PPL_ERR_ARG, "samples 3 to 4");
    refused(ppl_data_read(d, 0, -1, 1, 4, 0, x), PPL_ERR_ARG, "samples -1");
    refused(ppl_data_read(d, -1, 0, 1, 4, 0, x), PPL_ERR_ARG, "step -1");
    refused(ppl_data_read(d, INT64_MAX, 0, 1, 4, 0, x), PPL_ERR_ARG, "step 9223372036854775807");
    refused(ppl_data_read(d, 0, 0, 0, 0, 0, x), PPL_ERR_ARG, "batch of 0");
    refused(ppl_data_read_as(d, 0, 0, 1, 4, 0, PPL_F32, x), PPL_ERR_ARG, "'tokens' is i32");
    refused(ppl_data_push(d, 1, arrays), PPL_ERR_ARG, "text is read from its files");
    ppl_data_end(d);
    assert_int_equal(ppl_data_read(d, INT64_MAX / 8, 0, 1, 4, 0, x), PPL_OK); // far, but a step
    ppl_data_close(d);
}

static void test_cut_short(void **state) {
    (void)state;
    char path[64];
    put(path, "shrinks", 2000, 0);
    const char *file = path;
    ppl_data *d = NULL;
    int32_t x[CONTEXT];
    assert_int_equal(ppl_data_text(&file, 1, CONTEXT, 0, 0, 1, &d), PPL_OK);
    assert_int_equal(ppl_data_read(d, 0, 0, 1, 1, 0, x), PPL_OK);
    assert_int_equal(truncate(path, 0), 0);
    refused(ppl_data_read(d, 0, 0, 1, 1, 0, x), PPL_ERR_DATA, "shrinks: was cut short");
    ppl_data_close(d);
    unlink(path);
}

static ppl_data *queue(int32_t ahead) {
    static const char *const names[] = {"x", "targets", "ids"};
    static const ppl_type types[] = {{.dtype = PPL_F32, .ndim = 1, .dim = {2}},
                                     {.dtype = PPL_F32, .ndim = 0},
                                     {.dtype = PPL_I32, .ndim = 1, .dim = {3}}};
    ppl_data *d = NULL;
    if (ppl_data_queue(3, names, types, ahead, &d) != PPL_OK) fail_msg("%s", ppl_error());
    return d;
}

// Pushes `samples` of step k: x = k + s, targets = k but NaN at odd samples, ids = 10 k + s.
static ppl_status push(ppl_data *d, int32_t k, int32_t samples) {
    float x[16], targets[8];
    int32_t ids[24];
    for (int32_t s = 0; s < samples; s++) {
        x[2 * s] = x[2 * s + 1] = (float)(k + s);
        targets[s] = s % 2 ? NAN : (float)k;
        ids[3 * s] = ids[3 * s + 1] = ids[3 * s + 2] = 10 * k + s;
    }
    const void *arrays[3] = {x, targets, ids};
    return ppl_data_push(d, samples, arrays);
}

static void test_queue(void **state) {
    (void)state;
    ppl_data *d = queue(3);
    assert_int_equal(ppl_data_samples(d), -1);
    refused(ppl_data_ready(d, 0, 4), PPL_ERR_DATA, "step 0 was not pushed, 0 of at most 3 steps wait");
    for (int32_t k = 0; k < 3; k++) assert_int_equal(push(d, k, k == 1 ? 3 : 4), PPL_OK);
    refused(push(d, 3, 4), PPL_ERR_DATA, "3 steps wait already");
    int32_t present, ids[12];
    double weight;
    float x[8], targets[4];
    uint16_t half[8];
    assert_int_equal(ppl_data_present(d, 1, 4, &present), PPL_OK);
    assert_int_equal(present, 3);
    assert_int_equal(ppl_data_weight(d, 1, 4, &weight), PPL_OK);
    assert_true(weight == 2);
    assert_int_equal(ppl_data_read(d, 1, 2, 2, 4, 0, x), PPL_OK);
    assert_int_equal(ppl_data_read(d, 1, 0, 4, 4, 1, targets), PPL_OK);
    assert_int_equal(ppl_data_read(d, 1, 0, 4, 4, 2, ids), PPL_OK);
    assert_int_equal(ppl_data_read_as(d, 1, 1, 2, 4, 0, PPL_BF16, half), PPL_OK);
    assert_true(x[0] == 3 && x[1] == 3 && x[2] == 0 && x[3] == 0);
    assert_true(targets[0] == 1 && isnan(targets[1]) && targets[2] == 1 && isnan(targets[3]));
    assert_true(ids[8] == 12 && ids[9] == 0 && ids[11] == 0);
    assert_int_equal(half[0], ppl_bf16_from_f32(2));
    assert_int_equal(half[2], ppl_bf16_from_f32(3));
    refused(ppl_data_ready(d, 0, 3), PPL_ERR_DATA, "step 0 has 4 samples, want at most the batch of 3");
    ppl_data_done(d, 0);
    refused(ppl_data_ready(d, 0, 4), PPL_ERR_DATA, "step 0 was given back already");
    assert_int_equal(push(d, 3, 1), PPL_OK);
    ppl_data_end(d);
    refused(push(d, 4, 4), PPL_ERR_DATA, "a push after its end");
    assert_int_equal(ppl_data_ready(d, 3, 4), PPL_OK);
    refused(ppl_data_ready(d, 4, 4), PPL_ERR_DATA, "the data ended before step 4");
    ppl_data_done(d, 2);
    ppl_data_seek(d, 100); // the next samples are those of step 100
    assert_int_equal(ppl_data_read(d, 100, 0, 1, 4, 2, ids), PPL_OK);
    assert_int_equal(ids[0], 30);
    ppl_data_close(d);
}

static void test_nothing_counts(void **state) {
    (void)state;
    ppl_data *d = queue(2);
    float x[2] = {0}, targets[1] = {NAN};
    int32_t ids[3] = {0};
    const void *arrays[3] = {x, targets, ids};
    assert_int_equal(ppl_data_push(d, 1, arrays), PPL_OK);
    refused(ppl_data_ready(d, 0, 4), PPL_ERR_DATA, "step 0: none of its targets counts");
    ppl_data_close(d);
}

static void test_queue_refused(void **state) {
    (void)state;
    ppl_data *d = NULL;
    char long_name[PPL_NAME_BYTES + 1];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[PPL_NAME_BYTES] = 0;
    const char *names[] = {"a", "a"};
    ppl_type types[2] = {{.dtype = PPL_F32, .ndim = 1, .dim = {2}}, {.dtype = PPL_F32, .ndim = 1, .dim = {2}}};
    refused(ppl_data_queue(0, names, types, 1, &d), PPL_ERR_ARG, "0 inputs");
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "two inputs are named 'a'");
    names[1] = "b";
    refused(ppl_data_queue(2, names, types, 0, &d), PPL_ERR_ARG, "steps_ahead 0");
    names[1] = long_name;
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "input 1: its name has 96 bytes");
    names[1] = "";
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "input 1: its name has 0 bytes");
    names[1] = "b";
    types[1].dtype = PPL_BF16;
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "input 'b': dtype 1");
    types[1] = (ppl_type){.dtype = PPL_F32, .ndim = 6, .dim = {1, 1, 1, 1, 1, 1}};
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "6 dimensions, want f32 or i32 with at most 5");
    types[1] = (ppl_type){.dtype = PPL_F32, .ndim = 2, .dim = {1 << 30, INT64_C(1) << 40}};
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "is no shape of a sample");
    types[1].dim[1] = 0;
    refused(ppl_data_queue(2, names, types, 1, &d), PPL_ERR_ARG, "is no shape of a sample");
    assert_null(d);
    d = queue(1);
    const void *arrays[3] = {types, NULL, types};
    refused(ppl_data_push(d, 1, arrays), PPL_ERR_ARG, "no array for input 'targets'");
    refused(ppl_data_push(d, 0, arrays), PPL_ERR_ARG, "0 samples");
    ppl_data_close(d);
}

enum { STEPS = 300, READERS = 3 };
static struct {
    ppl_data *d;
    pthread_barrier_t begun, ended;
    int32_t bad;
} shared;

// Reads every step of the queue as a rank would; the step's samples must be those of its push.
static void *reader(void *arg) {
    (void)arg;
    for (int32_t step = 0; step < STEPS; step++) {
        pthread_barrier_wait(&shared.begun);
        int32_t ids[12];
        if (ppl_data_read(shared.d, step, 0, 4, 4, 2, ids) != PPL_OK || ids[9] != 10 * step + 3)
            __atomic_add_fetch(&shared.bad, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&shared.ended);
    }
    return NULL;
}

static void *pusher(void *arg) {
    (void)arg;
    for (int32_t k = 0; k < STEPS;) {
        if (push(shared.d, k, 4) == PPL_OK) k++;
        else usleep(10);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[READERS + 1];
    shared.d = queue(2);
    pthread_barrier_init(&shared.begun, NULL, READERS + 1);
    pthread_barrier_init(&shared.ended, NULL, READERS + 1);
    for (int32_t i = 0; i <= READERS; i++) pthread_create(&threads[i], NULL, i < READERS ? reader : pusher, NULL);
    for (int32_t step = 0; step < STEPS; step++) {
        while (ppl_data_ready(shared.d, step, 4) != PPL_OK) usleep(10);
        pthread_barrier_wait(&shared.begun);
        pthread_barrier_wait(&shared.ended);
        ppl_data_done(shared.d, step);
    }
    for (int32_t i = 0; i <= READERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(shared.bad, 0);
    pthread_barrier_destroy(&shared.begun);
    pthread_barrier_destroy(&shared.ended);
    ppl_data_close(shared.d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs),         cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_shuffle),        cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_text_refused),   cmocka_unit_test(test_read_refused),
        cmocka_unit_test(test_cut_short),      cmocka_unit_test(test_queue),
        cmocka_unit_test(test_nothing_counts), cmocka_unit_test(test_queue_refused),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
