// attention.c - o = softmax(scale q k^T) v for each head, and lse = log of the softmax's sum, which the gradient needs
// instead of the softmax itself: it is never stored (Dao et al., "FlashAttention", 2022). Query head h reads key and
// value head h / (H / K). After it: attention.h; attention_grad.c reads o and lse.
//
// Blocks of queries walk over blocks of keys with a running maximum and sum for each query (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018). Everything is f32; o is rounded once.
#include "device/cpu/attention.h"

enum { KEYS = ATTENTION_BLOCK, QUERIES = ATTENTION_BLOCK, TILE = ATTENTION_TILE };

typedef struct workspace {    // one thread's
    float *keys;              // (T / 16, D, 16): transposed panels
    float *values;            // (T, row)
    float *q, *o;             // (QUERIES, row): scaled queries, sums not yet divided
    float *p;                 // (QUERIES, KEYS): scores, then their weights
    float *sum;               // (QUERIES, 16): of the weights so far
    float *max, *next, *keep; // (QUERIES): maximum so far, with this block, and e^(max - next)
    int64_t row;              // numbers from one row to the next: no power of two, so that rows share no cache set
} workspace;

static size_t workspace_lay(const attention_shape *s, float *base, workspace *w) {
    size_t at = 0;
    int64_t row = s->d_up + 16;
#define PLACE(name, n) w->name = base ? base + at : NULL, at += ((size_t)(n) + 15) / 16 * 16
    PLACE(keys, s->time_up * s->d);
    PLACE(values, s->time_up * row);
    PLACE(q, QUERIES * row);
    PLACE(o, QUERIES * row);
    PLACE(p, QUERIES * KEYS);
    PLACE(sum, QUERIES * 16);
    PLACE(max, QUERIES);
    PLACE(next, QUERIES);
    PLACE(keep, QUERIES);
#undef PLACE
    w->row = row;
    return at * sizeof(float);
}

typedef struct block { // queries `first` .. first + rows - 1 against keys `key` .. key + KEYS - 1
    int64_t first, rows, key;
} block;

// Keys of this block that a query sees; 0 or less: none.
static int64_t seen(const attention_shape *s, const block *b, int64_t query) {
    int64_t last = attention_least(query, s->time - 1); // rows that fill up a tile see what the last one sees
    return attention_least(KEYS, (s->causal ? last + 1 : s->time) - b->key);
}

// ---- the running softmax

PPL_VEC v16 scores_of(const float *p, int64_t i, int64_t n, v16 others) {
    v16 x = v16_load(p + i);
    return n - i >= 16 ? x : v16_select(m16_first(n > i ? (int)(n - i) : 0), x, others);
}

// Maxima with this block, and what that leaves of the sums before it.
static void block_maxima(const attention_shape *s, const block *b, const workspace *w, int64_t tiled) {
    v16 lowest = v16_set(-__builtin_inff());
    for (int64_t r = 0; r < tiled; r++) {
        int64_t n = seen(s, b, b->first + r);
        v16 max = lowest;
        for (int64_t i = 0; i < n; i += 16) max = v16_max(scores_of(w->p + r * KEYS, i, n, lowest), max);
        float largest = v16_largest(max);
        w->next[r] = largest > w->max[r] ? largest : w->max[r];
    }
    for (int64_t r = 0; r < QUERIES; r += 16) {
        v16 next = v16_load(w->next + r);
        v16_store(w->keep + r, v16_exp(v16_sub(v16_load(w->max + r), next)));
        v16_store(w->max + r, next);
    }
}

// Scores become weights e^(score - maximum), 0 where a query does not see, in the columns that the tile reads.
static void block_weights(const attention_shape *s, const block *b, const workspace *w, int64_t r, int64_t columns) {
    float *p = w->p + r * KEYS;
    int64_t n = seen(s, b, b->first + r);
    v16 max = v16_set(w->max[r]), sum = v16_mul(v16_load(w->sum + 16 * r), v16_set(w->keep[r]));
    for (int64_t i = 0; i < columns; i += 16) {
        v16 x = v16_exp(v16_sub(scores_of(p, i, n, max), max)); // unseen: e^0, as a far smaller result may be slow
        if (n - i < 16) x = v16_first(x, n > i ? (int)(n - i) : 0);
        v16_store(p + i, x);
        sum = v16_add(sum, x);
    }
    v16_store(w->sum + 16 * r, sum);
}

// ---- one block of queries

static void block_run(const attention_shape *s, const block *b, const workspace *w) {
    int64_t tiled = (b->rows + TILE - 1) / TILE * TILE;
    for (int64_t r = 0; r < tiled; r += TILE) { // p = q k^T
        int64_t n = seen(s, b, b->first + r + TILE - 1);
        for (int64_t i = 0; i < n; i += 16) {
            attention_product p = {w->q + r * w->row, w->keys + (b->key + i) * s->d, w->row, 1, 16, KEYS, s->d};
            attention_set(&p, w->p + r * KEYS + i);
        }
    }
    block_maxima(s, b, w, tiled);
    for (int64_t r = 0; r < tiled; r += TILE) { // o = keep o + p v
        int64_t n = seen(s, b, b->first + r + TILE - 1);
        if (n <= 0) continue;
        for (int64_t i = r; i < r + TILE; i++) block_weights(s, b, w, i, n);
        for (int64_t i = 0; i < s->d_up; i += 16) {
            attention_product p = {w->p + r * KEYS, w->values + b->key * w->row + i, KEYS, 1, w->row, w->row, n};
            if (b->key) attention_add(&p, w->keep + r, w->o + r * w->row + i);
            else attention_set(&p, w->o + r * w->row + i);
        }
    }
}

