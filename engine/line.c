// line.c - editing, history and completion of a line at the prompt, by libedit. Before: main.c. The history is a text file,
// a line an entry, that several programs may append to; it never fails the program.
#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { KEEP = 1000, LONGEST = 64 * 1024 };     // entries of history; bytes of one
enum { LOOK_MILLISECONDS = 1000, CANCEL = 3 }; // between two looks at the flags, when a signal has gone by; Ctrl-C

struct ppl_line {
    EditLine *edit;
    History *history;
    char *path; // of the history; NULL none
    const char *prompt;
    char *text; // of the last line
    ppl_line_complete complete;
    void *self;
    const atomic_bool *stop;
    atomic_bool *interrupted;
    bool cancelled;
    mbstate_t partial; // of a character whose bytes are coming in
    ppl_line_answer answer;
};

static ppl_line *of(EditLine *edit) {
    void *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return l;
}

static char *prompt_text(EditLine *edit) {
    return (char *)of(edit)->prompt; // libedit asks for a char *, and only reads
}

// The next character. A signal does not end the wait unless somebody wants it to end: an interrupt, which may come before
// the terminal hands Ctrl-C over as a key, is such a key.
static int next_character(EditLine *edit, wchar_t *out) {
    ppl_line *l = of(edit);
    for (;;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (atomic_load(l->stop)) return 0;
        if (atomic_exchange(l->interrupted, false)) {
            *out = CANCEL;
            return 1;
        }
        int ready = poll(&in, 1, LOOK_MILLISECONDS);
        if (ready < 0 && errno != EINTR) return -1;
        if (ready <= 0) continue;
        char c;
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return (int)n;
        if (c == 0) c = 'D' & 31; // what Linux makes of a Ctrl-D that came before libedit made the terminal raw
        size_t done = mbrtowc(out, &c, 1, &l->partial);
        if (done == (size_t)-2) continue;
        if (done == (size_t)-1) { // no character of this locale: taken as a byte
            memset(&l->partial, 0, sizeof l->partial);
            *out = (unsigned char)c;
        }
        return 1;
    }
}

static unsigned char on_tab(EditLine *edit, int key) {
    (void)key;
    ppl_line *l = of(edit);
    const LineInfo *line = el_line(edit);
    l->answer.insert[0] = l->answer.list[0] = 0;
    l->complete(l->self, line->buffer, (size_t)(line->cursor - line->buffer), &l->answer);
    if (l->answer.insert[0] && el_insertstr(edit, l->answer.insert) != 0) return CC_ERROR;
    if (l->answer.list[0]) {
        fputc('\n', stdout);
        fputs(l->answer.list, stdout);
        fputc('\n', stdout);
        return CC_REDISPLAY;
    }
    return l->answer.insert[0] ? CC_REFRESH : CC_REFRESH_BEEP;
}

static unsigned char on_cancel(EditLine *edit, int key) {
    (void)key;
    of(edit)->cancelled = true;
    return CC_NEWLINE;
}

// ---- history

static bool is_blank(const char *text) {
    return text[strspn(text, " \t\r\n")] == 0;
}

static void history_add(ppl_line *l, const char *text) {
    HistEvent event;
    if (!is_blank(text)) history(l->history, &event, H_ENTER, text);
}

// Writes the newest entries anew when the file has grown to twice of what is kept.
static void history_shorten(ppl_line *l) {
    HistEvent event;
    size_t room = strlen(l->path) + 8;
    char *path = malloc(room);
    if (!path) return;
    snprintf(path, room, "%s.new", l->path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (out) {
        for (int more = history(l->history, &event, H_LAST); more >= 0; more = history(l->history, &event, H_PREV))
            fprintf(out, "%s\n", event.str);
        bool good = fflush(out) == 0 && !ferror(out);
        fclose(out);
        if (!good || rename(path, l->path) != 0) unlink(path);
    }
    free(path);
}

// A file that cannot be read, or is none, gives no history.
static void history_load(ppl_line *l) {
    struct stat s;
    if (stat(l->path, &s) != 0 || !S_ISREG(s.st_mode)) return;
    FILE *in = fopen(l->path, "r");
    if (!in) return;
    char *text = NULL;
    size_t room = 0;
    int entries = 0;
    for (ssize_t n; (n = getline(&text, &room, in)) >= 0; entries++) {
        if (n && text[n - 1] == '\n') text[n - 1] = 0;
        if (n < LONGEST) history_add(l, text);
    }
    free(text);
    fclose(in);
    if (entries > 2 * KEEP) history_shorten(l);
}

void ppl_line_remember(ppl_line *l, const char *text) {
    HistEvent event;
    if (is_blank(text)) return;
    if (history(l->history, &event, H_FIRST) >= 0 && strcmp(event.str, text) == 0) return;
    history_add(l, text);
    int file = l->path ? open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600) : -1;
    if (file < 0) return;
    size_t bytes = strlen(text);
    char *line = bytes < LONGEST ? malloc(bytes + 1) : NULL;
    if (line) { // in one write, so that entries of several prompts do not mix
        memcpy(line, text, bytes);
        line[bytes] = '\n';
        if (write(file, line, bytes + 1) < 0) { // a full disk costs the entry alone
        }
    }
    free(line);
    close(file);
}

// ---- open, read, close

static bool set_up(ppl_line *l) {
    HistEvent event;
    l->history = history_init();
    l->edit = el_init("ppl", stdin, stdout, stderr);
    if (!l->history || !l->edit) return false;
    history(l->history, &event, H_SETSIZE, KEEP);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt_text);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0);
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_GETCFN, next_character);
    el_set(l->edit, EL_ADDFN, "ppl-complete", "completes the word before the cursor", on_tab);
    el_set(l->edit, EL_ADDFN, "ppl-cancel", "gives the line up", on_cancel);
    el_set(l->edit, EL_BIND, "^I", "ppl-complete", NULL);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->edit, NULL);                       // ~/.editrc
    el_set(l->edit, EL_SETTY, "-d", "-isig", NULL); // while a line is edited Ctrl-C is a key
    el_set(l->edit, EL_BIND, "^C", "ppl-cancel", NULL);
    return true;
}

ppl_line *ppl_line_open(const char *path, ppl_line_complete complete, void *self, const atomic_bool *stop,
                        atomic_bool *interrupted) {
    ppl_line *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    setlocale(LC_CTYPE, ""); // characters of several bytes; numbers stay as they are
    l->complete = complete;
    l->self = self;
    l->stop = stop;
    l->interrupted = interrupted;
    l->prompt = "";
    if (!set_up(l)) {
        ppl_line_close(l);
        return NULL;
    }
    if (path && *path && (l->path = strdup(path))) history_load(l);
    return l;
}

void ppl_line_close(ppl_line *l) {
    if (!l) return;
    if (l->edit) el_end(l->edit);
    if (l->history) history_end(l->history);
    free(l->text);
    free(l->path);
    free(l);
}

ppl_line_end ppl_line_read(ppl_line *l, const char *prompt, const char **text) {
    int count = 0;
    l->prompt = prompt;
    l->cancelled = false;
    memset(&l->partial, 0, sizeof l->partial);
    const char *line = el_gets(l->edit, &count);
    if (l->cancelled) {
        fputs("^C\n", stdout);
        return PPL_LINE_CANCELLED;
    }
    if (!line || count <= 0) return PPL_LINE_EOF;
    free(l->text);
    l->text = strdup(line);
    if (!l->text) return PPL_LINE_EOF;
    l->text[strcspn(l->text, "\r\n")] = 0;
    *text = l->text;
    return PPL_LINE_TEXT;
}
