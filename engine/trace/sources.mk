src += engine/trace/trace.c engine/trace/stats.c engine/trace/chrome.c
