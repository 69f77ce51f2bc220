tests += tests/plan/test_build.c tests/plan/test_layout.c
