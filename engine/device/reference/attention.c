// attention.c - o = softmax(scale q k^T) v for each head, and its gradient from what the forward keeps, o and lse (Dao
// et al., "FlashAttention", 2022, gives the gradient's form). Query head h reads key and value head h / (H / K)
// (Ainslie et al., "GQA", 2023). One packed input (B, T, (H + 2 K) D) holds in each row H query, K key and K value
// heads.
#include "device/reference/reference.h"

// Where query, key and value heads lie: input or output index, first element in a row, row length.
typedef struct place {
    int32_t index;
    int64_t first, row;
} place;

typedef struct shape {
    int64_t batch, time, heads, kv_heads, d;
    bool causal;
    double scale;
    place q, k, v; // among inputs, or outputs: index counts from q's
} shape;

// first_input: that of qkv or q
static shape shape_of(const ppl_kernel_spec *spec, int32_t first_input) {
    const ppl_type *q = &spec->in[first_input];
    shape s = {.batch = q->dim[0], .time = q->dim[1], .heads = spec->attrs.i[0], .kv_heads = spec->attrs.i[1]};
    bool packed = spec->inputs == first_input + 1;
    s.d = q->dim[2] / (s.heads + (packed ? 2 * s.kv_heads : 0));
    s.causal = spec->attrs.i[2];
    s.scale = spec->attrs.f[0] != 0 ? spec->attrs.f[0] : 1 / sqrt((double)s.d);
    int64_t q_row = s.heads * s.d, kv_row = s.kv_heads * s.d, all = q_row + 2 * kv_row;
    s.q = packed ? (place){0, 0, all} : (place){0, 0, q_row};
    s.k = packed ? (place){0, q_row, all} : (place){1, 0, kv_row};
    s.v = packed ? (place){0, q_row + kv_row, all} : (place){2, 0, kv_row};
    return s;
}

// Element j of a head's row at time t of sample b.
static int64_t at(const shape *s, place p, int64_t b, int64_t t, int64_t head, int64_t j) {
    return (b * s->time + t) * p.row + p.first + head * s->d + j;
}

// scale q[t] . k[u]
static double score(const ppl_kernel_spec *spec, const ppl_call *call, const shape *s, int32_t first_input, int64_t b,
                    int64_t h, int64_t t, int64_t u) {
    int64_t kv = h / (s->heads / s->kv_heads);
    double dot = 0;
    for (int64_t j = 0; j < s->d; j++) {
        dot += get(spec, call, first_input + s->q.index, at(s, s->q, b, t, h, j)) *
               get(spec, call, first_input + s->k.index, at(s, s->k, b, u, kv, j));
    }
    return s->scale * dot;
}

static int64_t seen(const shape *s, int64_t t) {
    return s->causal ? t + 1 : s->time; // keys 0 .. seen - 1
}

// Scratch: the scores of one query, then its weights.
static ppl_status attention_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)state;
    needs->scratch = (size_t)shape_of(spec, 0).time * sizeof(double);
    return PPL_OK;
}

static ppl_status attention(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    shape s = shape_of(spec, 0);
    place o = {0, 0, s.heads * s.d};
    double *p = call->scratch; // (T)
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t h = 0; h < s.heads; h++) {
            int64_t kv = h / (s.heads / s.kv_heads);
            for (int64_t t = 0; t < s.time; t++) {
                double max = -INFINITY, sum = 0;
                for (int64_t u = 0; u < seen(&s, t); u++) p[u] = score(spec, call, &s, 0, b, h, t, u);
                for (int64_t u = 0; u < seen(&s, t); u++) max = fmax(max, p[u]);
                for (int64_t u = 0; u < seen(&s, t); u++) sum += exp(p[u] - max);
                double lse = max + log(sum);
                put(spec, call, 1, (b * s.heads + h) * s.time + t, lse);
                for (int64_t u = 0; u < seen(&s, t); u++) p[u] = exp(p[u] - lse);
                for (int64_t j = 0; j < s.d; j++) {
                    double value = 0;
                    for (int64_t u = 0; u < seen(&s, t); u++)
                        value += p[u] * get(spec, call, s.v.index, at(&s, s.v, b, u, kv, j));
                    put(spec, call, 0, at(&s, o, b, t, h, j), value);
                }
            }
        }
    }
    return PPL_OK;
}

enum { DY, O, LSE, QKV }; // inputs of the gradient

