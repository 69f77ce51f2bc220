// kernel_none.c - the empty slots of a kernel's table, for kernels that prepare, pack and keep nothing.
#include "device/kernel.h"

ppl_status ppl_kernel_prepare_none(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state) {
    (void)spec, (void)needs, (void)state;
    return PPL_OK;
}

ppl_status ppl_kernel_pack_none(const ppl_kernel_spec *spec, void *state, const void *param, void *packed) {
    (void)spec, (void)state, (void)param, (void)packed;
    return PPL_OK;
}

void ppl_kernel_free_none(void *state) {
    (void)state;
}
