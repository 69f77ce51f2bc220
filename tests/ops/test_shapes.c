// test_shapes.c - every operator's shape rule: what it gives and what it refuses, in which words; and that no input of any
// kind gets past a rule into something that is no type.
#include "ops/rules.h"
#include "ops/rule.h"
#include "base/random.h"
#include <math.h>

#define I(...)                                                                                                         \
    {                                                                                                                  \
        .i = { __VA_ARGS__ }                                                                                           \
    }
#define F(x)                                                                                                           \
    {                                                                                                                  \
        .f = { x }                                                                                                     \
    }
#define NO                                                                                                             \
    {                                                                                                                  \
        .i = { 0 }                                                                                                     \
    }

static const rule_case good[] = {
    {PPL_OP_LINEAR, "f32 2,3; f32 4,3", NO, 0, "f32 (2, 4)"},
    {PPL_OP_LINEAR, "bf16 5,2,3; bf16 4,3; bf16 4", I(PPL_ACT_SILU), 0, "bf16 (5, 2, 4); bf16 (5, 2, 4)"},
    {PPL_OP_LINEAR, "f64 3; f64 1,3", NO, 0, "f64 (1)"},
    {PPL_OP_MATMUL, "f32 2,3; f32 3,5", NO, 0, "f32 (2, 5)"},
    {PPL_OP_MATMUL, "f32 7,3,2; f32 7,3,5", I(1, 0), 0, "f32 (7, 2, 5)"},
    {PPL_OP_MATMUL, "f32 7,2,3; f32 7,5,3", I(0, 1), 0, "f32 (7, 2, 5)"},
    {PPL_OP_MATMUL, "bf16 6,7,3,2; bf16 6,7,5,3", I(1, 1), 0, "bf16 (6, 7, 2, 5)"},
    {PPL_OP_ADD, "f32 2,3; f32 2,3", NO, 0, "f32 (2, 3)"},
    {PPL_OP_ADD, "bf16 2,3,4; bf16 3,4", NO, 0, "bf16 (2, 3, 4)"},
    {PPL_OP_MUL, "f32 2,3; f32 -", NO, 0, "f32 (2, 3)"},
    {PPL_OP_MUL, "f32 -; f32 -", NO, 0, "f32 ()"},
    {PPL_OP_SCALE, "bf16 2,3", F(-2.5), 0, "bf16 (2, 3)"},
    {PPL_OP_EMBEDDING, "i32 2,3; bf16 100,8", NO, 0, "bf16 (2, 3, 8)"},
    {PPL_OP_EMBEDDING, "i32 -; f32 100,8", NO, 0, "f32 (8)"},
    {PPL_OP_LAYERNORM, "bf16 2,3,8; bf16 8; bf16 8", F(1e-5), 0, "bf16 (2, 3, 8); f32 (2, 3, 2)"},
    {PPL_OP_LAYERNORM, "f64 8; f64 8; f64 8", F(0), 0, "f64 (8); f64 (2)"},
    {PPL_OP_RMSNORM, "bf16 2,3,8; bf16 8", F(1e-6), 0, "bf16 (2, 3, 8); f32 (2, 3)"},
    {PPL_OP_ROPE, "f32 2,3,24", {.i = {4, 5, 1}, .f = {10000}}, 0, "f32 (2, 3, 24)"},
    {PPL_OP_ACT, "f32 -", I(PPL_ACT_GELU_ERF), 0, "f32 ()"},
    {PPL_OP_SOFTMAX, "f32 2,3", NO, 0, "f32 (2, 3)"},
    {PPL_OP_ATTENTION, "bf16 2,5,32", I(4, 2, 1), 0, "bf16 (2, 5, 16); f32 (2, 4, 5)"},
    {PPL_OP_ATTENTION, "f32 2,5,16; f32 2,5,8; f32 2,5,8", I(4, 2, 0), 0, "f32 (2, 5, 16); f32 (2, 4, 5)"},
    {PPL_OP_DROPOUT, "f32 2,3", F(0.1), 0, "f32 (2, 3)"},
    {PPL_OP_RESHAPE, "i32 2,3", I(3, 3, 1, 2), 0, "i32 (3, 1, 2)"},
    {PPL_OP_RESHAPE, "f32 1,1", I(0), 0, "f32 ()"},
    {PPL_OP_TRANSPOSE, "f32 2,3,4", I(2, 0), 0, "f32 (4, 3, 2)"},
    {PPL_OP_SLICE, "f32 2,9", I(1, 4, 5), 0, "f32 (2, 5)"},
    {PPL_OP_CONCAT, "f32 2,9,4; f32 2,1,4; f32 2,5,4", I(1), 0, "f32 (2, 15, 4)"},
    {PPL_OP_CONCAT, "i32 3", I(0), 0, "i32 (3)"},
    {PPL_OP_CROSS_ENTROPY, "bf16 2,3,50; i32 2,3", NO, 0, "f32 (); f32 (2, 3)"},
    {PPL_OP_CROSS_ENTROPY, "f64 50; i32 -", NO, 0, "f64 (); f64 ()"},
    {PPL_OP_MSE, "bf16 2,3; bf16 2,3", NO, 0, "f32 ()"},
    {PPL_OP_LINEAR_DX, "f32 5,2,4; f32 4,3", NO, 0, "f32 (5, 2, 3)"},
    {PPL_OP_LINEAR_DW, "bf16 5,2,4; bf16 5,2,3", NO, 0, "bf16 (4, 3)"},
    {PPL_OP_LINEAR_DW, "bf16 5,2,4; bf16 5,2,3", NO, 1, "f32 (4, 3)"},
    {PPL_OP_REDUCE, "bf16 5,2,4", I(1), 1, "f32 (4)"},
    {PPL_OP_REDUCE, "bf16 5,2,4", I(0), 0, "bf16 ()"},
    {PPL_OP_ACT_GRAD, "f32 2; f32 2", I(1), 0, "f32 (2)"},
    {PPL_OP_EMBEDDING_DW, "i32 2,3; bf16 2,3,8", I(100), 1, "f32 (100, 8)"},
    {PPL_OP_LAYERNORM_DX, "bf16 3,8; bf16 3,8; bf16 8; f32 3,2", NO, 0, "bf16 (3, 8)"},
    {PPL_OP_LAYERNORM_DW, "bf16 3,8; bf16 3,8; f32 3,2", NO, 1, "f32 (8); f32 (8)"},
    {PPL_OP_RMSNORM_DX, "bf16 3,8; bf16 3,8; bf16 8; f32 3", NO, 0, "bf16 (3, 8)"},
    {PPL_OP_RMSNORM_DW, "bf16 3,8; bf16 3,8; f32 3", NO, 0, "bf16 (8)"},
    {PPL_OP_SOFTMAX_GRAD, "f32 3,8; f32 3,8", NO, 0, "f32 (3, 8)"},
    {PPL_OP_ATTENTION_GRAD, "bf16 2,5,16; bf16 2,5,16; f32 2,4,5; bf16 2,5,32", I(4, 2, 1), 0, "bf16 (2, 5, 32)"},
    {PPL_OP_ATTENTION_GRAD, "f32 2,5,16; f32 2,5,16; f32 2,4,5; f32 2,5,16; f32 2,5,8; f32 2,5,8", I(4, 2, 0), 0,
     "f32 (2, 5, 16); f32 (2, 5, 8); f32 (2, 5, 8)"},
    {PPL_OP_PAD, "f32 2,5", I(1, 4, 9), 0, "f32 (2, 9)"},
    {PPL_OP_CROSS_ENTROPY_GRAD, "f32 -; bf16 2,3,50; i32 2,3; f32 2,3", NO, 0, "bf16 (2, 3, 50)"},
    {PPL_OP_MSE_GRAD, "f32 -; bf16 2,3; bf16 2,3", NO, 0, "bf16 (2, 3)"},
    {PPL_OP_ACCUMULATE, "bf16 2,3", NO, 1, "f32 (2, 3)"},
};

