tests += tests/base/test_base.c
