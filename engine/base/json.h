// json.h - writing JSON into a growing text; reading is jansson's.
#ifndef PPL_BASE_JSON_H
#define PPL_BASE_JSON_H
#include "ppl.h"

typedef struct ppl_text {
    char *data; // always ends in a zero once written to
    size_t length, room;
    bool failed; // out of memory: checked once at the end
} ppl_text;

void ppl_text_add(ppl_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ppl_text_json(ppl_text *t, const char *s);           // a quoted, escaped string
void ppl_text_number(ppl_text *t, double x);              // shortest that reads back; null when not finite
ppl_status ppl_text_write(ppl_text *t, const char *path); // ppl_write_file, then clears
void ppl_text_clear(ppl_text *t);

#endif