static const rule_case bad[] = {
    {PPL_OP_LINEAR, "f32 2,3", NO, 0, "linear: it has 1 input, want 2..3"},
    {PPL_OP_LINEAR, "f32 2,3; f32 4,5", NO, 0, "linear: w is f32 (4, 5), want f32 (any, 3) beside x f32 (2, 3)"},
    {PPL_OP_LINEAR, "f32 2,3; bf16 4,3", NO, 0, "linear: w is bf16 (4, 3), want f32 (any, 3) beside x f32 (2, 3)"},
    {PPL_OP_LINEAR, "f32 2,3; f32 4,3; f32 3", NO, 0, "linear: b is f32 (3), want f32 (4) beside x f32 (2, 3)"},
    {PPL_OP_LINEAR, "f32 2,3; f32 4,3", I(PPL_ACTS), 0, "linear: i0 (act) is 5, want 0..4"},
    {PPL_OP_LINEAR, "f32 -; f32 4,3", NO, 0, "linear: x is f32 (), want at least 1 dim"},
    {PPL_OP_LINEAR, "i32 2,3; i32 4,3", NO, 0, "linear: x is i32 (2, 3), want a floating dtype"},
    {PPL_OP_LINEAR, "f32 0,3; f32 4,3", NO, 0, "linear: input 0: dim 0 is 0, want at least 1"},
    {PPL_OP_LINEAR, "f32 1099511627776,1; f32 2,1", NO, 0,
     "linear: the result: it has more than 2^40 elements, want that at most"},
    {PPL_OP_LINEAR, "f32 4194304,4194304; f32 2,1", NO, 0,
     "linear: input 0: it has more than 2^40 elements, want that at most"},
    {PPL_OP_MATMUL, "f32 2,3; f32 4,5", NO, 0, "matmul: b is f32 (4, 5), want f32 (3, any) beside a f32 (2, 3)"},
    {PPL_OP_MATMUL, "f32 7,2,3; f32 8,3,5", NO, 0,
     "matmul: b is f32 (8, 3, 5), want f32 (7, 3, any) beside a f32 (7, 2, 3)"},
    {PPL_OP_MATMUL, "f32 3; f32 3,5", NO, 0, "matmul: a is f32 (3), want at least 2 dims"},
    {PPL_OP_MATMUL, "f32 2,3; f32 3,5", I(2, 0), 0, "matmul: i0 (a transposed) is 2, want 0..1"},
    {PPL_OP_ADD, "f32 3; f32 2,3", NO, 0,
     "add: y is f32 (2, 3), want f32 of x's shape or a suffix of it beside x f32 (3)"},
    {PPL_OP_ADD, "f32 2,3; f32 2", NO, 0,
     "add: y is f32 (2), want f32 of x's shape or a suffix of it beside x f32 (2, 3)"},
    {PPL_OP_MUL, "f32 2,3; bf16 2,3", NO, 0,
     "mul: y is bf16 (2, 3), want f32 of x's shape or a suffix of it beside x f32 (2, 3)"},
    {PPL_OP_SCALE, "f32 2,3", F(INFINITY), 0, "scale: f0 (factor) is inf, want a finite number"},
    {PPL_OP_SCALE, "i32 2,3", F(2), 0, "scale: x is i32 (2, 3), want a floating dtype"},
    {PPL_OP_EMBEDDING, "f32 2,3; f32 100,8", NO, 0, "embedding: ids is f32 (2, 3), want i32 of at most 5 dims"},
    {PPL_OP_EMBEDDING, "i32 1,1,1,1,1,1; f32 100,8", NO, 0,
     "embedding: ids is i32 (1, 1, 1, 1, 1, 1), want i32 of at most 5 dims"},
    {PPL_OP_EMBEDDING, "i32 2,3; f32 8", NO, 0, "embedding: w is f32 (8), want f32 (any, any) beside ids i32 (2, 3)"},
    {PPL_OP_EMBEDDING, "i32 2,3; i32 8,8", NO, 0,
     "embedding: w is i32 (8, 8), want a floating dtype beside ids i32 (2, 3)"},
    {PPL_OP_LAYERNORM, "f32 2,3; f32 2; f32 3", F(1e-5), 0,
     "layernorm: w is f32 (2), want f32 (3) beside x f32 (2, 3)"},
    {PPL_OP_LAYERNORM, "f32 2,3; f32 3; f32 3", F(-1), 0,
     "layernorm: f0 (epsilon) is -1, want a finite number, 0 or more"},
    {PPL_OP_LAYERNORM, "f32 2,3; f32 3", F(1e-5), 0, "layernorm: it has 2 inputs, want 3"},
    {PPL_OP_RMSNORM, "f32 2,3; f32 2", F(1e-5), 0, "rmsnorm: w is f32 (2), want f32 (3) beside x f32 (2, 3)"},
    {PPL_OP_RMSNORM, "f32 2,3; f32 3", F(NAN), 0, "rmsnorm: f0 (epsilon) is nan, want a finite number, 0 or more"},
    {PPL_OP_ROPE, "f32 2,24", {.i = {4, 5, 1}, .f = {10000}}, 0, "rope: x is f32 (2, 24), want 3 dims: (B, T, H D)"},
    {PPL_OP_ROPE,
     "f32 2,3,24",
     {.i = {3, 5, 1}, .f = {10000}},
     0,
     "rope: x is f32 (2, 3, 24), want a last dim that is a multiple of i0 (D) = 3, and D even"},
    {PPL_OP_ROPE, "f32 2,3,24", {.i = {4, 7, 1}, .f = {10000}}, 0, "rope: i1 (rotated heads) is 7, want 0..6"},
    {PPL_OP_ROPE, "f32 2,3,24", {.i = {4, 6, 2}, .f = {10000}}, 0, "rope: i2 (inverse) is 2, want 0..1"},
    {PPL_OP_ROPE, "f32 2,3,24", {.i = {4, 6, 0}, .f = {0}}, 0, "rope: f0 (theta) is 0, want a finite number above 0"},
    {PPL_OP_ACT, "f32 2", I(-1), 0, "act: i0 (act) is -1, want 0..4"},
    {PPL_OP_SOFTMAX, "f32 -", NO, 0, "softmax: x is f32 (), want at least 1 dim"},
    {PPL_OP_ATTENTION, "f32 2,5,32", I(4, 3, 1), 0, "attention: i1 (K) is 3, want a divisor of i0 (H) = 4"},
    {PPL_OP_ATTENTION, "f32 2,5,31", I(4, 2, 1), 0,
     "attention: qkv is f32 (2, 5, 31), want a last dim that is a multiple of H + 2 K = 8"},
    {PPL_OP_ATTENTION, "f32 2,5,32", I(0, 1, 1), 0, "attention: i0 (H) is 0, want 1..2147483647"},
    {PPL_OP_ATTENTION, "f32 2,5,32", I(4, 8, 1), 0, "attention: i1 (K) is 8, want 1..4"},
    {PPL_OP_ATTENTION, "f32 2,5,16; f32 2,5,8", I(4, 2, 1), 0,
     "attention: it has 2 inputs, want 1 (qkv) or 3 (q, k, v)"},
    {PPL_OP_ATTENTION, "f32 2,5,16; f32 2,5,16; f32 2,5,8", I(4, 2, 1), 0,
     "attention: k is f32 (2, 5, 16), want f32 (2, 5, 8) beside q f32 (2, 5, 16)"},
    {PPL_OP_ATTENTION, "f32 2,5,16; f32 2,6,8; f32 2,6,8", I(4, 2, 1), 0,
     "attention: k is f32 (2, 6, 8), want f32 (2, 5, 8) beside q f32 (2, 5, 16)"},
    {PPL_OP_ATTENTION, "f32 10,32", I(4, 2, 1), 0, "attention: qkv is f32 (10, 32), want (B, T, (H + 2 K) D)"},
    {PPL_OP_ATTENTION,
     "f32 2,5,32",
     {.i = {4, 2, 1}, .f = {-1}},
     0,
     "attention: f0 (scale) is -1, want a finite number, 0 or more"},
    {PPL_OP_DROPOUT, "f32 2", F(1), 0, "dropout: f0 (probability) is 1, want 0 <= p < 1"},
    {PPL_OP_DROPOUT, "f32 -", F(0.5), 0, "dropout: x is f32 (), want at least 1 dim"},
    {PPL_OP_RESHAPE, "f32 2,3", I(1, 5), 0, "reshape: x is f32 (2, 3), want as many elements as the result f32 (5)"},
    {PPL_OP_RESHAPE, "f32 2,3", I(7), 0, "reshape: i0 (ndim) is 7, want 0..6"},
    {PPL_OP_RESHAPE, "f32 2,3", I(2, -2, -3), 0, "reshape: the result: dim 0 is -2, want at least 1"},
    {PPL_OP_TRANSPOSE, "f32 2,3", I(0, 2), 0, "transpose: i1 (dim) is 2, want 0..1"},
    {PPL_OP_TRANSPOSE, "f32 2,3", I(1, 1), 0, "transpose: i0 and i1 are both 1, want two dims"},
    {PPL_OP_TRANSPOSE, "f32 3", I(0, 0), 0, "transpose: x is f32 (3), want at least 2 dims"},
    {PPL_OP_SLICE, "f32 2,9", I(1, 5, 5), 0, "slice: i2 (length) is 5, want 1..4"},
    {PPL_OP_SLICE, "f32 2,9", I(1, -1, 5), 0, "slice: i1 (first) is -1, want 0..8"},
    {PPL_OP_SLICE, "f32 2,9", I(2, 0, 1), 0, "slice: i0 (dim) is 2, want 0..1"},
    {PPL_OP_SLICE, "f32 -", I(0, 0, 1), 0, "slice: x is f32 (), want at least 1 dim"},
    {PPL_OP_CONCAT, "f32 2,9; f32 3,9", I(1), 0,
     "concat: input 1 is f32 (3, 9), want f32 (2, any) beside input 0 f32 (2, 9)"},
    {PPL_OP_CONCAT, "f32 2,9; bf16 2,9", I(1), 0,
     "concat: input 1 is bf16 (2, 9), want f32 (2, any) beside input 0 f32 (2, 9)"},
    {PPL_OP_CONCAT, "f32 -; f32 -", I(0), 0, "concat: input 0 is f32 (), want at least 1 dim"},
    {PPL_OP_CONCAT, "", I(0), 0, "concat: it has 0 inputs, want 1..8"},
    {PPL_OP_CROSS_ENTROPY, "f32 2,3,50; f32 2,3", NO, 0,
     "cross_entropy: targets is f32 (2, 3), want i32 (2, 3) beside logits f32 (2, 3, 50)"},
    {PPL_OP_CROSS_ENTROPY, "f32 2,3,50; i32 6", NO, 0,
     "cross_entropy: targets is i32 (6), want i32 (2, 3) beside logits f32 (2, 3, 50)"},
    {PPL_OP_MSE, "f32 2,3; f32 3", NO, 0, "mse: target is f32 (3), want f32 (2, 3) beside x f32 (2, 3)"},
    {PPL_OP_LINEAR_DX, "f32 5,4; f32 3,4", NO, 0, "linear_dx: w is f32 (3, 4), want f32 (4, any) beside dy f32 (5, 4)"},
    {PPL_OP_LINEAR_DW, "f32 5,4; f32 6,3", NO, 0, "linear_dw: x is f32 (6, 3), want f32 (5, any) beside dy f32 (5, 4)"},
    {PPL_OP_REDUCE, "f32 5,4", I(3), 0, "reduce: i0 (dims that stay) is 3, want 0..2"},
    {PPL_OP_ACT_GRAD, "f32 5,4; f32 4", I(1), 0, "act_grad: x is f32 (4), want f32 (5, 4) beside dy f32 (5, 4)"},
    {PPL_OP_EMBEDDING_DW, "i32 2,3; f32 2,4,8", I(100), 0,
     "embedding_dw: dy is f32 (2, 4, 8), want f32 (2, 3, any) beside ids i32 (2, 3)"},
    {PPL_OP_EMBEDDING_DW, "i32 2,3; f32 2,3,8", I(0), 0, "embedding_dw: i0 (V) is 0, want 1..1099511627776"},
    {PPL_OP_EMBEDDING_DW, "i32 2,3; f32 2,3,8", I(1LL << 39), 0,
     "embedding_dw: the result: it has more than 2^40 elements, want that at most"},
    {PPL_OP_LAYERNORM_DX, "bf16 3,8; bf16 3,8; bf16 8; bf16 3,2", NO, 0,
     "layernorm_dx: stats is bf16 (3, 2), want f32 (3, 2) beside dy bf16 (3, 8)"},
    {PPL_OP_LAYERNORM_DW, "f32 3,8; f32 3,8; f32 3", NO, 0,
     "layernorm_dw: stats is f32 (3), want f32 (3, 2) beside dy f32 (3, 8)"},
    {PPL_OP_RMSNORM_DX, "f32 3,8; f32 3,8; f32 8; f32 3,2", NO, 0,
     "rmsnorm_dx: stats is f32 (3, 2), want f32 (3) beside dy f32 (3, 8)"},
    {PPL_OP_RMSNORM_DW, "f32 3,8; f32 8; f32 3", NO, 0,
     "rmsnorm_dw: x is f32 (8), want f32 (3, 8) beside dy f32 (3, 8)"},
    {PPL_OP_SOFTMAX_GRAD, "f32 3,8; f32 8", NO, 0, "softmax_grad: y is f32 (8), want f32 (3, 8) beside dy f32 (3, 8)"},
    {PPL_OP_ATTENTION_GRAD, "f32 2,5,16; f32 2,5,16; f32 2,5,4; f32 2,5,32", I(4, 2, 1), 0,
     "attention_grad: lse is f32 (2, 5, 4), want f32 (2, 4, 5) beside dy f32 (2, 5, 16)"},
    {PPL_OP_ATTENTION_GRAD, "f32 2,5,16; f32 2,5,16; f32 2,4,5; f32 2,5,16; f32 2,5,8", I(4, 2, 1), 0,
     "attention_grad: it has 5 inputs, want 4 (dy, o, lse, qkv) or 6 (dy, o, lse, q, k, v)"},
    {PPL_OP_PAD, "f32 2,5", I(1, 5, 9), 0, "pad: i1 (first) is 5, want 0..4"},
    {PPL_OP_PAD, "f32 2,5", I(1, 0, 4), 0, "pad: i2 (length) is 4, want 5..1099511627776"},
    {PPL_OP_CROSS_ENTROPY_GRAD, "bf16 -; bf16 2,50; i32 2; f32 2", NO, 0,
     "cross_entropy_grad: seed is bf16 (), want f32 ()"},
    {PPL_OP_MSE_GRAD, "f32 1; f32 2; f32 2", NO, 0, "mse_grad: seed is f32 (1), want f32 ()"},
    {PPL_OP_ACCUMULATE, "i32 2", NO, 0, "accumulate: x is i32 (2), want a floating dtype"},
};

