// attention_grad.c - the gradients of attention towards q, k and v from what the forward kept, o and lse (Dao et al.,
// "FlashAttention", 2022, appendix B). With p = e^(scale q k^T - lse) recomputed block by block and
// ds = p (dy v^T - sum of dy o): dv = p^T dy, dk = scale ds^T q, dq = scale ds k. After it: attention.h.
//
// One thread works on one key and value head and the query heads that read it, in order, so that dk and dv are summed
// in one fixed order, in f32, and rounded once.
#include "device/cpu/attention.h"

enum { KEYS = ATTENTION_BLOCK, QUERIES = ATTENTION_BLOCK, TILE = ATTENTION_TILE };
enum { DY, O, LSE, QKV }; // inputs

typedef struct workspace { // one thread's; `row` numbers from one row to the next
    float *keys, *values;  // (T / 16, D, 16): transposed panels
    float *k;              // (T, row)
    float *dk, *dv;        // (T, row): sums over queries and heads
    float *q, *dy, *dq;    // (QUERIES, row); q is scaled
    float *p, *ds;         // (QUERIES, KEYS)
    float *lse, *delta;    // (QUERIES); delta: dy . o
    float *ones;           // (TILE)
    int64_t row;
} workspace;

static size_t workspace_lay(const attention_shape *s, float *base, workspace *w) {
    size_t at = 0;
    int64_t row = s->d_up + 16; // no power of two, so that rows share no cache set
#define PLACE(name, n) w->name = base ? base + at : NULL, at += ((size_t)(n) + 15) / 16 * 16
    PLACE(keys, s->time_up * s->d);
    PLACE(values, s->time_up * s->d);
    PLACE(k, s->time_up * row);
    PLACE(dk, s->time_up * row);
    PLACE(dv, s->time_up * row);
    PLACE(q, QUERIES * row);
    PLACE(dy, QUERIES * row);
    PLACE(dq, QUERIES * row);
    PLACE(p, QUERIES * KEYS);
    PLACE(ds, QUERIES * KEYS);
    PLACE(lse, QUERIES);
    PLACE(delta, QUERIES);
    PLACE(ones, TILE);
#undef PLACE
    w->row = row;
    return at * sizeof(float);
}

typedef struct block { // queries first .. first + rows - 1 against keys key .. key + KEYS - 1
    int64_t first, rows, key;
} block;

// Keys of this block that a query sees; 0 or less: none. Rows that fill up a block see none.
static int64_t seen(const attention_shape *s, const block *b, int64_t row) {
    if (row >= b->rows) return 0;
    return attention_least(KEYS, (s->causal ? b->first + row + 1 : s->time) - b->key);
}

// ---- p and ds of a block

// Scores and dy v^T of one row become p and ds, 0 where the query does not see.
static void row_weights(const workspace *w, int64_t r, int64_t n) {
    float *p = w->p + r * KEYS, *ds = w->ds + r * KEYS;
    v16 lse = v16_set(w->lse[r]), delta = v16_set(w->delta[r]), zero = v16_set(0.0f);
    for (int64_t i = 0; i < KEYS; i += 16) {
        v16 weight = zero, slope = zero;
        if (n > i) {
            int lanes = lanes_left(i, n);
            weight = v16_first(v16_exp(v16_sub(v16_first(v16_load(p + i), lanes), lse)), lanes);
            slope = v16_mul(weight, v16_first(v16_sub(v16_load(ds + i), delta), lanes));
        }
        v16_store(p + i, weight);
        v16_store(ds + i, slope);
    }
}

static void block_weights(const attention_shape *s, const block *b, const workspace *w) {
    for (int64_t r = 0; r < QUERIES; r += TILE) {
        int64_t n = 0;
        for (int64_t i = r; i < r + TILE; i++) n = seen(s, b, i) > n ? seen(s, b, i) : n;
        for (int64_t i = 0; i < n; i += 16) {
            int64_t panel = (b->key + i) * s->d;
            attention_product p = {w->q + r * w->row, w->keys + panel, w->row, 1, 16, KEYS, s->d};
            attention_product ds = {w->dy + r * w->row, w->values + panel, w->row, 1, 16, KEYS, s->d};
            attention_set(&p, w->p + r * KEYS + i);
            attention_set(&ds, w->ds + r * KEYS + i);
        }
        for (int64_t i = r; i < r + TILE; i++) row_weights(w, i, seen(s, b, i));
    }
}

static void block_run(const attention_shape *s, const block *b, const workspace *w) {
    block_weights(s, b, w);
    for (int64_t r = 0; r < QUERIES; r += TILE) { // dq += ds k
        int64_t n = seen(s, b, attention_least(r + TILE, b->rows) - 1);
        for (int64_t i = 0; i < s->d_up && r < b->rows && n > 0; i += 16) {
            attention_product p = {w->ds + r * KEYS, w->k + b->key * w->row + i, KEYS, 1, w->row, w->row, n};
            attention_add(&p, w->ones, w->dq + r * w->row + i);
        }
    }
    for (int64_t key = 0; key < KEYS; key += TILE) { // dv += p^T dy, dk += ds^T q
        int64_t from =
            s->causal && b->key + key > b->first ? b->key + key - b->first : 0; // earlier queries do not see it
        if (b->key + key >= s->time || from >= b->rows) continue;
        for (int64_t i = 0; i < s->d_up; i += 16) {
            int64_t a = from * KEYS + key, rows = from * w->row + i, sums = (b->key + key) * w->row + i;
            attention_product dv = {w->p + a, w->dy + rows, 1, KEYS, w->row, w->row, b->rows - from};
            attention_product dk = {w->ds + a, w->q + rows, 1, KEYS, w->row, w->row, b->rows - from};
            attention_add(&dv, w->ones, w->dv + sums);
            attention_add(&dk, w->ones, w->dk + sums);
        }
    }
}

