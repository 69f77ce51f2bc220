tests += tests/ops/test_shapes.c tests/ops/test_costs.c
