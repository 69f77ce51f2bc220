tests += tests/graph/test_graph.c tests/graph/test_differentiate.c tests/graph/test_stages.c
