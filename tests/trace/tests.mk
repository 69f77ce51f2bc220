tests += tests/trace/test_trace.c
