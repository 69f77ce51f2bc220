// json.c - JSON text; the number form is the shortest of %.15g, %.16g and %.17g that reads back equal.
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(ppl_text *t, size_t more) {
    if (t->failed) return NULL;
    if (ppl_grow((void **)&t->data, &t->room, t->length + more + 1, 1) != PPL_OK) {
        t->failed = true;
        return NULL;
    }
    return t->data + t->length;
}

void ppl_text_add(ppl_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *to = n < 0 ? NULL : reserve(t, (size_t)n);
    if (to) {
        vsnprintf(to, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void ppl_text_json(ppl_text *t, const char *s) {
    ppl_text_add(t, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        if (*p == '"' || *p == '\\') ppl_text_add(t, "\\%c", *p);
        else if (*p == '\n') ppl_text_add(t, "\\n");
        else if (*p == '\t') ppl_text_add(t, "\\t");
        else if (*p < 0x20) ppl_text_add(t, "\\u%04x", *p);
        else ppl_text_add(t, "%c", *p);
    }
    ppl_text_add(t, "\"");
}

void ppl_text_number(ppl_text *t, double x) {
    if (!isfinite(x)) {
        ppl_text_add(t, "null");
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    ppl_text_add(t, "%s", text);
}

ppl_status ppl_text_write(ppl_text *t, const char *path) {
    ppl_status st = t->failed ? PPL_ERR_MEMORY : ppl_write_file(path, t->data ? t->data : "", t->length);
    ppl_text_clear(t);
    return st;
}

void ppl_text_clear(ppl_text *t) {
    free(t->data);
    *t = (ppl_text){0};
}
