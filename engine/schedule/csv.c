// csv.c - compute order from the CSV text that PyTorch's pipelining reads and writes. Strict: what PyTorch's own
// reader lets pass (junk behind an action, a doubled or missing action, microbatches from 1, sends that match no receive)
// is refused by name.
//
//     file = row { EOL row } [EOL]      row = cell { "," cell }, row i is rank i
//     cell = "" | simple | "(" simple { ";" simple } ")OVERLAP_F_B"      simple = stage kind [microbatch]
#include "schedule/csv.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ppl_status ppl_csv_fail(const ppl_csv *c, const ppl_csv_word *w, const char *format, ...) {
    char words[1024], text[48];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    ppl_word_print(&w->word, text);
    ppl_schedule_fail(NULL, PPL_ERR_SCHEDULE, w->row, -1, "%s", words);
    return ppl_fail(PPL_ERR_SCHEDULE, "%s:%d: cell %d, rank %d, %s: %s", c->path, w->row + 1, w->cell, w->row, text,
                    words);
}

static ppl_status read_file(const char *path, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    size_t room = 0;
    FILE *f = fopen(path, "rb");
    if (!f) return ppl_fail(PPL_ERR_IO, "%s: %s", path, strerror(errno));
    ppl_status st = PPL_OK;
    for (;;) {
        PPL_GOTO(ppl_grow((void **)data, &room, *size + 65536, 1));
        size_t n = fread(*data + *size, 1, room - *size, f);
        *size += n;
        if (n == 0) break;
    }
    if (ferror(f)) {
        st = ppl_fail(PPL_ERR_IO, "%s: %s", path, strerror(errno));
        goto fail;
    }
    fclose(f);
    return PPL_OK;
fail:
    fclose(f);
    free(*data);
    *data = NULL;
    return st;
}

// Refuses bytes that are no text by their number: printed, they would be invisible or an order to a terminal.
static ppl_status check_text(const ppl_csv *c, const char *data, size_t size) {
    int32_t row = 1;
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        return ppl_fail(PPL_ERR_IO, "%s:1: begins with a byte order mark, want plain text", c->path);
    for (size_t at = 0; at < size; at++) {
        unsigned char byte = (unsigned char)data[at];
        if (byte == '\n') row++;
        bool line_end = byte == '\n' || (byte == '\r' && at + 1 < size && data[at + 1] == '\n');
        if (byte == '\r' && !line_end)
            return ppl_fail(PPL_ERR_IO, "%s:%d: a CR stands without an LF, want lines that end with LF or CRLF",
                            c->path, row);
        if (!line_end && byte != '\t' && (byte < 0x20 || byte >= 0x7f))
            return ppl_fail(PPL_ERR_IO, "%s:%d: has byte 0x%02x, want plain text", c->path, row, byte);
    }
    return PPL_OK;
}

static ppl_status add_word(ppl_csv *c, int32_t cell, int32_t overlap, const char *text, size_t length) {
    ppl_csv_word w = {.row = c->rows, .cell = cell, .overlap = overlap};
    if (ppl_word_parse(text, length, &w.word) != PPL_OK)
        return ppl_prefix(PPL_ERR_IO, "%s:%d: cell %d, rank %d, ", c->path, c->rows + 1, cell, c->rows);
    if (c->count == c->room) PPL_TRY(ppl_grow((void **)&c->words, &c->room, c->count + 1, sizeof *c->words));
    c->words[c->count++] = w;
    return PPL_OK;
}

static ppl_status parse_compound(ppl_csv *c, int32_t cell, const char *text, size_t length) {
    static const char ending[] = ")OVERLAP_F_B";
    const char *close = memchr(text, ')', length);
    size_t inside = close ? (size_t)(close - text) : length;
    if (length - inside != strlen(ending) || memcmp(close, ending, strlen(ending)) != 0)
        return ppl_fail(PPL_ERR_IO, "%s:%d: cell %d, rank %d, \"%.*s\": want (2F5;3B1)OVERLAP_F_B", c->path,
                        c->rows + 1, cell, c->rows, length > 60 ? 60 : (int)length, text);
    c->groups++;
    for (size_t at = 1, end; at <= inside; at = end + 1) {
        for (end = at; end < inside && text[end] != ';';) end++;
        PPL_TRY(add_word(c, cell, c->groups, text + at, end - at));
    }
    return PPL_OK;
}

