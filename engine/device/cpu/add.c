// add.c - x, y -> x + y, y of x's shape or a suffix of it. After it: pair.h.
#include "device/cpu/pair.h"

PPL_VEC void add(const ppl_kernel_spec *spec, const ppl_call *call, int64_t first, int64_t last, int32_t worker,
                 int32_t dtype) {
    (void)worker;
    pair_part(spec, call, first, last, PPL_OP_ADD, dtype);
}
PLAIN_DTYPES(add)

static ppl_status run(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    PLAIN_NUMBERS(spec, call, ppl_type_elements(&spec->in[0]), spec->in[0].dtype, add);
    return PPL_OK;
}

PLAIN_KERNEL(add, plain_prepare, run);
