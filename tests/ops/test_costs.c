// test_costs.c - operations and bytes that operators say they take: what stages are balanced and simulated by.
#include "ops/rules.h"

typedef struct cost_case {
    rule_case c;
    double flops, bytes;
} cost_case;

#define CASE(op, in, acc, ...)                                                                                         \
    { op, in, {.i = {__VA_ARGS__}}, acc, NULL }

static const cost_case cases[] = {
    {CASE(PPL_OP_LINEAR, "f32 2,3; f32 4,3; f32 4", 0, 0), 8 * (2 * 3 + 1), 4 * (6 + 12 + 4 + 8)},
    {CASE(PPL_OP_LINEAR, "bf16 2,3; bf16 4,3", 0, PPL_ACT_RELU), 8 * (2 * 3 + 1), 2 * (6 + 12 + 8 + 8)},
    {CASE(PPL_OP_LINEAR_DX, "f32 5,4; f32 4,3", 0, 0), 2 * 5 * 3 * 4, 4 * (20 + 12 + 15)},
    {CASE(PPL_OP_LINEAR_DW, "f32 5,4; f32 5,3", 0, 0), 2 * 4 * 3 * 5, 4 * (20 + 15 + 12)},
    {CASE(PPL_OP_LINEAR_DW, "bf16 5,4; bf16 5,3", 1, 0), 2 * 4 * 3 * 5, 2 * (20 + 15) + 2 * 4 * 12},
    {CASE(PPL_OP_MATMUL, "f32 7,3,2; f32 7,3,5", 0, 1, 0), 2 * 7 * 2 * 5 * 3, 4 * (42 + 105 + 70)},
    {CASE(PPL_OP_ADD, "f32 2,3; f32 3", 0, 0), 6, 4 * (6 + 3 + 6)},
    {CASE(PPL_OP_EMBEDDING, "i32 2,3; f32 1000,8", 0, 0), 0, 4 * 6 + 2 * 4 * 48},
    {CASE(PPL_OP_EMBEDDING_DW, "i32 2,3; bf16 2,3,8", 1, 1000), 48, 4 * 6 + 2 * 48 + 2 * 4 * 48},
    {CASE(PPL_OP_ATTENTION, "f32 1,4,12", 0, 2, 1, 1), 4 * 2 * 10 * 3 + 14 * 2 * 10, 4 * (48 + 24 + 8)},
    {CASE(PPL_OP_ATTENTION, "f32 1,4,6; f32 1,4,3; f32 1,4,3", 0, 2, 1, 0), 4 * 2 * 16 * 3 + 14 * 2 * 16,
     4 * (24 + 12 + 12 + 24 + 8)},
    {CASE(PPL_OP_ATTENTION_GRAD, "f32 1,4,6; f32 1,4,6; f32 1,2,4; f32 1,4,12", 0, 2, 1, 1),
     10 * 2 * 10 * 3 + 16 * 2 * 10, 4 * (24 + 24 + 8 + 48 + 48)},
    {CASE(PPL_OP_RESHAPE, "f32 2,3", 0, 1, 6), 0, 0},
    {CASE(PPL_OP_SLICE, "f32 2,9", 0, 1, 0, 2), 0, 2 * 4 * 4},
    {CASE(PPL_OP_PAD, "f32 2,2", 0, 1, 0, 9), 0, 4 * (4 + 18)},
    {CASE(PPL_OP_REDUCE, "bf16 5,4", 1, 1), 20, 2 * 20 + 2 * 4 * 4},
    {CASE(PPL_OP_ACT, "f32 10", 0, PPL_ACT_RELU), 10, 80},
    {CASE(PPL_OP_ACT, "f32 10", 0, PPL_ACT_NONE), 0, 80},
    {CASE(PPL_OP_ACCUMULATE, "bf16 10", 1, 0), 10, 20 + 80},
};

static void test_costs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rule_answer a;
        ppl_cost cost;
        ask(&cases[i].c, &a);
        if (a.status != PPL_OK) fail_msg("%s", ppl_error());
        ppl_op_get(cases[i].c.op)->cost(&a.types, a.out, &cost);
        if (cost.flops != cases[i].flops || cost.bytes != cases[i].bytes)
            fail_msg("%s %s: %g flops and %g bytes, want %g and %g", ppl_op_name(cases[i].c.op), cases[i].c.in,
                     cost.flops, cost.bytes, cases[i].flops, cases[i].bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_costs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
