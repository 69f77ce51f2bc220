tests += tests/prompt/test_prompt.c
