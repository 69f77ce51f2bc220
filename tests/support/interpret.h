// interpret.h - runs a graph's nodes in order on a device: no stages, no plan, one microbatch at a time. What tests judge
// differentiation and kernels by. Before it: a graph, differentiated or not; after it: values to compare.
#ifndef PPL_TESTS_INTERPRET_H
#define PPL_TESTS_INTERPRET_H
#include "device/device.h"
#include "graph/graph.h"

// Threads that a test lets a device use: libgomp's barriers are invisible to the thread sanitizer.
#ifdef __SANITIZE_THREAD__
enum { PPL_TEST_THREADS = 1 };
#else
enum { PPL_TEST_THREADS = 2 };
#endif

typedef struct ppl_interpret {
    const ppl_graph *graph; // borrowed; not changed after open
    const ppl_device_ops *ops;
    ppl_device *device;
    void **data; // [values] memory of the device, in the value's dtype; a RESHAPE's output is its input's memory
    bool *owned; // [values]
    ppl_device_program *program[2]; // forward, backward
    ppl_call *calls[2];
    void *scratch, *packed;
    ppl_call_env env;  // seed, step, first sample, training: the test's to set
    bool packed_stale; // weights were written since they were packed
} ppl_interpret;

// What the device is asked for at a node: types, attributes, which input is a parameter.
void ppl_interpret_spec(const ppl_graph *g, const ppl_node *n, ppl_kernel_spec *spec);

// All values are zero after open. On failure nothing is left open.
ppl_status ppl_interpret_open(ppl_interpret *t, const ppl_graph *g, const char *device, int32_t threads);
void ppl_interpret_close(ppl_interpret *t);

// All elements of a value as f64.
void ppl_interpret_write(ppl_interpret *t, ppl_value v, const double *x);
void ppl_interpret_read(const ppl_interpret *t, ppl_value v, double *x);

ppl_status ppl_interpret_forward(ppl_interpret *t);
// After forward. seed: d(loss) / d(sum of the loss node). add: accumulators += (not the step's first microbatch).
ppl_status ppl_interpret_backward(ppl_interpret *t, double seed, bool add);
// The gradient of a parameter: its accumulators summed in graph order of the uses.
void ppl_interpret_gradient(const ppl_interpret *t, int32_t param, double *x);

#endif
