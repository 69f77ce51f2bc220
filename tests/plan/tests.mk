tests += tests/plan/test_build.c