static ppl_status parse_row(ppl_csv *c, const char *text, size_t length) {
    int32_t cell = 0;
    for (size_t at = 0, end; at <= length; at = end + 1, cell++) {
        for (end = at; end < length && text[end] != ',';) end++;
        size_t from = at, to = end;
        while (from < to && text[from] == ' ') from++;
        while (to > from && text[to - 1] == ' ') to--;
        if (from == to) continue; // idle
        if (text[from] == '(') PPL_TRY(parse_compound(c, cell, text + from, to - from));
        else PPL_TRY(add_word(c, cell, 0, text + from, to - from));
    }
    return PPL_OK;
}

static ppl_status parse_file(ppl_csv *c, const char *data, size_t size) {
    for (size_t at = 0, end; at < size || c->rows == 0; at = end + 1) {
        const char *eol = at < size ? memchr(data + at, '\n', size - at) : NULL;
        end = eol ? (size_t)(eol - data) : size;
        size_t length = end - at;
        if (length && eol && data[end - 1] == '\r') length--;
        if (c->rows >= PPL_MAX_RANKS)
            return ppl_fail(PPL_ERR_IO, "%s: more than %d rows, want one a rank", c->path, PPL_MAX_RANKS);
        PPL_TRY(parse_row(c, data + at, length));
        c->rows++;
    }
    return PPL_OK;
}

// Old files write B for the input gradient and BW for the full backward: they become I and B.
static ppl_status settle_dialect(ppl_csv *c) {
    const ppl_csv_word *seen[PPL_WORD_KINDS] = {0};
    for (size_t i = 0; i < c->count; i++)
        if (!seen[c->words[i].word.kind]) seen[c->words[i].word.kind] = &c->words[i];
    if (seen[PPL_WORD_U]) return ppl_csv_fail(c, seen[PPL_WORD_U], "the CSV form has no updates, want F, I, B and W");
    if (seen[PPL_WORD_BW]) {
        if (seen[PPL_WORD_I])
            return ppl_csv_fail(c, seen[PPL_WORD_I],
                                "an I in a file whose BW (line %d, cell %d) marks it as an old one, "
                                "where the input gradient is B, want no I",
                                seen[PPL_WORD_BW]->row + 1, seen[PPL_WORD_BW]->cell);
        for (size_t i = 0; i < c->count; i++) {
            int32_t *kind = &c->words[i].word.kind;
            if (*kind == PPL_WORD_B) *kind = PPL_WORD_I;
            else if (*kind == PPL_WORD_BW) *kind = PPL_WORD_B;
        }
    } else if (seen[PPL_WORD_B] && seen[PPL_WORD_W] && !seen[PPL_WORD_I])
        return ppl_csv_fail(c, seen[PPL_WORD_W],
                            "B and W without I is ambiguous: in old files B is the input gradient, "
                            "in new ones the full backward; want I and W, or B alone");
    return PPL_OK;
}

static bool computes(const ppl_csv_word *w) {
    return w->word.kind < PPL_KINDS;
}

