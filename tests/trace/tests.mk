tests += tests/trace/test_trace.c tests/trace/test_chrome.c