// o over its sum into the output, and lse.
PPL_VEC void queries_finish(const attention_shape *s, const block *b, const workspace *w, void *o, float *lse,
                            int32_t dtype) {
    int64_t o_row = s->heads * s->d;
    for (int64_t r = 0; r < b->rows; r++) {
        float sum = v16_sum(v16_load(w->sum + 16 * r));
        for (int64_t i = 0; i < s->d; i += 16) {
            v16 x = v16_mul(v16_load(w->o + r * w->row + i), v16_set(1 / sum));
            v16_put(o, dtype, (b->first + r) * o_row + i, x, lanes_left(i, s->d));
        }
        lse[b->first + r] = (float)((double)w->max[r] + log((double)sum));
    }
}

// ---- a head

typedef struct job {
    attention_shape s;
    const ppl_call *call;
    size_t room; // bytes of a thread's workspace
} job;

static void head_run(const job *j, int64_t sample, int64_t head, const workspace *w) {
    const attention_shape *s = &j->s;
    int64_t at = sample * s->time, o_at = at * s->heads * s->d + head * s->d;
    void *o = (char *)j->call->out[0] + (size_t)o_at * ppl_dtype_size(s->dtype);
    float *lse = (float *)j->call->out[1] + (sample * s->heads + head) * s->time;
    for (block b = {.first = 0}; b.first < s->time; b.first += QUERIES) {
        b.rows = attention_least(QUERIES, s->time - b.first);
        int64_t q_at = (at + b.first) * s->q_row + head * s->d;
        attention_rows q = attention_rows_of(s, j->call->in[0], q_at, s->q_row, b.rows);
        attention_copy(&q, s->scale, w->q, w->row, QUERIES);
        memset(w->sum, 0, QUERIES * 16 * sizeof(float));
        for (int r = 0; r < QUERIES; r++) w->max[r] = w->next[r] = -INFINITY;
        int64_t end = s->causal ? b.first + b.rows : s->time;
        for (b.key = 0; b.key < end; b.key += KEYS) block_run(s, &b, w);
        if (s->dtype == PPL_BF16) queries_finish(s, &b, w, o, lse, PPL_BF16);
        else queries_finish(s, &b, w, o, lse, PPL_F32);
    }
}

// Copies a key and value head into the workspace.
static void keys_copy(const job *j, int64_t sample, int64_t kv, const workspace *w) {
    const attention_shape *s = &j->s;
    int64_t at = sample * s->time * s->k_row + kv * s->d;
    for (int64_t t = 0; t < s->time; t += QUERIES) {
        int64_t rows = attention_least(QUERIES, s->time - t), row = at + t * s->k_row;
        attention_rows k = attention_rows_of(s, j->call->in[s->k], row + s->k_first, s->k_row, rows);
        attention_rows v = attention_rows_of(s, j->call->in[s->v], row + s->v_first, s->k_row, rows);
        attention_copy(&k, 1, w->q, w->row, QUERIES); // on the way
        attention_transpose(w->q, w->row, QUERIES, s->d, w->keys + t * s->d);
        attention_copy(&v, 1, w->values + t * w->row, w->row, rows);
    }
}

static void heads_share(void *context, int64_t first, int64_t last, int32_t worker) {
    const job *j = context;
    const attention_shape *s = &j->s;
    workspace w;
    workspace_lay(s, (float *)((char *)j->call->scratch + (size_t)worker * j->room), &w);
    int64_t copied = -1; // which key and value head the workspace holds
    for (int64_t i = first; i < last; i++) {
        int64_t sample = i / s->heads, head = i % s->heads, kv = head / (s->heads / s->kv_heads);
        if (sample * s->kv_heads + kv != copied) keys_copy(j, sample, kv, &w);
        copied = sample * s->kv_heads + kv;
        head_run(j, sample, head, &w);
    }
}

static ppl_status attention_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    PPL_TRY(attention_check("attention", spec, 0));
    attention_shape s = attention_shape_of(spec, 0);
    workspace w;
    needs->scratch = (size_t)spec->threads * workspace_lay(&s, NULL, &w);
    (void)state;
    return PPL_OK;
}

static ppl_status attention_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    workspace w;
    job j = {.s = attention_shape_of(spec, 0), .call = call};
    j.room = workspace_lay(&j.s, NULL, &w);
    ppl_parallel(j.s.batch * j.s.heads, spec->threads, heads_share, &j);
    return PPL_OK;
}

PLAIN_KERNEL(attention, attention_prepare, attention_run);
