// test_base.c - error text, arenas, Philox, bf16 rounding, JSON text, files, bells.
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/random.h"
#include "base/status.h"
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void test_status(void **state) {
    (void)state;
    assert_int_equal(ppl_fail(PPL_ERR_ARG, "rank %d: is bad", 3), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "rank 3: is bad");
    assert_int_equal(ppl_prefix(PPL_ERR_ARG, "layer %s: ", "x"), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "layer x: rank 3: is bad");
    ppl_fail(PPL_ERR_ARG, "again: %s", ppl_error()); // the old text as an argument
    assert_string_equal(ppl_error(), "again: layer x: rank 3: is bad");
    assert_string_equal(ppl_status_name(PPL_ERR_STALL), "stall");
    assert_int_equal(ppl_abi_sizeof("ppl_task"), 32);
    assert_int_equal(ppl_abi_sizeof("nothing"), 0);
}

static void test_arena(void **state) {
    (void)state;
    ppl_arena a = {0};
    size_t sum = 0;
    for (size_t n = 0; n < 2000; n += 37) {
        char *p = ppl_arena_get(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        sum += ppl_align(n ? n : 1, 64);
    }
    assert_int_equal(a.total, sum);
    char *big = ppl_arena_get(&a, 1 << 20);
    assert_non_null(big);
    big[(1 << 20) - 1] = 1;
    assert_string_equal(ppl_arena_text(&a, "name"), "name");
    assert_null(ppl_arena_get(&a, SIZE_MAX - 3));
    ppl_arena_clear(&a);
    assert_null(ppl_alloc(SIZE_MAX / 2));
}

// Known-answer vectors published with Random123 (philox4x32-10).
static void test_philox(void **state) {
    (void)state;
    uint32_t out[4];
    ppl_philox(0, 0, 0, out);
    const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(out, zero, sizeof out);
    ppl_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(out, ones, sizeof out);
    assert_true(ppl_name_key("a") != ppl_name_key("b"));
    assert_true(ppl_mix_key(1, 2) != ppl_mix_key(2, 1));
}

static void test_bf16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) { // every bf16 survives, and every midpoint rounds to even
        float f = ppl_bf16_to_f32((ppl_bf16)h);
        if (isnan(f)) {
            assert_true(isnan(ppl_bf16_to_f32(ppl_bf16_from_f32(f))));
            continue;
        }
        assert_int_equal(ppl_bf16_from_f32(f), h);
        if (!isfinite(f) || (h & 0x7fff) == 0x7f7f) continue;
        double mid = ((double)f + (double)ppl_bf16_to_f32((ppl_bf16)(h + 1))) / 2;
        ppl_bf16 even = (ppl_bf16)(h & 1 ? h + 1 : h), r[3];
        ppl_number_set(r, PPL_BF16, 0, mid);
        ppl_number_set(r, PPL_BF16, 1, mid * (1 + 1e-14)); // an f32 cannot tell these from the midpoint
        ppl_number_set(r, PPL_BF16, 2, mid * (1 - 1e-14));
        if ((h & 0x7fff) >= 0x80) { // f64 to f32 is exact for normal midpoints
            assert_int_equal(r[0], even);
            assert_int_equal(r[1], h + 1);
            assert_int_equal(r[2], h);
        }
    }
}

static void test_types(void **state) {
    (void)state;
    char text[128];
    ppl_type t = ppl_type_make(PPL_BF16, 3, (int64_t[]){2, 3, 5});
    assert_string_equal(ppl_type_print(&t, text), "bf16 (2, 3, 5)");
    assert_int_equal(ppl_type_bytes(&t), 60);
    ppl_type scalar = ppl_type_make(PPL_F32, 0, NULL);
    assert_int_equal(ppl_type_elements(&scalar), 1);
    int32_t ints[3];
    const double d[3] = {1e30, -1e30, -7.0};
    ppl_convert(ints, PPL_I32, d, PPL_F64, 3);
    assert_int_equal(ints[0], INT32_MAX);
    assert_int_equal(ints[1], INT32_MIN);
    assert_int_equal(ints[2], -7);
}

static void test_json_and_files(void **state) {
    (void)state;
    ppl_text t = {0};
    ppl_text_json(&t, "a\"b\\\n\x01");
    ppl_text_number(&t, 0.1);
    ppl_text_number(&t, NAN);
    assert_string_equal(t.data, "\"a\\\"b\\\\\\n\\u0001\"0.1null");
    char dir[] = "/tmp/ppl-test-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(ppl_make_directory(path), PPL_OK);
    assert_int_equal(ppl_make_directory(path), PPL_OK);
    snprintf(path, sizeof path, "%s/a/b/file", dir);
    assert_int_equal(ppl_text_write(&t, path), PPL_OK);
    assert_int_equal(ppl_make_directory(path), PPL_ERR_IO); // it is a file
    assert_int_equal(ppl_write_file("/nowhere/at/all", "x", 1), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "/nowhere/at/all: cannot be written"));
    unlink(path);
    snprintf(path, sizeof path, "%s/a/b", dir), rmdir(path);
    snprintf(path, sizeof path, "%s/a", dir), rmdir(path);
    assert_int_equal(rmdir(dir), 0); // nothing temporary was left
}

// What a name leads to is written: a link stays a link, a device a device.
static void test_links_and_devices(void **state) {
    (void)state;
    char dir[] = "/tmp/ppl-test-XXXXXX", file[64], link[64];
    struct stat s;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(ppl_write_file(file, "old", 3), PPL_OK);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(ppl_write_file(link, "newer", 5), PPL_OK);
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(file, &s), 0);
    assert_int_equal(s.st_size, 5);
    unlink(file); // a link to nothing: what it names is made
    assert_int_equal(ppl_write_file(link, "again", 5), PPL_OK);
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(file, &s), 0);
    unlink(link);
    assert_int_equal(symlink("link", link), 0); // to itself
    assert_int_equal(ppl_write_file(link, "never", 5), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "cannot be written: Too many levels of symbolic links"));
    unlink(link);
    assert_int_equal(mkfifo(link, 0600), 0);
    int reader = open(link, O_RDONLY | O_NONBLOCK);
    assert_int_equal(ppl_write_file(link, "through", 7), PPL_OK);
    char text[8] = {0};
    assert_int_equal(read(reader, text, 7), 7);
    assert_string_equal(text, "through");
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISFIFO(s.st_mode));
    close(reader);
    unlink(link);
    unlink(file);
    assert_int_equal(rmdir(dir), 0);
}

enum { ROUNDS = 20000 };
static struct {
    ppl_bell bell[2];
    atomic_int turn;
} game;

static void *play(void *arg) { // two threads take turns; a lost ring would show as a wait of the whole timeout
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        for (;;) {
            unsigned seen = atomic_load(&game.bell[me].rung);
            if (atomic_load_explicit(&game.turn, memory_order_acquire) == 2 * i + me) break;
            ppl_bell_sleep(&game.bell[me], seen, 2000000000);
        }
        atomic_store_explicit(&game.turn, 2 * i + me + 1, memory_order_release);
        ppl_bell_ring(&game.bell[1 - me]);
    }
    return NULL;
}

static void test_bell(void **state) {
    (void)state;
    pthread_t t[2];
    for (intptr_t i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, play, (void *)i), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_int_equal(game.turn, 2 * ROUNDS);
    int64_t before = ppl_now();
    ppl_wait_until(before + 3000000, NULL);
    assert_true(ppl_now() >= before + 3000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_json_and_files),
        cmocka_unit_test(test_links_and_devices),
        cmocka_unit_test(test_bell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
