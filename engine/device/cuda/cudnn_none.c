// cudnn_none.c - builds without CUDNN=1: there is no cuDNN, and attention_choice.c asks for nothing else.
#include "device/cuda/cudnn.h"

const char *ppl_cudnn_name(void) {
    return NULL;
}

ppl_status ppl_cudnn_open(const char *description, ppl_cudnn **out) {
    (void)description, (void)out;
    return ppl_fail(PPL_ERR_DEVICE, "device cuda: this build has no cuDNN, want one made with `make CUDA=1 CUDNN=1`");
}

void ppl_cudnn_close(ppl_cudnn *c) {
    (void)c;
}

ppl_status ppl_cudnn_plan_get(ppl_cudnn *c, const ppl_cudnn_shape *shape, ppl_cudnn_plan **out) {
    (void)c, (void)shape, (void)out;
    return ppl_cudnn_open(NULL, NULL);
}

const char *ppl_cudnn_plan_why(const ppl_cudnn_plan *p) {
    (void)p;
    return NULL;
}

size_t ppl_cudnn_plan_scratch(const ppl_cudnn_plan *p) {
    (void)p;
    return 0;
}

ppl_status ppl_cudnn_plan_run(ppl_cudnn *c, ppl_cudnn_plan *p, const ppl_cudnn_call *call, cudaStream_t stream) {
    (void)c, (void)p, (void)call, (void)stream;
    return ppl_cudnn_open(NULL, NULL);
}
