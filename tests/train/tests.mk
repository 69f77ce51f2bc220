tests += tests/train/test_init.c tests/train/test_optimizer.c
tests += tests/train/test_store.c tests/train/test_data.c tests/train/test_checkpoint.c
