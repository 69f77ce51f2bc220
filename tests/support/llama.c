// llama.c - see llama.h.
#include "support/llama.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    ppl_graph *g;
    char layer[16];
} builder;

static void must(ppl_status st) {
    if (st == PPL_OK) return;
    fprintf(stderr, "llama: %s\n", ppl_error());
    abort();
}

static ppl_value param(const builder *b, const char *name, int64_t rows, int64_t columns) {
    char text[64];
    ppl_value v;
    int64_t dim[2] = {rows, columns};
    ppl_param_spec spec = {.init = columns ? PPL_INIT_NORMAL : PPL_INIT_ONES, .decay = columns > 0, .a = 0.1};
    snprintf(text, sizeof text, "%s.%s", b->layer, name);
    must(ppl_graph_param(b->g, text, columns ? 2 : 1, dim, &spec, &v));
    return v;
}

static ppl_value apply(const builder *b, int32_t op, const char *name, const ppl_value *in, int32_t inputs,
                       ppl_attrs attrs) {
    char text[64];
    ppl_value out[PPL_MAX_OUTPUTS];
    snprintf(text, sizeof text, "%s.%s.%s", b->layer, name, ppl_op_name(op));
    must(ppl_graph_apply(b->g, op, text, in, inputs, &attrs, out));
    return out[0];
}

static ppl_value norm(const builder *b, const char *name, ppl_value x) {
    return apply(b, PPL_OP_RMSNORM, name, (ppl_value[]){x, param(b, name, LLAMA_WIDTH, 0)}, 2,
                 (ppl_attrs){.f = {1e-5}});
}

static ppl_value linear(const builder *b, const char *name, ppl_value x, int64_t from, int64_t to, int32_t act) {
    return apply(b, PPL_OP_LINEAR, name, (ppl_value[]){x, param(b, name, to, from)}, 2, (ppl_attrs){.i = {act}});
}

static ppl_value turned(const builder *b, const char *name, ppl_value x, int64_t heads) {
    return apply(b, PPL_OP_ROPE, name, &x, 1, (ppl_attrs){.i = {LLAMA_WIDTH / LLAMA_HEADS, heads, 0}, .f = {10000}});
}

static ppl_value block(const builder *b, ppl_value x) {
    const int64_t kv = LLAMA_WIDTH / LLAMA_HEADS * LLAMA_KV_HEADS, inner = 3 * LLAMA_WIDTH;
    ppl_value y = norm(b, "norm1", x), pair[2] = {x, -1}, qkv[3];
    qkv[0] = turned(b, "q", linear(b, "q", y, LLAMA_WIDTH, LLAMA_WIDTH, PPL_ACT_NONE), LLAMA_HEADS);
    qkv[1] = turned(b, "k", linear(b, "k", y, LLAMA_WIDTH, kv, PPL_ACT_NONE), LLAMA_KV_HEADS);
    qkv[2] = linear(b, "v", y, LLAMA_WIDTH, kv, PPL_ACT_NONE);
    y = apply(b, PPL_OP_ATTENTION, "heads", qkv, 3, (ppl_attrs){.i = {LLAMA_HEADS, LLAMA_KV_HEADS, 1}});
    pair[1] = linear(b, "o", y, LLAMA_WIDTH, LLAMA_WIDTH, PPL_ACT_NONE);
    x = apply(b, PPL_OP_ADD, "add1", pair, 2, (ppl_attrs){0});
    y = norm(b, "norm2", x);
    ppl_value gate[2] = {linear(b, "gate", y, LLAMA_WIDTH, inner, PPL_ACT_SILU),
                         linear(b, "up", y, LLAMA_WIDTH, inner, PPL_ACT_NONE)};
    y = apply(b, PPL_OP_MUL, "gated", gate, 2, (ppl_attrs){0});
    ppl_value sum[2] = {x, linear(b, "down", y, inner, LLAMA_WIDTH, PPL_ACT_NONE)};
    return apply(b, PPL_OP_ADD, "add2", sum, 2, (ppl_attrs){0});
}

static void begin(builder *b, const char *layer, double weight) {
    snprintf(b->layer, sizeof b->layer, "%s", layer);
    must(ppl_graph_layer(b->g, layer, weight));
}

ppl_graph *test_llama(int32_t dtype, int32_t samples) {
    builder b;
    ppl_type type = {.dtype = PPL_I32, .ndim = 2, .dim = {samples, LLAMA_CONTEXT, 1, 1, 1, 1}};
    ppl_value tokens, targets, loss[2];
    must(ppl_graph_open(dtype, &b.g));
    begin(&b, "embed", 0);
    must(ppl_graph_input(b.g, "tokens", &type, &tokens));
    ppl_value pair[2] = {tokens, param(&b, "table", LLAMA_VOCABULARY, LLAMA_WIDTH)};
    ppl_value x = apply(&b, PPL_OP_EMBEDDING, "token", pair, 2, (ppl_attrs){0});
    for (int32_t i = 0; i < LLAMA_BLOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        begin(&b, name, 1);
        x = block(&b, x);
    }
    begin(&b, "head", 0);
    x = linear(&b, "logits", norm(&b, "norm", x), LLAMA_WIDTH, LLAMA_VOCABULARY, PPL_ACT_NONE);
    must(ppl_graph_input(b.g, "targets", &type, &targets));
    must(ppl_graph_apply(b.g, PPL_OP_CROSS_ENTROPY, "loss", (ppl_value[]){x, targets}, 2, &(ppl_attrs){0}, loss));
    must(ppl_graph_loss(b.g, loss[0]));
    return b.g;
}
