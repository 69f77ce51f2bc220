// gpt.c - see gpt.h.
#include "support/gpt.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    ppl_graph *g;
    const char *layer;
    double dropout;
} builder;

static void must(ppl_status st) {
    if (st == PPL_OK) return;
    fprintf(stderr, "gpt: %s\n", ppl_error());
    abort();
}

static const char *name_of(const builder *b, const char *name, char text[64]) {
    snprintf(text, 64, "%s.%s", b->layer, name);
    return text;
}

// A parameter (rows, columns), or a vector where columns is 0.
static ppl_value param(const builder *b, const char *name, int64_t rows, int64_t columns, int32_t init) {
    char text[64];
    ppl_value v;
    int64_t dim[2] = {rows, columns};
    ppl_param_spec spec = {.init = init, .decay = columns > 0, .a = 0.08};
    must(ppl_graph_param(b->g, name_of(b, name, text), columns ? 2 : 1, dim, &spec, &v));
    return v;
}

static ppl_value apply(const builder *b, int32_t op, const char *name, const ppl_value *in, int32_t inputs,
                       ppl_attrs attrs) {
    char text[64];
    ppl_value out[PPL_MAX_OUTPUTS];
    must(ppl_graph_apply(b->g, op, name_of(b, name, text), in, inputs, &attrs, out));
    return out[0];
}

static ppl_value add(const builder *b, const char *name, ppl_value x, ppl_value y) {
    return apply(b, PPL_OP_ADD, name, (ppl_value[]){x, y}, 2, (ppl_attrs){0});
}

static ppl_value norm(const builder *b, const char *name, ppl_value x) {
    char w[32], bias[32];
    snprintf(w, sizeof w, "%s.w", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    ppl_value in[3] = {x, param(b, w, GPT_WIDTH, 0, PPL_INIT_ONES), param(b, bias, GPT_WIDTH, 0, PPL_INIT_ZEROS)};
    return apply(b, PPL_OP_LAYERNORM, name, in, 3, (ppl_attrs){.f = {1e-5}});
}

static ppl_value linear(const builder *b, const char *name, ppl_value x, int64_t from, int64_t to, int32_t act) {
    char w[32], bias[32];
    snprintf(w, sizeof w, "%s.w", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    ppl_value in[3] = {x, param(b, w, to, from, PPL_INIT_NORMAL), param(b, bias, to, 0, PPL_INIT_ZEROS)};
    return apply(b, PPL_OP_LINEAR, name, in, 3, (ppl_attrs){.i = {act}});
}

static ppl_value dropout(const builder *b, const char *name, ppl_value x) {
    if (b->dropout == 0) return x;
    return apply(b, PPL_OP_DROPOUT, name, &x, 1, (ppl_attrs){.f = {b->dropout}});
}

static void begin(builder *b, const char *layer, double weight) {
    b->layer = layer;
    must(ppl_graph_layer(b->g, layer, weight));
}

static ppl_value block(const builder *b, ppl_value x) {
    ppl_value qkv = linear(b, "qkv", norm(b, "ln1", x), GPT_WIDTH, 3 * GPT_WIDTH, PPL_ACT_NONE);
    ppl_value y = apply(b, PPL_OP_ATTENTION, "attention", &qkv, 1, (ppl_attrs){.i = {GPT_HEADS, GPT_HEADS, 1}});
    y = linear(b, "proj", y, GPT_WIDTH, GPT_WIDTH, PPL_ACT_NONE);
    x = add(b, "add1", x, dropout(b, "drop1", y));
    y = linear(b, "up", norm(b, "ln2", x), GPT_WIDTH, 2 * GPT_WIDTH, PPL_ACT_GELU_TANH);
    y = linear(b, "down", y, 2 * GPT_WIDTH, GPT_WIDTH, PPL_ACT_NONE);
    return add(b, "add2", x, dropout(b, "drop2", y));
}

static ppl_graph *gpt(int32_t dtype, int32_t samples, double p, bool tied) {
    builder b = {.dropout = p};
    ppl_type type = {.dtype = PPL_I32, .ndim = 2, .dim = {samples, GPT_CONTEXT, 1, 1, 1, 1}};
    ppl_value tokens, targets, loss[2];
    must(ppl_graph_open(dtype, &b.g));
    begin(&b, "embed", 0);
    must(ppl_graph_input(b.g, "tokens", &type, &tokens));
    ppl_value wte = param(&b, "wte", GPT_VOCABULARY, GPT_WIDTH, PPL_INIT_NORMAL);
    ppl_value wpe = param(&b, "wpe", GPT_CONTEXT, GPT_WIDTH, PPL_INIT_NORMAL);
    ppl_value x = apply(&b, PPL_OP_EMBEDDING, "tok", (ppl_value[]){tokens, wte}, 2, (ppl_attrs){0});
    x = dropout(&b, "drop", add(&b, "pos", x, wpe));
    ppl_value skip = x;
    static _Thread_local char names[GPT_BLOCKS][16];
    for (int32_t i = 0; i < GPT_BLOCKS; i++) {
        snprintf(names[i], sizeof names[i], "block%d", i);
        begin(&b, names[i], 1);
        if (i == 5) x = add(&b, "skip", x, skip);
        x = block(&b, x);
    }
    begin(&b, "head", 0);
    x = norm(&b, "ln", x);
    ppl_value w = tied ? wte : param(&b, "w", GPT_VOCABULARY, GPT_WIDTH, PPL_INIT_NORMAL);
    x = apply(&b, PPL_OP_LINEAR, "logits", (ppl_value[]){x, w}, 2, (ppl_attrs){0});
    int64_t rows = (int64_t)samples * GPT_CONTEXT;
    x = apply(&b, PPL_OP_RESHAPE, "rows", &x, 1, (ppl_attrs){.i = {2, rows, GPT_VOCABULARY}});
    must(ppl_graph_input(b.g, "targets", &type, &targets));
    targets = apply(&b, PPL_OP_RESHAPE, "target_rows", &targets, 1, (ppl_attrs){.i = {1, rows}});
    must(ppl_graph_apply(b.g, PPL_OP_CROSS_ENTROPY, "loss", (ppl_value[]){x, targets}, 2, &(ppl_attrs){0}, loss));
    must(ppl_graph_loss(b.g, loss[0]));
    return b.g;
}

ppl_graph *test_gpt(int32_t dtype, int32_t samples, double p) {
    return gpt(dtype, samples, p, true);
}

ppl_graph *test_gpt_untied(int32_t dtype, int32_t samples, double p) {
    return gpt(dtype, samples, p, false);
}
