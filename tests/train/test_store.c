// test_store.c - copies of parameters on several ranks: equal bits, the right numbers, the right memory.
#include "support/params.h"
#include "train/store.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { WTE = 0, BIAS, LN, FROZEN, RANKS = 3 };
static const bool uses[RANKS][TEST_PARAMS] = {{1, 1, 0, 0}, {0, 1, 1, 1}, {1, 0, 0, 0}};
static const ppl_optimizer_options adamw = {.kind = PPL_ADAMW, .lr = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

static ppl_store *build(const ppl_graph *g, int32_t ranks, const bool *marks, const ppl_optimizer_options *o) {
    ppl_store *s = NULL;
    if (ppl_store_build(g, ranks, marks, 7, o, &s) != PPL_OK) fail_msg("%s", ppl_error());
    return s;
}

static void test_copies(void **state) {
    (void)state;
    static const int32_t dtypes[] = {PPL_F32, PPL_BF16, PPL_F64};
    for (int32_t d = 0; d < 3; d++) {
        ppl_graph *g = test_params(dtypes[d]);
        ppl_store *s = build(g, RANKS, &uses[0][0], &adamw);
        for (int32_t r = 0; r < RANKS; r++)
            for (int32_t i = 0; i < TEST_PARAMS; i++) {
                const ppl_store_entry *e = ppl_store_at(s, r, i), *first = ppl_store_first(s, i);
                assert_int_equal(e->master != NULL, uses[r][i]);
                assert_int_equal(e->copy != NULL, uses[r][i] && dtypes[d] == PPL_BF16);
                assert_int_equal(e->moment1 != NULL, uses[r][i] && i != FROZEN);
                assert_int_equal(e->moment2 != NULL, uses[r][i] && i != FROZEN);
                assert_null(e->spare[0]);
                if (!e->master) continue;
                assert_memory_equal(e->master, first->master, ppl_type_bytes(&g->params[i].type));
                for (int64_t k = 0; e->copy && k < ppl_type_elements(&g->params[i].type); k++)
                    assert_int_equal(((ppl_bf16 *)e->copy)[k], ppl_bf16_from_f32(((float *)e->master)[k]));
            }
        double ones = 0;
        assert_int_equal(ppl_store_read(s, LN, PPL_PART_WEIGHT, &ones), PPL_OK);
        assert_true(ones == 1);
        ppl_store_free(s);
        test_params_free(g);
    }
}

// The weights do not know of ranks.
static void test_seed(void **state) {
    (void)state;
    static const bool one[TEST_PARAMS] = {1, 1, 1, 1};
    ppl_graph *g = test_params(PPL_F32);
    ppl_store *a = build(g, RANKS, &uses[0][0], &adamw), *b = build(g, 1, one, &adamw), *c = NULL;
    assert_int_equal(ppl_store_build(g, 1, one, 8, &adamw, &c), PPL_OK);
    for (int32_t i = 0; i < TEST_PARAMS; i++) {
        size_t bytes = ppl_type_bytes(&g->params[i].type);
        assert_memory_equal(ppl_store_first(a, i)->master, ppl_store_first(b, i)->master, bytes);
        if (i == WTE || i == FROZEN)
            assert_true(memcmp(ppl_store_first(b, i)->master, ppl_store_first(c, i)->master, bytes) != 0);
    }
    ppl_store_free(a);
    ppl_store_free(b);
    ppl_store_free(c);
    test_params_free(g);
}

static void test_read_write(void **state) {
    (void)state;
    ppl_graph *g = test_params(PPL_BF16);
    ppl_store *s = build(g, RANKS, &uses[0][0], &adamw);
    double x[21], y[21];
    for (int32_t part = PPL_PART_WEIGHT; part <= PPL_PART_MOMENT2; part++) {
        for (int32_t i = 0; i < 21; i++) x[i] = (i + 1) * 1.0009765625 * (part + 1); // needs 11 bits
        if (part == PPL_PART_GRADIENT) {
            assert_int_equal(ppl_store_write(s, WTE, part, x), PPL_ERR_ARG);
            continue;
        }
        assert_int_equal(ppl_store_write(s, WTE, part, x), PPL_OK);
        assert_int_equal(ppl_store_read(s, WTE, part, y), PPL_OK);
        assert_memory_equal(x, y, sizeof x);
    }
    for (int32_t r = 0; r < RANKS; r += 2) { // both copies, and what operators read
        const ppl_store_entry *e = ppl_store_at(s, r, WTE);
        assert_true(((float *)e->master)[2] == 3 * 1.0009765625f);
        assert_int_equal(((ppl_bf16 *)e->copy)[2], ppl_bf16_from_f32(3 * 1.0009765625f));
    }
    ppl_store_zero_moments(s);
    assert_int_equal(ppl_store_read(s, WTE, PPL_PART_MOMENT2, y), PPL_OK);
    for (int32_t i = 0; i < 21; i++) assert_true(y[i] == 0);
    assert_int_equal(ppl_store_read(s, WTE, PPL_PART_WEIGHT, y), PPL_OK);
    assert_true(y[0] != 0);
    assert_int_equal(ppl_store_read(s, FROZEN, PPL_PART_MOMENT1, y), PPL_ERR_ARG);
    assert_string_equal(ppl_error(), "parameter 'frozen': it has no first moment, it is frozen");
    assert_int_equal(ppl_store_read(s, 4, PPL_PART_WEIGHT, y), PPL_ERR_ARG);
    assert_int_equal(ppl_store_read(s, -1, PPL_PART_WEIGHT, y), PPL_ERR_ARG);
    assert_int_equal(ppl_store_read(s, WTE, 9, y), PPL_ERR_ARG);
    ppl_store_free(s);
    test_params_free(g);
}

// Other ranks take the numbers over, bit by bit, also when updates have exchanged spares.
static void test_take(void **state) {
    (void)state;
    static const bool other[2][TEST_PARAMS] = {{0, 1, 1, 0}, {1, 1, 0, 1}};
    ppl_optimizer_options after = adamw;
    after.clip = PPL_CLIP_AFTER;
    ppl_graph *g = test_params(PPL_BF16);
    ppl_store *a = build(g, RANKS, &uses[0][0], &after), *b = build(g, 2, &other[0][0], &after);
    double x[21];
    for (int32_t i = 0; i < 21; i++) x[i] = sin(i + 1.0);
    for (int32_t r = 0; r < RANKS; r++) {
        ppl_store_entry *e = ppl_store_at(a, r, WTE);
        if (!e->master) continue;
        assert_non_null(e->spare[0]);
        assert_non_null(e->spare[2]);
        void *old = e->master;
        e->master = e->spare[0];
        e->spare[0] = old;
    }
    assert_int_equal(ppl_store_write(a, WTE, PPL_PART_WEIGHT, x), PPL_OK);
    assert_int_equal(ppl_store_write(a, BIAS, PPL_PART_MOMENT1, x), PPL_OK);
    assert_int_equal(ppl_store_write(a, LN, PPL_PART_MOMENT2, x), PPL_OK);
    assert_int_equal(ppl_store_take(b, a), PPL_OK);
    for (int32_t r = 0; r < 2; r++)
        for (int32_t i = 0; i < TEST_PARAMS; i++) {
            const ppl_store_entry *to = ppl_store_at(b, r, i), *from = ppl_store_first(a, i);
            size_t n = (size_t)ppl_type_elements(&g->params[i].type);
            if (!to->master) continue;
            assert_memory_equal(to->master, from->master, n * 4);
            assert_memory_equal(to->copy, from->copy, n * 2);
            if (i == FROZEN) continue;
            assert_memory_equal(to->moment1, from->moment1, n * 4);
            assert_memory_equal(to->moment2, from->moment2, n * 4);
        }
    ppl_optimizer_options sgd = {.kind = PPL_SGD, .lr = 1};
    ppl_store *c = build(g, 2, &other[0][0], &sgd);
    assert_null(ppl_store_first(c, WTE)->moment1);
    assert_int_equal(ppl_store_take(c, a), PPL_ERR_ARG);
    ppl_store_free(a);
    ppl_store_free(b);
    ppl_store_free(c);
    test_params_free(g);
}

static void test_bytes(void **state) {
    (void)state;
    ppl_graph *g = test_params(PPL_BF16);
    ppl_optimizer_options o = adamw;
    ppl_store *s = build(g, RANKS, &uses[0][0], &o);
    assert_int_equal(ppl_store_bytes(s, 0, PPL_MEM_PARAMETERS), 26 * 6);
    assert_int_equal(ppl_store_bytes(s, 0, PPL_MEM_OPTIMIZER), 26 * 8);
    assert_int_equal(ppl_store_bytes(s, 1, PPL_MEM_PARAMETERS), 10 * 6);
    assert_int_equal(ppl_store_bytes(s, 1, PPL_MEM_OPTIMIZER), 6 * 8); // the frozen one has none
    ppl_store_free(s);
    o.clip = PPL_CLIP_AFTER;
    s = build(g, RANKS, &uses[0][0], &o);
    assert_int_equal(ppl_store_bytes(s, 0, PPL_MEM_OPTIMIZER), 26 * 20);
    ppl_store_free(s);
    o = (ppl_optimizer_options){.kind = PPL_SGD, .lr = 1, .momentum = 0.5};
    s = build(g, RANKS, &uses[0][0], &o);
    assert_int_equal(ppl_store_bytes(s, 0, PPL_MEM_OPTIMIZER), 26 * 4);
    ppl_store_free(s);
    test_params_free(g);
}

static void test_unused(void **state) {
    (void)state;
    static const bool marks[TEST_PARAMS] = {1, 0, 1, 1};
    ppl_graph *g = test_params(PPL_F32);
    ppl_store *s = NULL;
    assert_int_equal(ppl_store_build(g, 1, marks, 7, &adamw, &s), PPL_ERR_ARG);
    assert_non_null(strstr(ppl_error(), "'block.b'"));
    assert_null(s);
    ppl_store_free(NULL);
    test_params_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies), cmocka_unit_test(test_seed),  cmocka_unit_test(test_read_write),
        cmocka_unit_test(test_take),   cmocka_unit_test(test_bytes), cmocka_unit_test(test_unused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
