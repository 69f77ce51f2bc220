tests += tests/plan/test_build.c tests/plan/test_flow.c tests/plan/test_prove.c tests/plan/test_layout.c tests/plan/test_random.c \
         tests/plan/test_faults.c
ldflags_test_faults := -Wl,--wrap=aligned_alloc -Wl,--wrap=realloc
benches += tests/plan/bench_plan.c
