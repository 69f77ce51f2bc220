// eager.c - see eager.h. Before it: tensor.c. After it: the device's table.
#include "device/eager.h"
#include "base/memory.h"
#include "graph/graph.h"
#include <pthread.h>

struct ppl_eager {
    const ppl_device_ops *ops;
    ppl_device *device; // NULL on the host: opened for each node
    int64_t users;
    ppl_eager *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of the list, and of what its devices are told
static ppl_eager *list;                                   // of all devices that have tensors

// One thread: a team spins at every operator's barriers, which costs far more than it gives at this size.
static ppl_status device_open(const ppl_device_ops *ops, ppl_device **out) {
    return ops->open(&(ppl_device_options){.threads = 1, .processes = 1, .fail_task = -1, .stall_task = -1}, out);
}

static bool is_host(const ppl_eager *e) {
    return e->ops->flags & PPL_DEVICE_HOST;
}

static ppl_status find(const ppl_device_ops *ops, ppl_eager **out) {
    for (ppl_eager *e = list; e; e = e->next)
        if (e->ops == ops) {
            e->users++;
            *out = e;
            return PPL_OK;
        }
    ppl_eager *e = ppl_alloc(sizeof *e);
    if (!e) return PPL_ERR_MEMORY;
    *e = (ppl_eager){.ops = ops, .users = 1, .next = list};
    ppl_status st = is_host(e) ? PPL_OK : device_open(ops, &e->device);
    if (st == PPL_OK) *out = list = e;
    else ppl_free(e);
    return st;
}

ppl_status ppl_eager_open(const ppl_device_ops *ops, ppl_eager **out) {
    pthread_mutex_lock(&mutex);
    ppl_status st = find(ops, out);
    pthread_mutex_unlock(&mutex);
    return st;
}

void ppl_eager_close(ppl_eager *e) {
    pthread_mutex_lock(&mutex);
    if (--e->users == 0) {
        ppl_eager **at = &list;
        while (*at != e) at = &(*at)->next;
        *at = e->next;
        if (e->device) e->ops->close(e->device);
        ppl_free(e);
    }
    pthread_mutex_unlock(&mutex);
}

ppl_status ppl_eager_get(ppl_eager *e, size_t bytes, void **out) {
    if (is_host(e)) return (*out = ppl_alloc(bytes)) ? PPL_OK : PPL_ERR_MEMORY;
    pthread_mutex_lock(&mutex);
    ppl_status st = e->ops->memory_get(e->device, bytes, out);
    pthread_mutex_unlock(&mutex);
    return st;
}

void ppl_eager_free(ppl_eager *e, void *p) {
    if (is_host(e)) {
        ppl_free(p);
        return;
    }
    pthread_mutex_lock(&mutex);
    e->ops->memory_free(e->device, p);
    pthread_mutex_unlock(&mutex);
}

typedef ppl_status copy_slot(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream);

static ppl_status copy(ppl_eager *e, copy_slot *slot, void *to, const void *from, size_t bytes) {
    if (is_host(e)) {
        memcpy(to, from, bytes);
        return PPL_OK;
    }
    pthread_mutex_lock(&mutex);
    ppl_status st = slot(e->device, to, from, bytes, 0);
    if (st == PPL_OK) st = e->ops->synchronize(e->device);
    pthread_mutex_unlock(&mutex);
    return st;
}

ppl_status ppl_eager_write(ppl_eager *e, void *to, const void *from, size_t bytes) {
    return copy(e, e->ops->copy_in, to, from, bytes);
}
ppl_status ppl_eager_read(ppl_eager *e, void *to, const void *from, size_t bytes) {
    return copy(e, e->ops->copy_out, to, from, bytes);
}
ppl_status ppl_eager_copy(ppl_eager *e, void *to, const void *from, size_t bytes) {
    return copy(e, e->ops->copy, to, from, bytes);
}

static ppl_status node_run(const ppl_device_ops *ops, ppl_device *device, const ppl_device_node *node,
                           const ppl_call *call, const ppl_call_env *env) {
    ppl_device_program *program = NULL;
    void *scratch = NULL;
    ppl_program_needs needs;
    ppl_status st;
    PPL_GOTO(ops->program_build(device, 0, PPL_PHASE_F, node, 1, &needs, &program));
    PPL_GOTO(ops->memory_get(device, needs.scratch, &scratch));
    ppl_program_run run = {.kind = PPL_PHASE_F, .calls = call, .scratch = scratch, .env = env};
    PPL_GOTO(ops->program_run(device, program, &run));
    st = ops->synchronize(device);
fail:
    if (scratch) ops->memory_free(device, scratch);
    if (program) ops->program_free(device, program);
    return st;
}

ppl_status ppl_eager_run(ppl_eager *e, const ppl_device_node *node, const ppl_call *call, const ppl_call_env *env) {
    ppl_device *device = e->device;
    ppl_status st = PPL_OK;
    if (!is_host(e)) pthread_mutex_lock(&mutex);
    else st = device_open(e->ops, &device);
    if (st == PPL_OK) st = node_run(e->ops, device, node, call, env);
    if (!is_host(e)) pthread_mutex_unlock(&mutex);
    else if (device) e->ops->close(device);
    return st;
}
