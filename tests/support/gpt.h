// gpt.h - a small GPT traced in C, with everything that makes cutting hard: tied embeddings, a skip over several stages,
// dropout, packed attention.
#ifndef PPL_TESTS_SUPPORT_GPT_H
#define PPL_TESTS_SUPPORT_GPT_H
#include "ppl.h"

enum {
    GPT_CONTEXT = 8,
    GPT_WIDTH = 16,
    GPT_HEADS = 2,
    GPT_VOCABULARY = 256,
    GPT_BLOCKS = 8,
    GPT_LAYERS = GPT_BLOCKS + 2
};

// Inputs "tokens" and "targets" (samples, GPT_CONTEXT); layers "embed", "block0" .. "block7", "head". The embedding's
// output is added again before block 5.
ppl_graph *test_gpt(int32_t dtype, int32_t samples, double dropout);
ppl_graph *test_gpt_untied(int32_t dtype, int32_t samples, double dropout); // the head has weights of its own

#endif
