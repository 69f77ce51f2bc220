tests += tests/graph/test_graph.c tests/graph/test_differentiate.c tests/graph/test_recompute.c
tests += tests/graph/test_stages.c tests/graph/test_random.c tests/graph/test_memory.c
ldflags_test_memory := -Wl,--wrap=aligned_alloc,--wrap=realloc
