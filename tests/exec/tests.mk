tests += tests/exec/test_exec.c tests/exec/test_values.c tests/exec/test_allocations.c
ldflags_test_allocations := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
benches += tests/exec/bench_exec.c
