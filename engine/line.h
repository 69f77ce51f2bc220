// line.h - a line from a terminal: edited, with history and completion, by libedit. Before: main.c, which asks for one at
// the prompt and answers what a Tab completes. Nothing here knows Lua.
#ifndef PPL_LINE_H
#define PPL_LINE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ppl_line ppl_line;

typedef struct ppl_line_answer {
    char insert[256]; // goes in at the cursor
    char list[16384]; // lines to show below the line; "" none
} ppl_line_answer;

// What a Tab stands for, with `bytes` of text before the cursor; fills the answer, which comes empty.
typedef void (*ppl_line_complete)(void *self, const char *before, size_t bytes, ppl_line_answer *answer);

typedef enum ppl_line_end {
    PPL_LINE_TEXT = 0,
    PPL_LINE_EOF,      // Ctrl-D on an empty line, the terminal is gone, or *stop
    PPL_LINE_CANCELLED // Ctrl-C
} ppl_line_end;

// An editor on stdin and stdout, which must be terminals. history: a file that is read now and grows by each line that is
// remembered; NULL, or one that cannot be had: none is kept. *stop ends the input, *interrupted, which is then taken back,
// gives the line up; both may be set by signal handlers. NULL where there is no memory or no terminal that libedit knows.
ppl_line *ppl_line_open(const char *history, ppl_line_complete complete, void *self, const atomic_bool *stop,
                        atomic_bool *interrupted);
void ppl_line_close(ppl_line *l);
// Reads a line; *text, without its end, is valid until the next call.
ppl_line_end ppl_line_read(ppl_line *l, const char *prompt, const char **text);
void ppl_line_remember(ppl_line *l, const char *text); // blank lines and repetitions are left out

#endif
