// kernel.h - a kernel: one operator on one device. Each device folder has one file per operator, named as in ops/, and a
// table that device code finds them in. The reference and cpu devices run kernels synchronously on the calling thread.
#ifndef PPL_DEVICE_KERNEL_H
#define PPL_DEVICE_KERNEL_H
#include "base/numbers.h"
#include "base/status.h"

// What a kernel is prepared for: everything but addresses.
typedef struct ppl_kernel_spec {
    int32_t op;
    int32_t inputs, outputs;
    ppl_attrs attrs;
    ppl_type in[PPL_MAX_INPUTS];
    ppl_type out[PPL_MAX_OUTPUTS];
    bool accumulates;    // outputs are accumulators; ppl_call.add says = or +=
    int32_t threads;     // it may use
    int32_t param_input; // index of the input that is a parameter, constant between two optimizer steps; -1 none
} ppl_kernel_spec;

typedef struct ppl_kernel_needs {
    size_t scratch;    // bytes during run; its contents do not outlive it
    size_t pack;       // bytes of the packed parameter; 0: reads it as it is
    uint64_t pack_key; // kernels of one rank with equal keys share the packed copy of the same parameter
} ppl_kernel_needs;

// What random kernels are keyed by, the same for all kernels of one program run.
typedef struct ppl_call_env {
    uint64_t seed;
    int64_t step;
    int64_t first_sample; // index in the step's batch of the microbatch's first sample
    bool training;
} ppl_call_env;

typedef struct ppl_call {
    const void *in[PPL_MAX_INPUTS];
    void *out[PPL_MAX_OUTPUTS];
    void *scratch;      // 64-byte aligned
    const void *packed; // from pack(); NULL where needs.pack was 0
    bool add;           // accumulators: false out = value, true out += value
    const ppl_call_env *env;
} ppl_call;

typedef struct ppl_kernel {
    const char *name; // the operator's
    // May refuse (PPL_ERR_DEVICE) with the reason. *state may stay NULL. needs is zeroed before the call.
    ppl_status (*prepare)(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state);
    ppl_status (*pack)(const ppl_kernel_spec *spec, void *state, const void *param, void *packed);
    ppl_status (*run)(const ppl_kernel_spec *spec, void *state, const ppl_call *call);
    void (*free)(void *state);
} ppl_kernel;

// For kernels that need nothing.
ppl_status ppl_kernel_prepare_none(const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state);
ppl_status ppl_kernel_pack_none(const ppl_kernel_spec *spec, void *state, const void *param, void *packed);
void ppl_kernel_free_none(void *state);

const ppl_kernel *ppl_reference_kernel(int32_t op); // NULL: the device lacks it
const ppl_kernel *ppl_cpu_kernel(int32_t op);       // for the instruction set in use

// One optimizer step of n numbers: the same arithmetic, in the same order, on every device.
// Formula: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019 (AdamW), PyTorch's order of operations;
// SGD with momentum as PyTorch's: v = momentum v + g + decay w; w -= lr v.
typedef struct ppl_update {
    int64_t n;
    void *weight;             // master, acc dtype; in place
    void *copy;               // the graph's dtype, rounded from the master; NULL: operators read the master itself
    const void *const *grads; // [uses] accumulators, summed in this order
    int32_t uses;
    void *moment1, *moment2;                      // acc dtype; moment2 NULL for SGD
    void *weight_out, *moment1_out, *moment2_out; // where results go; equal to the inputs for an update in place
    int32_t dtype;                                // acc dtype: F32 or F64
    int32_t copy_dtype;
    int32_t kind;                                  // ppl_optimizer
    double lr, beta1, beta2, eps, decay, momentum; // decay 0 where it does not apply
    double bias1, bias2;                           // 1 - beta^t
    double scale;                                  // of the gradient: min(1, clip / norm)
} ppl_update;

#endif
