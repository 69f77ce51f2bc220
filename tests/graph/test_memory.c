// test_memory.c - every allocation of tracing, differentiating, listing and cutting fails once: the call says so, nothing
// leaks (the address sanitizer looks), and a graph that was refused memory can go on.
#include "graph/random.h"

static int64_t allocations, fail_at; // counted from 1; 0: none fails

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return ++allocations == fail_at ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__wrap_realloc(void *p, size_t bytes) {
    return ++allocations == fail_at ? NULL : __real_realloc(p, bytes);
}

// Tries a call that may be refused memory once; the second try must succeed.
#define TWICE(call)                                                                                                    \
    do {                                                                                                               \
        ppl_status st_ = (call);                                                                                       \
        if (st_ == PPL_ERR_MEMORY) refused++, st_ = (call);                                                            \
        if (st_ != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                     \
    } while (0)

static ppl_value node(ppl_graph *g, int32_t op, const char *name, ppl_value a, ppl_value b, int32_t *count) {
    ppl_value in[] = {a, b}, out[PPL_MAX_OUTPUTS];
    int32_t refused = 0;
    TWICE(ppl_graph_apply(g, op, name, in, b == -1 ? 1 : 2, NULL, out));
    *count += refused;
    return out[0];
}

// A model of 40 layers, so that every table grows; gives how often memory was refused.
static int32_t whole_path(void) {
    int32_t refused = 0, first[40];
    ppl_graph *g;
    ppl_stages *s;
    ppl_value x, w, target;
    ppl_type type = ppl_type_make(PPL_F32, 2, (int64_t[]){2, 4});
    ppl_param_spec spec = {0};
    TWICE(ppl_graph_open(PPL_F32, &g));
    TWICE(ppl_graph_input(g, "x", &type, &x));
    for (int32_t i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "l%d", i);
        TWICE(ppl_graph_layer(g, name, 1));
        TWICE(ppl_graph_param(g, i % 3 ? name : "tied", 2, (int64_t[]){4, 4}, &spec, &w));
        ppl_value y = node(g, PPL_OP_LINEAR, name, x, w, &refused);
        snprintf(name, sizeof name, "s%d", i);
        x = node(g, PPL_OP_ADD, name, x, y, &refused);
    }
    TWICE(ppl_graph_input(g, "target", &type, &target));
    TWICE(ppl_graph_loss(g, node(g, PPL_OP_MSE, "mse", x, target, &refused)));
    TWICE(ppl_graph_differentiate(g));
    assert_int_equal(g->params[0].n_uses, 14);
    size_t needed;
    TWICE(ppl_graph_print(g, NULL, 0, &needed));
    TWICE(ppl_graph_cut_even(g, 8, first));
    TWICE(ppl_stages_build(g, 8, first, &s));
    assert_int_equal(s->n_edges, 7 * 2 + 14);
    ppl_stages_free(s);
    TWICE(ppl_stages_chain(8, &s));
    ppl_stages_free(s);
    ppl_graph_close(g);
    return refused;
}

static void test_each_allocation(void **state) {
    (void)state;
    allocations = fail_at = 0;
    assert_int_equal(whole_path(), 0);
    const int64_t total = allocations;
    assert_true(total > 30);
    for (int64_t n = 1; n <= total; n++) {
        allocations = 0;
        fail_at = n;
        assert_int_equal(whole_path(), 1);
    }
    fail_at = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
