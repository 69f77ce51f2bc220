// llama.h - a small Llama traced in C: rotary positions, grouped queries from three inputs, RMS norms, a gated unit.
#ifndef PPL_TESTS_SUPPORT_LLAMA_H
#define PPL_TESTS_SUPPORT_LLAMA_H
#include "ppl.h"

enum {
    LLAMA_CONTEXT = 12,
    LLAMA_WIDTH = 32,
    LLAMA_HEADS = 4,
    LLAMA_KV_HEADS = 2,
    LLAMA_VOCABULARY = 67,
    LLAMA_BLOCKS = 2
};

// Inputs "tokens" and "targets" (samples, LLAMA_CONTEXT).
ppl_graph *test_llama(int32_t dtype, int32_t samples);

#endif
