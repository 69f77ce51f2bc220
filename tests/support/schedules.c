// schedules.c - schedules made in C, for tests of everything behind them.
#include "support/schedules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const order_name[ORDERS] = {
    [ORDER_NAIVE] = "naive", [ORDER_GPIPE] = "gpipe", [ORDER_1F1B] = "1f1b",
    [ORDER_ZB_H1] = "zb-h1", [ORDER_LOOP] = "loop",   [ORDER_INTERLEAVED] = "interleaved",
    [ORDER_V] = "v",
};

static void want(ppl_status st) {
    if (st == PPL_OK) return;
    fprintf(stderr, "schedules.c: %s\n", ppl_error());
    abort();
}

static void add(ppl_schedule *s, int32_t rank, int32_t kind, int32_t stage, int32_t mb) {
    want(ppl_schedule_add(s, rank, kind, stage, mb, 0));
}

static void one_f_one_b(ppl_schedule *s, int32_t r, int32_t p, int32_t m) {
    int32_t warm = p - r - 1 < m ? p - r - 1 : m;
    for (int32_t k = 0; k < warm; k++) add(s, r, PPL_F, r, k);
    for (int32_t k = warm; k < m; k++) add(s, r, PPL_F, r, k), add(s, r, PPL_B, r, k - warm);
    for (int32_t k = m - warm; k < m; k++) add(s, r, PPL_B, r, k);
}

static void zb_h1(ppl_schedule *s, int32_t r, int32_t p, int32_t m) {
    int32_t warm = p - r - 1 < m ? p - r - 1 : m, f = 0, i = 0, w = 0;
    while (f < warm) add(s, r, PPL_F, r, f++);
    while (i < m) {
        if (f < m) add(s, r, PPL_F, r, f++);
        add(s, r, PPL_I, r, i++);
        if (i > r) add(s, r, PPL_W, r, w++);
    }
    while (w < m) add(s, r, PPL_W, r, w++);
}

// The k-th forward (or backward) of a rank in Megatron's order: groups of p microbatches, chunk after chunk.
static void interleaved_at(int32_t k, int32_t p, int32_t chunks, int32_t *chunk, int32_t *mb) {
    int32_t group = k / (p * chunks), inside = k % (p * chunks);
    *chunk = inside / p;
    *mb = group * p + inside % p;
}

static void interleaved(ppl_schedule *s, int32_t r, int32_t p, int32_t m, int32_t chunks) {
    int32_t total = m * chunks, warm = (p - r - 1) * 2 + (chunks - 1) * p, chunk, mb;
    if (m == p || warm > total) warm = total;
    for (int32_t k = 0; k < total + warm; k++) {
        if (k < total) {
            interleaved_at(k, p, chunks, &chunk, &mb);
            add(s, r, PPL_F, chunk * p + r, mb);
        }
        if (k >= warm) {
            interleaved_at(k - warm, p, chunks, &chunk, &mb);
            add(s, r, PPL_B, (chunks - 1 - chunk) * p + r, mb);
        }
    }
}

static void breadth_first(ppl_schedule *s, int32_t r, int32_t m) {
    for (int32_t k = 0; k < s->stages; k++)
        for (int32_t mb = 0; s->stage_rank[k] == r && mb < m; mb++) add(s, r, PPL_F, k, mb);
    for (int32_t k = s->stages - 1; k >= 0; k--)
        for (int32_t mb = 0; s->stage_rank[k] == r && mb < m; mb++) add(s, r, PPL_B, k, mb);
}

ppl_schedule *schedule_make(order o, int32_t p, int32_t m, int32_t chunks) {
    if (o == ORDER_V) chunks = 2;
    else if (o != ORDER_LOOP && o != ORDER_INTERLEAVED) chunks = 1;
    int32_t stages = p * chunks;
    int32_t *stage_rank = malloc((size_t)stages * sizeof *stage_rank);
    for (int32_t k = 0; k < stages; k++) stage_rank[k] = o == ORDER_V && k >= p ? 2 * p - 1 - k : k % p;
    ppl_schedule *s;
    want(ppl_schedule_open(order_name[o], p, stages, stage_rank, m, &s));
    free(stage_rank);
    for (int32_t r = 0; r < p; r++) {
        switch (o) {
        case ORDER_NAIVE:
            for (int32_t k = 0; k < m; k++) add(s, r, PPL_F, r, k), add(s, r, PPL_B, r, k);
            break;
        case ORDER_1F1B: one_f_one_b(s, r, p, m); break;
        case ORDER_ZB_H1: zb_h1(s, r, p, m); break;
        case ORDER_INTERLEAVED: interleaved(s, r, p, m, chunks); break;
        case ORDER_GPIPE:
        case ORDER_LOOP:
        case ORDER_V: breadth_first(s, r, m); break;
        case ORDERS: abort();
        }
    }
    return s;
}

ppl_schedule *schedule_from(int32_t ranks, int32_t stages, const int32_t *stage_rank, int32_t microbatches,
                            const char *const *rows) {
    int32_t *own = malloc((size_t)stages * sizeof *own);
    for (int32_t k = 0; k < stages; k++) own[k] = stage_rank ? stage_rank[k] : k;
    ppl_schedule *s;
    want(ppl_schedule_open("by hand", ranks, stages, own, microbatches, &s));
    free(own);
    int32_t group = 0;
    for (int32_t r = 0; r < ranks; r++) {
        char row[4096];
        snprintf(row, sizeof row, "%s", rows[r]);
        int32_t inside = 0;
        for (char *rest, *t = strtok_r(row, " ;", &rest); t; t = strtok_r(NULL, " ;", &rest)) {
            if (*t == '(') inside = ++group, t++;
            char *close = strchr(t, ')');
            if (close) *close = 0;
            ppl_action a;
            want(ppl_action_parse(t, &a));
            want(ppl_schedule_add(s, r, a.kind, a.stage, a.microbatch, inside));
            if (close) inside = 0;
        }
    }
    return s;
}

void schedule_pair(ppl_schedule *s, uint32_t seed) {
    int32_t groups = 0;
    for (int32_t r = 0; r < s->ranks; r++) {
        ppl_action *a = s->rank[r].actions;
        for (size_t i = 1; i < s->rank[r].count; i++) {
            seed = seed * 1664525 + 1013904223;
            if ((a[i].kind == PPL_F) == (a[i - 1].kind == PPL_F) || a[i - 1].overlap || seed >> 31) continue;
            a[i].overlap = a[i - 1].overlap = ++groups;
        }
    }
}

bool schedule_equal(const ppl_schedule *a, const ppl_schedule *b) {
    if (a->ranks != b->ranks || a->stages != b->stages || a->microbatches != b->microbatches) return false;
    for (int32_t k = 0; k < a->stages; k++)
        if (a->stage_rank[k] != b->stage_rank[k]) return false;
    for (int32_t r = 0; r < a->ranks; r++) {
        if (a->rank[r].count != b->rank[r].count) return false;
        for (size_t i = 0; i < a->rank[r].count; i++) {
            ppl_action x = a->rank[r].actions[i], y = b->rank[r].actions[i];
            if (x.stage != y.stage || x.microbatch != y.microbatch || x.kind != y.kind || !x.overlap != !y.overlap)
                return false;
        }
    }
    return true;
}
