tests += tests/exec/test_exec.c
