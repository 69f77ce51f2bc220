tests += tests/sim/test_simulate.c tests/sim/test_links.c tests/sim/test_flow.c
