tests += tests/sim/test_simulate.c
