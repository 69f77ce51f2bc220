// eager.h - where eager tensors are: memory, and a device to run one node on. Host devices are opened for a node and closed
// again, which costs nothing; one with memory of its own stays open as long as it has tensors. Before it: tensor.c.
#ifndef PPL_DEVICE_EAGER_H
#define PPL_DEVICE_EAGER_H
#include "device/device.h"

typedef struct ppl_eager ppl_eager;

ppl_status ppl_eager_open(const ppl_device_ops *ops, ppl_eager **out);
void ppl_eager_close(ppl_eager *e);

ppl_status ppl_eager_get(ppl_eager *e, size_t bytes, void **out); // zeroed
void ppl_eager_free(ppl_eager *e, void *p);
ppl_status ppl_eager_write(ppl_eager *e, void *to, const void *from, size_t bytes); // from the host; is there on return
ppl_status ppl_eager_read(ppl_eager *e, void *to, const void *from, size_t bytes);
ppl_status ppl_eager_copy(ppl_eager *e, void *to, const void *from, size_t bytes);
// Runs one node as a program of its own, to its end.
ppl_status ppl_eager_run(ppl_eager *e, const ppl_device_node *node, const ppl_call *call, const ppl_call_env *env);

#endif
