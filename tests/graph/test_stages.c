// test_stages.c - what a cut makes of a graph: programs, lifetimes and edges.
#include "graph/tiny.h"

// One line an edge: "F %3 0 -> 1(W) 2(F) own W 96 bytes".
static void print_edges(const ppl_stages *s, char *text, size_t size) {
    size_t at = 0;
    text[0] = 0;
    for (int32_t i = 0; i < s->n_edges; i++) {
        const ppl_edge *e = &s->edges[i];
        at += (size_t)snprintf(text + at, size - at, "%c %%%d %d ->", "FBIWU"[e->kind], e -> value, e -> src);
        for (int32_t k = 0; k < e->n_readers; k++)
            at += (size_t)snprintf(text + at, size - at, " %d(%c)", e->readers[k].stage, "FIW"[e->readers[k].last]);
        at += (size_t)snprintf(text + at, size - at, " own %c, %zu\n", e->src_last == -1 ? '-' : "FIW"[e->src_last],
                               e -> bytes);
    }
}

static void assert_edges(const ppl_stages *s, const char *want) {
    char text[4096];
    print_edges(s, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_chain(void **state) {
    (void)state;
    ppl_stages *s;
    OK(ppl_stages_chain(3, &s));
    assert_edges(s, "F %-1 0 -> 1(W) own -, 1\n"
                    "F %-1 1 -> 2(W) own -, 1\n"
                    "B %-1 1 -> 0(W) own -, 1\n"
                    "B %-1 2 -> 1(W) own -, 1\n");
    assert_null(s->graph);
    assert_int_equal(s->stage[0].n_values, 3);
    assert_int_equal(s->stage[1].n_values, 5);
    assert_int_equal(s->stage[2].n_values, 3);
    const ppl_stage_value *v = s->stage[1].values;
    const int32_t edges[] = {-1, 0, 1, 3, 2};
    for (int32_t i = 0; i < 5; i++) assert_int_equal(v[i].edge, edges[i]);
    assert_int_equal(ppl_stages_of_layer(s, 2), 2);
    ppl_stages_free(s);
    OK(ppl_stages_chain(1, &s));
    assert_int_equal(s->n_edges, 0);
    assert_int_equal(s->stage[0].n_values, 1);
    ppl_stages_free(s);
    FAILS(PPL_ERR_ARG, "stages: there are 0, want at least 1", ppl_stages_chain(0, &s));
    ppl_stages_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
