// parse.c - words of the action language: "2F5", and the words of PyTorch's CSV files. Before: csv.c cuts cells.
#include "schedule/schedule.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool microbatch; // the word ends in one
} words[] = {
    [PPL_WORD_F] = {"F", true},
    [PPL_WORD_B] = {"B", true},
    [PPL_WORD_I] = {"I", true},
    [PPL_WORD_W] = {"W", true},
    [PPL_WORD_U] = {"U", true},
    [PPL_WORD_BW] = {"BW", true},
    [PPL_WORD_SEND_F] = {"SEND_F", true},
    [PPL_WORD_RECV_F] = {"RECV_F", true},
    [PPL_WORD_SEND_B] = {"SEND_B", true},
    [PPL_WORD_RECV_B] = {"RECV_B", true},
    [PPL_WORD_UNSHARD] = {"UNSHARD", false},
    [PPL_WORD_RESHARD] = {"RESHARD", false},
    [PPL_WORD_REDUCE_GRAD] = {"REDUCE_GRAD", false},
};
_Static_assert(sizeof words / sizeof *words == PPL_WORD_KINDS, "a name for each word");

// The number at the front of text; how many characters it takes, 0 for none, -1 when it is too large for an id.
static int number(const char *text, size_t length, int32_t *out) {
    int64_t value = 0;
    size_t n = 0;
    for (; n < length && text[n] >= '0' && text[n] <= '9'; n++) {
        value = value * 10 + (text[n] - '0');
        if (value > INT32_MAX) return -1;
    }
    *out = (int32_t)value;
    return (int)n;
}

static bool is_letter(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

ppl_status ppl_word_parse(const char *text, size_t length, ppl_word *out) {
    int shown = length > 40 ? 40 : (int)length; // of a text that may be a whole file
    int n = number(text, length, &out->stage);
    if (n < 0)
        return ppl_fail(PPL_ERR_ARG, "\"%.*s\": the stage is too large, want at most %d", shown, text, INT32_MAX);
    if (n == 0) return ppl_fail(PPL_ERR_ARG, "\"%.*s\": no stage in front, want an action such as 2F5", shown, text);
    size_t at = (size_t)n, begin = at;
    while (at < length && is_letter(text[at])) at++;
    size_t letters = at - begin;
    out->kind = -1;
    for (int32_t k = 0; k < PPL_WORD_KINDS; k++)
        if (strlen(words[k].name) == letters && memcmp(words[k].name, text + begin, letters) == 0) out->kind = k;
    if (out->kind < 0)
        return ppl_fail(PPL_ERR_ARG, "\"%.*s\": unknown kind \"%.*s\", want F, B, I or W", shown, text,
                        letters > 20 ? 20 : (int)letters, text + begin);
    out->microbatch = -1;
    if (words[out->kind].microbatch) {
        n = number(text + at, length - at, &out->microbatch);
        if (n < 0)
            return ppl_fail(PPL_ERR_ARG, "\"%.*s\": the microbatch is too large, want at most %d", shown, text,
                            INT32_MAX);
        if (n == 0)
            return ppl_fail(PPL_ERR_ARG, "\"%.*s\": %s without a microbatch, want an action such as 2F5", shown, text,
                            words[out->kind].name);
        at += (size_t)n;
    }
    if (at < length)
        return ppl_fail(PPL_ERR_ARG, "\"%.*s\": \"%.*s\" follows the action, want nothing behind it", shown, text,
                        length - at > 20 ? 20 : (int)(length - at), text + at);
    return PPL_OK;
}

void ppl_word_print(const ppl_word *w, char text[48]) {
    if (words[w->kind].microbatch) snprintf(text, 48, "%d%s%d", w->stage, words[w->kind].name, w->microbatch);
    else snprintf(text, 48, "%d%s", w->stage, words[w->kind].name);
}

ppl_status ppl_action_parse(const char *text, ppl_action *out) {
    ppl_word w;
    PPL_TRY(ppl_word_parse(text, strlen(text), &w));
    if (w.kind >= PPL_KINDS) return ppl_fail(PPL_ERR_ARG, "\"%s\": not an action, want F, B, I, W or U", text);
    *out = (ppl_action){.stage = w.stage, .microbatch = w.microbatch, .kind = w.kind};
    return PPL_OK;
}
