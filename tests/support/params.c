// params.c - see params.h.
#include "support/params.h"
#include <stdlib.h>

static const ppl_param templates[TEST_PARAMS] = {
    {.name = "wte", .type = {.ndim = 2, .dim = {7, 3, 1, 1, 1, 1}}, .spec = {.init = PPL_INIT_NORMAL, .a = 0.5}},
    {.name = "block.b", .type = {.ndim = 1, .dim = {5, 1, 1, 1, 1, 1}}, .spec = {.init = PPL_INIT_ZEROS}},
    {.name = "ln.w", .type = {.ndim = 0, .dim = {1, 1, 1, 1, 1, 1}}, .spec = {.init = PPL_INIT_ONES}},
    {.name = "frozen",
     .type = {.ndim = 2, .dim = {2, 2, 1, 1, 1, 1}},
     .spec = {.init = PPL_INIT_UNIFORM, .a = 1, .frozen = 1}},
};

ppl_graph *test_params(int32_t dtype) {
    ppl_graph *g = calloc(1, sizeof *g);
    g->dtype = dtype;
    g->params = calloc(TEST_PARAMS, sizeof *g->params);
    g->n_params = TEST_PARAMS;
    for (int32_t i = 0; i < TEST_PARAMS; i++) {
        g->params[i] = templates[i];
        g->params[i].type.dtype = ppl_dtype_acc(dtype);
    }
    return g;
}

void test_params_free(ppl_graph *g) {
    free(g->params);
    free(g);
}
