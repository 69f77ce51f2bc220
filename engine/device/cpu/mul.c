// mul.c - x, y -> x * y, y of x's shape or a suffix of it. After it: pair.h.
#include "device/cpu/pair.h"

PPL_VEC void mul(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                 int32_t dtype) {
    (void)worker;
    pair_part(spec, call, first, last, PPL_OP_MUL, dtype);
}
PLAIN_DTYPES(mul)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, mul);
    return PPL_OK;
}

PLAIN_KERNEL(mul, plain_prepare, run);
