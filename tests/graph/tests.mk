tests += tests/graph/test_differentiate.c
