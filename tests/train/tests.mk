tests += tests/train/test_init.c tests/train/test_optimizer.c
