tests += tests/graph/test_graph.c tests/graph/test_differentiate.c tests/graph/test_stages.c
tests += tests/graph/test_recompute.c
tests += tests/graph/test_random.c