static void check_table(const rule_case *table, size_t n, bool fails) {
    int32_t lines[PPL_OPS] = {0};
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        rule_answer a;
        char text[512];
        ask(&table[i], &a);
        answer_text(&a, text, sizeof text);
        lines[table[i].op]++;
        if ((a.status != PPL_OK) == fails && strcmp(text, table[i].want) == 0) continue;
        print_error("%s %s: is \"%s\", want \"%s\"\n", ppl_op_name(table[i].op), table[i].in, text, table[i].want);
        wrong++;
    }
    for (int32_t op = 0; op < PPL_OPS; op++)
        if (!lines[op]) fail_msg("%s has no case", ppl_op_name(op));
    assert_int_equal(wrong, 0);
}

static void test_good(void **state) {
    (void)state;
    check_table(good, sizeof good / sizeof *good, false);
}

static void test_bad(void **state) {
    (void)state;
    check_table(bad, sizeof bad / sizeof *bad, true);
}

static void test_names(void **state) {
    (void)state;
    for (int32_t op = 0; op < PPL_OPS; op++) {
        const ppl_op_def *def = ppl_op_get(op);
        assert_int_equal(ppl_op_find(ppl_op_name(op)), op);
        assert_true(def->min_inputs >= 1 && def->min_inputs <= def->max_inputs && def->max_inputs <= PPL_MAX_INPUTS);
        assert_int_equal(!def->gradient, !!(def->flags & PPL_OP_BACKWARD));
    }
    assert_string_equal(ppl_op_name(PPL_OP_LINEAR), "linear");
    assert_string_equal(ppl_op_name(PPL_OP_ACCUMULATE), "accumulate");
    assert_string_equal(ppl_op_name(-1), "?");
    assert_string_equal(ppl_op_name(PPL_OPS), "?");
    assert_int_equal(ppl_op_find("conv2d"), -1);
    assert_int_equal(ppl_op_find(NULL), -1);
}

