tests += tests/device/test_finite_difference.c
