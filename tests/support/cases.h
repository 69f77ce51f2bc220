// cases.h - one operator with inputs of given shapes as a small graph with a loss: what finite differences and the
// comparison of devices run over. A test has a table of these; an operator without a line in it fails the test.
#ifndef PPL_TESTS_CASES_H
#define PPL_TESTS_CASES_H
#include "support/interpret.h"

typedef enum ppl_case_kind {
    CASE_NONE = 0,
    CASE_PARAM,   // a parameter as it is
    CASE_ACTIVE,  // data + parameter: depends on data, and a gradient is wanted
    CASE_DATA,    // data alone
    CASE_TARGET,  // data with NaN here and there
    CASE_IDS,     // i32 in 0..limit - 1
    CASE_CLASSES, // i32 in -1..limit - 1
    CASE_AGAIN    // input 0 once more
} ppl_case_kind;

typedef struct ppl_case_input {
    int32_t kind; // ppl_case_kind
    int32_t ndim;
    int64_t dim[4];
} ppl_case_input;

typedef struct ppl_case {
    int32_t op;
    ppl_case_input in[4]; // up to the first CASE_NONE
    ppl_attrs attrs;
    int32_t limit;   // of CASE_IDS and CASE_CLASSES
    double gain;     // what data and parameters are multiplied by; 0: 1
    bool evaluating; // not training
    int32_t outputs; // what the loss is made of: 0 the first output, 1 the second, 2 their sum
} ppl_case;

#define CASE_INPUT(k, ...)                                                                                             \
    {                                                                                                                  \
        .kind = (k), .ndim = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = { __VA_ARGS__ }                \
    }
#define W(...) CASE_INPUT(CASE_PARAM, __VA_ARGS__)
#define X(...) CASE_INPUT(CASE_ACTIVE, __VA_ARGS__)
#define D(...) CASE_INPUT(CASE_DATA, __VA_ARGS__)
#define T(...) CASE_INPUT(CASE_TARGET, __VA_ARGS__)
#define I(...) CASE_INPUT(CASE_IDS, __VA_ARGS__)
#define C(...) CASE_INPUT(CASE_CLASSES, __VA_ARGS__)
#define SCALAR                                                                                                         \
    { .kind = CASE_PARAM, .ndim = 0 }
#define AGAIN                                                                                                          \
    { .kind = CASE_AGAIN }

// "linear (2, 3, 5) (4, 5) i 1 0 0": returns text
const char *ppl_case_print(const ppl_case *c, char text[256]);
// Traces inputs, the operator and, unless it is a loss, the MSE of its first output against a target; differentiates.
ppl_status ppl_case_build(const ppl_case *c, int32_t dtype, ppl_graph **out);
// Fills parameters and data, the same for the same seed.
void ppl_case_fill(const ppl_case *c, ppl_interpret *t, uint64_t seed);

#endif
