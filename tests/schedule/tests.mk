tests += tests/schedule/test_check.c tests/schedule/test_csv.c
