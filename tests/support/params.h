// params.h - a graph that has parameters and nothing else, for tests of what keeps parameters.
#ifndef PPL_TESTS_SUPPORT_PARAMS_H
#define PPL_TESTS_SUPPORT_PARAMS_H
#include "graph/graph.h"

enum { TEST_PARAMS = 4 };
// "wte" (7, 3) normal, "block.b" (5) zeros, "ln.w" () ones, "frozen" (2, 2) uniform; masters F32, F64 in an F64 graph.
ppl_graph *test_params(int32_t dtype);
void test_params_free(ppl_graph *g);

#endif
