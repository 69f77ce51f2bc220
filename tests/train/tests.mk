tests += tests/train/test_init.c tests/train/test_optimizer.c
tests += tests/train/test_store.c tests/train/test_data.c tests/train/test_checkpoint.c
tests += tests/train/test_run.c tests/train/test_run_bits.c tests/train/test_run_faults.c tests/train/test_trial.c
tests += tests/train/test_async.c
# test_run counts what ppl's own objects allocate in a step.
ldflags_test_run := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
tests += tests/train/test_processes.c