// Stages, microbatches and the placement, from the compute words alone. stage_rank is the caller's to ppl_free.
static ppl_status infer(const ppl_csv *c, int32_t *stages, int32_t *microbatches, int32_t **stage_rank) {
    const ppl_csv_word *stage = NULL, *low = NULL, *high = NULL; // largest stage, smallest and largest microbatch
    for (size_t i = 0; i < c->count; i++) {
        const ppl_csv_word *w = &c->words[i];
        if (!computes(w)) continue;
        if (!stage || w->word.stage > stage->word.stage) stage = w;
        if (!low || w->word.microbatch < low->word.microbatch) low = w;
        if (!high || w->word.microbatch > high->word.microbatch) high = w;
    }
    if (!stage) return ppl_fail(PPL_ERR_IO, "%s: no actions, want one row a rank", c->path);
    if (stage->word.stage >= PPL_MAX_STAGES)
        return ppl_csv_fail(c, stage, "stage %d, want less than %d", stage->word.stage, PPL_MAX_STAGES);
    if (high->word.microbatch >= PPL_MAX_MICROBATCHES)
        return ppl_csv_fail(c, high, "microbatch %d, want less than %d", high->word.microbatch, PPL_MAX_MICROBATCHES);
    if (low->word.microbatch > 0)
        return ppl_csv_fail(c, low, "microbatches are numbered from %d to %d, want them from 0", low->word.microbatch,
                            high->word.microbatch);
    *stages = stage->word.stage + 1;
    *microbatches = high->word.microbatch + 1;
    *stage_rank = ppl_alloc((size_t)*stages * sizeof **stage_rank);
    if (!*stage_rank) return PPL_ERR_MEMORY;
    for (int32_t k = 0; k < *stages; k++) (*stage_rank)[k] = -1;
    for (size_t i = 0; i < c->count; i++) {
        const ppl_csv_word *w = &c->words[i];
        if (!computes(w)) continue;
        int32_t *rank = &(*stage_rank)[w->word.stage];
        if (*rank < 0) *rank = w->row;
        else if (*rank != w->row)
            return ppl_csv_fail(c, w, "stage %d stands in row %d already, want a stage's actions in one row",
                                w->word.stage, *rank);
    }
    for (int32_t k = 0; k < *stages; k++)
        if ((*stage_rank)[k] < 0)
            return ppl_fail(PPL_ERR_SCHEDULE, "%s: stage %d stands in no row, want each of 0 to %d in one", c->path, k,
                            *stages - 1);
    return PPL_OK;
}

static ppl_status build(const ppl_csv *c, ppl_schedule **out) {
    int32_t stages = 0, microbatches = 0, *stage_rank = NULL;
    ppl_status st = infer(c, &stages, &microbatches, &stage_rank);
    if (st == PPL_OK) {
        char name[PPL_NAME_BYTES];
        const char *base = strrchr(c->path, '/');
        snprintf(name, sizeof name, "%s", base ? base + 1 : c->path);
        char *dot = strrchr(name, '.');
        if (dot && dot != name) *dot = 0;
        st = ppl_schedule_open(name, c->rows, stages, stage_rank, microbatches, out);
    }
    ppl_free(stage_rank);
    for (size_t i = 0; st == PPL_OK && i < c->count; i++) {
        const ppl_csv_word *w = &c->words[i];
        if (computes(w))
            st = ppl_schedule_add(*out, w->row, w->word.kind, w->word.stage, w->word.microbatch, w->overlap);
    }
    return st;
}

// Where the check's fault stands in the file, in front of its words.
static ppl_status fail_check(const ppl_csv *c, ppl_status st) {
    int32_t rank;
    int64_t at;
    ppl_schedule_mark(&rank, &at);
    if (rank < 0) return ppl_prefix(st, "%s: ", c->path);
    for (size_t i = 0; i < c->count && at >= 0; i++) {
        const ppl_csv_word *w = &c->words[i];
        if (w->row != rank || !computes(w) || at-- > 0) continue;
        return ppl_prefix(st, "%s:%d: cell %d, ", c->path, rank + 1, w->cell);
    }
    return ppl_prefix(st, "%s:%d: ", c->path, rank + 1);
}

ppl_status ppl_schedule_read(const char *path, ppl_schedule **out) {
    *out = NULL;
    ppl_csv c = {.path = path};
    ppl_schedule *s = NULL;
    char *data = NULL;
    size_t size;
    ppl_schedule_unmark();
    ppl_status st = read_file(path, &data, &size);
    if (st == PPL_OK) st = check_text(&c, data, size);
    if (st == PPL_OK) st = parse_file(&c, data, size);
    if (st == PPL_OK) st = settle_dialect(&c);
    if (st == PPL_OK) st = build(&c, &s);
    if (st == PPL_OK) {
        st = ppl_schedule_check(s);
        if (st != PPL_OK) fail_check(&c, st);
    }
    if (st == PPL_OK) st = ppl_csv_check_messages(&c, s);
    free(data);
    free(c.words);
    if (st != PPL_OK) {
        ppl_schedule_close(s);
        return st;
    }
    *out = s;
    return PPL_OK;
}