// Whatever a rule is asked, it answers with types that are types, with an error that names the operator, or not at all.
static void test_any_input(void **state) {
    (void)state;
    static const int64_t odd[] = {-1, 0, 1, 2, 2, 3, 4, 6, 8, INT64_MAX, INT64_MIN, (int64_t)1 << 40, 1 << 20};
    static const double numbers[] = {0, 1, -1, 0.5, NAN, INFINITY, 1e300};
    int64_t accepted = 0;
    for (uint64_t round = 0; round < 60000; round++) {
        uint32_t r[64];
        for (uint64_t i = 0; i < 16; i++) ppl_philox(7, round, i, r + 4 * i);
        int32_t op = (int32_t)(r[0] % PPL_OPS), at = 1;
        bool tame = r[at++] & 1; // dims that often fit
        ppl_type in[PPL_MAX_INPUTS], out[PPL_MAX_OUTPUTS];
        ppl_attrs attrs = {0};
        ppl_op_types t = {.inputs = (int32_t)(r[at++] % (PPL_MAX_INPUTS + 1)),
                          .attrs = &attrs,
                          .acc_dtype = PPL_F32,
                          .accumulates = r[at++] & 1};
        int32_t shared = (int32_t)(r[at++] % 4);
        for (int32_t k = 0; k < t.inputs; k++) {
            in[k] = (ppl_type){.dtype = (int32_t)(r[at++] % 5) - (tame ? 0 : 1), .ndim = (int32_t)(r[at] % 9) - 1};
            if (tame) in[k].dtype = PPL_F32, in[k].ndim = shared;
            for (int32_t i = 0; i < PPL_MAX_DIMS; i++)
                in[k].dim[i] = tame ? 2 : odd[(r[at] >> (4 * i)) % (sizeof odd / sizeof *odd)];
            at++;
            t.in[k] = &in[k];
        }
        for (int32_t i = 0; i < 8; i++) attrs.i[i] = odd[r[at++] % (tame ? 9 : sizeof odd / sizeof *odd)];
        attrs.f[0] = numbers[r[at++] % (sizeof numbers / sizeof *numbers)];
        int32_t outputs = -1;
        const ppl_op_def *def = ppl_op_get(op);
        if (def->infer(&t, out, &outputs) != PPL_OK) {
            assert_int_equal(strncmp(ppl_error(), def->name, strlen(def->name)), 0);
            continue;
        }
        accepted++;
        assert_in_range(outputs, 1, PPL_MAX_OUTPUTS);
        for (int32_t k = 0; k < outputs; k++) assert_int_equal(ppl_rule_type("out", &out[k]), PPL_OK);
        ppl_cost cost = {-1, -1};
        def->cost(&t, out, &cost);
        assert_true(cost.flops >= 0 && cost.bytes >= 0 && isfinite(cost.flops) && isfinite(cost.bytes));
    }
    assert_true(accepted > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
                                       cmocka_unit_test(test_names), cmocka_unit_test(test_any_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