// p[t, u] = exp(score - lse) and ds[t, u] = p (dy[t] . v[u] - dy[t] . o[t]): what all three gradients are made of.
static void weights(const ppl_kernel_spec *spec, const ppl_call *call, const shape *s, int64_t b, int64_t h, int64_t t,
                    int64_t u, double *p, double *ds) {
    int64_t kv = h / (s->heads / s->kv_heads);
    place o = {0, 0, s->heads * s->d};
    double dp = 0, delta = 0;
    for (int64_t j = 0; j < s->d; j++) {
        double dy = get(spec, call, DY, at(s, o, b, t, h, j));
        dp += dy * get(spec, call, QKV + s->v.index, at(s, s->v, b, u, kv, j));
        delta += dy * get(spec, call, O, at(s, o, b, t, h, j));
    }
    *p = exp(score(spec, call, s, QKV, b, h, t, u) - get(spec, call, LSE, (b * s->heads + h) * s->time + t));
    *ds = *p * (dp - delta);
}

// dq[t] = scale sum over u of ds[t, u] k[u]. ds: room for T numbers.
static void query_grad(const ppl_kernel_spec *spec, const ppl_call *call, const shape *s, int64_t b, int64_t h,
                       int64_t t, double *ds) {
    int64_t kv = h / (s->heads / s->kv_heads);
    double p;
    for (int64_t u = 0; u < seen(s, t); u++) weights(spec, call, s, b, h, t, u, &p, &ds[u]);
    for (int64_t j = 0; j < s->d; j++) {
        double dq = 0;
        for (int64_t u = 0; u < seen(s, t); u++)
            dq += s->scale * ds[u] * get(spec, call, QKV + s->k.index, at(s, s->k, b, u, kv, j));
        put(spec, call, s->q.index, at(s, s->q, b, t, h, j), dq);
    }
}

// dk[u] = scale sum over t of ds[t, u] q[t], dv[u] = sum over t of p[t, u] dy[t], over the query heads that read kv.
// p, ds: room for (H / K, T) numbers.
static void key_value_grad(const ppl_kernel_spec *spec, const ppl_call *call, const shape *s, int64_t b, int64_t kv,
                           int64_t u, double *p, double *ds) {
    int64_t group = s->heads / s->kv_heads, first = s->causal ? u : 0;
    place o = {0, 0, s->heads * s->d};
    for (int64_t g = 0; g < group; g++)
        for (int64_t t = first; t < s->time; t++)
            weights(spec, call, s, b, kv * group + g, t, u, &p[g * s->time + t], &ds[g * s->time + t]);
    for (int64_t j = 0; j < s->d; j++) {
        double dk = 0, dv = 0;
        for (int64_t g = 0; g < group; g++) {
            for (int64_t t = first; t < s->time; t++) {
                int64_t h = kv * group + g;
                dk += s->scale * ds[g * s->time + t] * get(spec, call, QKV + s->q.index, at(s, s->q, b, t, h, j));
                dv += p[g * s->time + t] * get(spec, call, DY, at(s, o, b, t, h, j));
            }
        }
        put(spec, call, s->k.index, at(s, s->k, b, u, kv, j), dk);
        put(spec, call, s->v.index, at(s, s->v, b, u, kv, j), dv);
    }
}

// Scratch: p and ds of one key against all queries that see it.
static ppl_status attention_grad_prepare(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)state;
    shape s = shape_of(spec, QKV);
    needs->scratch = (size_t)(2 * (s.heads / s.kv_heads) * s.time) * sizeof(double);
    return PPL_OK;
}

static ppl_status attention_grad(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    shape s = shape_of(spec, QKV);
    double *p = call->scratch, *ds = p + s.heads / s.kv_heads * s.time;
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t t = 0; t < s.time; t++) {
            for (int64_t h = 0; h < s.heads; h++) query_grad(spec, call, &s, b, h, t, ds);
            for (int64_t kv = 0; kv < s.kv_heads; kv++) key_value_grad(spec, call, &s, b, kv, t, p, ds);
        }
    }
    return PPL_OK;
}

const ppl_kernel ppl_reference_attention = {.name = "attention",
                                            .prepare = attention_prepare,
                                            .pack = ppl_kernel_pack_none,
                                            .run = attention,
                                            .free = ppl_kernel_free_none};

const ppl_kernel ppl_reference_attention_grad = {.name = "attention_grad",
                                                 .prepare = attention_grad_prepare,
                                                 .pack = ppl_kernel_pack_none,
                                                 .run = attention_grad,
                                                 .free = ppl_kernel_free_none};
