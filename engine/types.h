/* types.h - the part of the public header that kernels need: status, types of values, operators. It changes seldom, and
 * ppl.h includes it; FFI-clean as that is. */
#ifndef PPL_TYPES_H
#define PPL_TYPES_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

enum {
    PPL_MAX_DIMS = 6,
    PPL_MAX_INPUTS = 8, /* of one operator */
    PPL_MAX_OUTPUTS = 4,
    PPL_NAME_BYTES = 96 /* the longest name of a value, layer or parameter, with its ending zero */
};

typedef enum ppl_status {
    PPL_OK = 0,
    PPL_ERR_ARG,      /* an argument outside its domain */
    PPL_ERR_SHAPE,    /* shapes or dtypes that do not fit an operator */
    PPL_ERR_IO,       /* a file that is missing, unreadable, malformed or cannot be written */
    PPL_ERR_MEMORY,   /* the machine gave no memory, or a bound on it is exceeded */
    PPL_ERR_SCHEDULE, /* a schedule that is incomplete, out of order or never ends */
    PPL_ERR_PLAN,     /* a cycle, or a proof that failed */
    PPL_ERR_DEVICE,   /* a device cannot be opened, cannot do this, or failed */
    PPL_ERR_DATA,     /* data that ended, is empty or out of range */
    PPL_ERR_NUMBER,   /* a loss or gradient that is not finite */
    PPL_ERR_STALL,    /* a rank made no progress within the deadline */
    PPL_ERR_STOPPED   /* interrupted from outside: not a fault */
} ppl_status;

/* The words of the last failure on this thread: "where: what is, want what"; never NULL. Valid until the next failure. */
const char *ppl_error(void);
const char *ppl_status_name(ppl_status status);

/* ---- types ---------------------------------------------------------------------------------------------------- */

typedef enum ppl_dtype {
    PPL_F32 = 0,
    PPL_BF16, /* stored in 2 bytes, computed in f32, rounded to nearest even where a value is stored */
    PPL_F64,  /* on the reference device only */
    PPL_I32,
    PPL_DTYPES
} ppl_dtype;

/* The type of a value. ndim 0 is a scalar; dim[ndim..] are 1. */
typedef struct ppl_type {
    int32_t dtype; /* ppl_dtype */
    int32_t ndim;
    int64_t dim[6]; /* PPL_MAX_DIMS */
} ppl_type;

/* What an operator takes beside its inputs; the meaning of each slot stands with the operator in the enum below. */
typedef struct ppl_attrs {
    int64_t i[8];
    double f[4];
} ppl_attrs;

typedef enum ppl_act {
    PPL_ACT_NONE = 0,
    PPL_ACT_RELU,
    PPL_ACT_GELU_TANH,
    PPL_ACT_GELU_ERF,
    PPL_ACT_SILU,
    PPL_ACTS
} ppl_act;

/* Operators. "rows" are all leading dimensions taken together. The first group is what scripts compose; the second is
 * what gradient rules emit (not differentiable again). Statistics and losses are f32 (f64 in an f64 graph). */