// ---- heads

typedef struct job {
    attention_shape s;
    const ppl_call *call;
    size_t room; // bytes of a thread's workspace
} job;

// delta of each query of a block: dy . o, in 16 lanes.
static void deltas(const attention_shape *s, const block *b, const workspace *w, const attention_rows *o) {
    for (int64_t r = 0; r < b->rows; r++) {
        v16 sum = v16_set(0.0f);
        for (int64_t i = 0; i < s->d; i += 16) {
            attention_ask(o, r, i, o->dtype);
            v16 x = v16_get(o->from, o->dtype, r * o->from_row + i, lanes_left(i, s->d));
            sum = v16_fma(v16_load(w->dy + r * w->row + i), x, sum);
        }
        w->delta[r] = v16_sum(sum);
    }
}

// scale x sums into `rows` rows of an output, rounded there.
static void rows_store(const attention_shape *s, const float *sums, int64_t sums_row, float scale, void *out,
                       int64_t number, int64_t row, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < s->d; i += 16) {
            v16 x = v16_mul(v16_load(sums + r * sums_row + i), v16_set(scale));
            v16_put(out, s->dtype, number + r * row + i, x, lanes_left(i, s->d));
        }
    }
}

static void query_head_run(const job *j, int64_t sample, int64_t head, const workspace *w) {
    const attention_shape *s = &j->s;
    const ppl_call *call = j->call;
    int64_t at = sample * s->time, o_row = s->heads * s->d;
    for (block b = {.first = 0}; b.first < s->time; b.first += QUERIES) {
        b.rows = attention_least(QUERIES, s->time - b.first);
        int64_t q_at = (at + b.first) * s->q_row + head * s->d, o_at = (at + b.first) * o_row + head * s->d;
        attention_rows q = attention_rows_of(s, call->in[QKV], q_at, s->q_row, b.rows);
        attention_rows dy = attention_rows_of(s, call->in[DY], o_at, o_row, b.rows);
        attention_rows o = attention_rows_of(s, call->in[O], o_at, o_row, b.rows);
        attention_copy(&q, s->scale, w->q, w->row, QUERIES);
        attention_copy(&dy, 1, w->dy, w->row, QUERIES);
        const float *lse = (const float *)call->in[LSE] + (sample * s->heads + head) * s->time + b.first;
        memcpy(w->lse, lse, (size_t)b.rows * sizeof(float));
        deltas(s, &b, w, &o);
        memset(w->dq, 0, (size_t)(QUERIES * w->row) * sizeof(float));
        int64_t end = s->causal ? b.first + b.rows : s->time;
        for (b.key = 0; b.key < end; b.key += KEYS) block_run(s, &b, w);
        rows_store(s, w->dq, w->row, s->scale, call->out[0], q_at, s->q_row, b.rows);
    }
}

static void heads_share(void *context, int64_t first, int64_t last, int32_t worker) {
    const job *j = context;
    const attention_shape *s = &j->s;
    const ppl_call *call = j->call;
    workspace w;
    workspace_lay(s, (float *)((char *)call->scratch + (size_t)worker * j->room), &w);
    for (int r = 0; r < TILE; r++) w.ones[r] = 1;
    for (int64_t i = first; i < last; i++) {
        int64_t sample = i / s->kv_heads, kv = i % s->kv_heads, group = s->heads / s->kv_heads;
        int64_t at = sample * s->time * s->k_row + kv * s->d, k_at = at + s->k_first, v_at = at + s->v_first;
        attention_rows k = attention_rows_of(s, call->in[QKV + s->k], k_at, s->k_row, s->time);
        attention_rows v = attention_rows_of(s, call->in[QKV + s->v], v_at, s->k_row, s->time);
        attention_copy(&v, 1, w.k, w.row, s->time_up); // on the way
        attention_transpose(w.k, w.row, s->time_up, s->d, w.values);
        attention_copy(&k, 1, w.k, w.row, s->time_up);
        attention_transpose(w.k, w.row, s->time_up, s->d, w.keys);
        memset(w.dk, 0, (size_t)(s->time_up * w.row) * sizeof(float));
        memset(w.dv, 0, (size_t)(s->time_up * w.row) * sizeof(float));
        for (int64_t g = 0; g < group; g++) query_head_run(j, sample, kv * group + g, &w);
        rows_store(s, w.dk, w.row, 1, call->out[s->k], k_at, s->k_row, s->time); // q was scaled
        rows_store(s, w.dv, w.row, 1, call->out[s->v], v_at, s->k_row, s->time);
    }
}

static ppl_status attention_grad_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)state;
    PPL_TRY(attention_check("attention_grad", spec, QKV));
    attention_shape s = attention_shape_of(spec, QKV);
    workspace w;
    needs->scratch = (size_t)spec->threads * workspace_lay(&s, NULL, &w);
    return PPL_OK;
}

static ppl_status attention_grad_run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    workspace w;
    job j = {.s = attention_shape_of(spec, QKV), .call = call};
    j.room = workspace_lay(&j.s, NULL, &w);
    ppl_parallel(j.s.batch * j.s.kv_heads, spec->threads, heads_share, &j);
    return PPL_OK;
}

PLAIN_KERNEL(attention_grad, attention_grad_prepare, attention_grad_run);
