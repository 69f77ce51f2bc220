tests += tests/link/test_link.c