typedef enum ppl_op {
    /* x (rows, IC), w (OC, IC) [, b (OC)] -> y (rows, OC) [, pre (rows, OC) if act]; i0 act: y = act(pre), pre = x
     * w^T + b */
    PPL_OP_LINEAR = 0,
    /* a (..., M, K), b (..., K, N) -> (..., M, N); i0, i1: a, b are stored transposed; equal leading dims */
    PPL_OP_MATMUL,
    /* x, y -> x + y; y has x's shape or a suffix of it */
    PPL_OP_ADD,
    /* x, y -> x * y; likewise */
    PPL_OP_MUL,
    /* x -> f0 * x */
    PPL_OP_SCALE,
    /* ids i32 (...), w (V, C) -> (..., C); an id outside 0..V-1 is PPL_ERR_DATA */
    PPL_OP_EMBEDDING,
    /* x (rows, C), w (C), b (C) -> y, stats (rows, 2) = mean, 1/sqrt(var + f0) */
    PPL_OP_LAYERNORM,
    /* x (rows, C), w (C) -> y, stats (rows) = 1/sqrt(mean(x^2) + f0) */
    PPL_OP_RMSNORM,
    /* x (B, T, H*D) -> same; i0 D, i1 leading heads that are rotated (the others are copied), i2 1 = inverse, f0
     * theta; pairs (j, j + D/2) */
    PPL_OP_ROPE,
    /* x -> act(x); i0 ppl_act */
    PPL_OP_ACT,
    /* x -> softmax over the last dim */
    PPL_OP_SOFTMAX,
    /* qkv (B, T, (H + 2 K) D), or q (B, T, H D), k (B, T, K D), v (B, T, K D) -> o (B, T, H D), lse (B, H, T); i0
     * H, i1 K (divides H), i2 causal, f0 scale (0: 1/sqrt(D)) */
    PPL_OP_ATTENTION,
    /* x (B, ...) -> x * mask / (1 - f0); i7 key of the node's name; identity when not training */
    PPL_OP_DROPOUT,
    /* x -> same bytes; i0 ndim, i1.. dims (i1..i6) */
    PPL_OP_RESHAPE,
    /* x -> dims i0 and i1 exchanged */
    PPL_OP_TRANSPOSE,
    /* x -> indexes i1 .. i1 + i2 - 1 of dim i0 */
    PPL_OP_SLICE,
    /* 1..8 inputs -> joined along dim i0 */
    PPL_OP_CONCAT,
    /* logits (rows, V), targets i32 (rows) -> sum of -log p (scalar), lse (rows); a target < 0 is ignored */
    PPL_OP_CROSS_ENTROPY,
    /* x, target -> sum of (x - target)^2 (scalar); a NaN target is ignored */
    PPL_OP_MSE,

    /* dy (rows, OC), w (OC, IC) -> dx (rows, IC); the result keeps dy's leading dims */
    PPL_OP_LINEAR_DX,
    /* dy (rows, OC), x (rows, IC) -> dw (OC, IC); accumulates */
    PPL_OP_LINEAR_DW,
    /* x -> summed over leading dims down to the last i0 dims; accumulates */
    PPL_OP_REDUCE,
    /* dy, x (before the activation) -> dy * act'(x); i0 ppl_act */
    PPL_OP_ACT_GRAD,
    /* ids, dy (..., C) -> dw (V = i0, C); accumulates */
    PPL_OP_EMBEDDING_DW,
    /* dy, x, w, stats -> dx */
    PPL_OP_LAYERNORM_DX,
    /* dy, x, stats -> dw (C), db (C); accumulates */
    PPL_OP_LAYERNORM_DW,
    /* dy, x, w, stats -> dx */
    PPL_OP_RMSNORM_DX,
    /* dy, x, stats -> dw (C); accumulates */
    PPL_OP_RMSNORM_DW,
    /* dy, y -> dx */
    PPL_OP_SOFTMAX_GRAD,
    /* dy, o, lse, qkv -> dqkv, or dy, o, lse, q, k, v -> dq, dk, dv; attributes as ATTENTION's */
    PPL_OP_ATTENTION_GRAD,
    /* dy -> zeros of length i2 along dim i0 with dy at i1: the gradient of SLICE */
    PPL_OP_PAD,
    /* seed (scalar), logits, targets, lse -> dlogits = seed * (softmax - onehot), 0 where ignored */
    PPL_OP_CROSS_ENTROPY_GRAD,
    /* seed, x, target -> seed * 2 (x - target), 0 where ignored */
    PPL_OP_MSE_GRAD,
    /* x -> x as f32; accumulates: the gradient of a parameter that another operator computed */
    PPL_OP_ACCUMULATE,
    PPL_OPS
} ppl_op;

const char *ppl_op_name(int32_t op);   /* "linear"; "?" outside the enum */
int32_t ppl_op_find(const char *name); /* -1: none */

typedef enum ppl_optimizer { PPL_SGD = 0, PPL_ADAMW } ppl_optimizer;

#endif
