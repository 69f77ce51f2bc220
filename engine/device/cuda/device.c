// device.c - the cuda device's table: opening a GPU for a rank, copies, events, the optimizer. Calls enqueue on the device's
// streams; what waits for them says so. Before it: the registry. After it: memory.c, program.c.
#include "device/cuda/cuda.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/update.h"
#include "ppl.h"
#include <inttypes.h>

static ppl_cuda_device *cuda_of(ppl_device *self) {
    return (ppl_cuda_device *)self;
}

// ---- open and close ----

static ppl_status streams_open(ppl_cuda_device *d) {
    int least = 0, greatest = 0;
    PPL_TRY(ppl_cuda_check("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    for (int i = 0; i < PPL_CUDA_STREAMS; i++) { // links, which have streams of their own, go first
        PPL_TRY(ppl_cuda_check("cudaStreamCreateWithPriority",
                               cudaStreamCreateWithPriority(&d->stream[i], cudaStreamNonBlocking, least)));
        PPL_TRY(ppl_cuda_arena_get(d, PPL_CUDA_WORKSPACE, &d->workspace[i]));
    }
    return PPL_OK;
}

static ppl_status device_fill(ppl_cuda_device *d) {
    void *p = NULL;
    PPL_TRY(ppl_cuda_usable(d->ordinal));
    PPL_TRY(ppl_cuda_attention_open(d));
    PPL_TRY(streams_open(d));
    ppl_cuda_labels_open(d);
    PPL_TRY(ppl_cublas_check("cublasLtCreate", cublasLtCreate(&d->lt)));
    PPL_TRY(ppl_cuda_check("cudaHostAlloc", cudaHostAlloc(&p, sizeof *d->fault, cudaHostAllocMapped)));
    d->fault = p;
    *d->fault = (ppl_cuda_fault){0};
    PPL_TRY(ppl_cuda_arena_get(d, (PPL_CUDA_PARTIALS + 1) * sizeof *d->partial, &p));
    d->partial = p;
    return PPL_OK;
}

static void cuda_close(ppl_device *self) {
    ppl_cuda_device *d = cuda_of(self);
    if (!d) return;
    cudaSetDevice(d->ordinal);
    while (d->programs) ppl_cuda_program_free(self, d->programs);
    ppl_cuda_tables_free(d);
    if (d->lt) cublasLtDestroy(d->lt);
    for (int i = 0; i < PPL_CUDA_STREAMS; i++)
        if (d->stream[i]) {
            cudaStreamSynchronize(d->stream[i]);
            cudaStreamDestroy(d->stream[i]);
        }
    ppl_cudnn_close(d->cudnn);
    ppl_free(d->more);
    if (d->fault) cudaFreeHost(d->fault);
    ppl_cuda_arena_clear(d);
    ppl_free(d);
}

// Each process of a host has its share of the GPUs that it sees, and its ranks take turns on those. A launcher that shows
// each process GPUs of its own thereby says which.
static ppl_status cuda_unit_of(const ppl_device_options *options, int32_t *unit) {
    int32_t count = 0, processes = options->processes > 1 ? options->processes : 1;
    PPL_TRY(ppl_gpu_count(&count));
    int32_t first = (int32_t)((int64_t)options->process * count / processes);
    int32_t end = (int32_t)((int64_t)(options->process + 1) * count / processes);
    *unit = first + ppl_gpu_of_rank(options->seat, end > first ? end - first : 1);
    return PPL_OK;
}

static ppl_status cuda_open(const ppl_device_options *options, ppl_device **out) {
    int32_t unit = 0;
    PPL_TRY(cuda_unit_of(options, &unit));
    ppl_cuda_device *d = ppl_alloc(sizeof *d);
    if (!d) return PPL_ERR_MEMORY;
    d->rank = options->rank;
    d->ordinal = unit;
    ppl_status st = device_fill(d);
    if (st != PPL_OK) {
        cuda_close((ppl_device *)d);
        return st;
    }
    *out = (ppl_device *)d;
    return PPL_OK;
}

// ---- waiting, and what only shows then ----

static ppl_status fault_told(ppl_cuda_device *d) {
    ppl_cuda_fault f = *d->fault;
    if (f.kind == PPL_CUDA_FAULT_NONE) return PPL_OK;
    *d->fault = (ppl_cuda_fault){0};
    if (f.kind == PPL_CUDA_FAULT_TARGET) {
        return ppl_fail(PPL_ERR_DATA, "cross_entropy: target %" PRId32 " at position %" PRId64 ", want below %" PRId64,
                        f.value, f.at, f.limit);
    }
    return ppl_fail(PPL_ERR_DATA, "embedding: id %" PRId32 " at position %" PRId64 ", want 0..%" PRId64, f.value, f.at,
                    f.limit - 1);
}

static ppl_status stream_wait(ppl_cuda_device *d, int32_t stream) {
    PPL_TRY(ppl_cuda_check("cudaStreamSynchronize", cudaStreamSynchronize(ppl_cuda_stream(d, stream))));
    return fault_told(d);
}

static ppl_status cuda_synchronize(ppl_device *self) {
    ppl_cuda_device *d = cuda_of(self);
    for (int32_t i = 0; i < PPL_CUDA_STREAMS + d->n_more; i++)
        if (ppl_cuda_stream(d, i)) PPL_TRY(stream_wait(d, i));
    return PPL_OK;
}

// ---- memory and copies ----

static ppl_status here(ppl_cuda_device *d) { // callers may come from other threads than the rank's
    return ppl_cuda_check("cudaSetDevice", cudaSetDevice(d->ordinal));
}

static ppl_status cuda_memory_get(ppl_device *self, size_t bytes, void **out) {
    ppl_cuda_device *d = cuda_of(self);
    PPL_TRY(here(d));
    PPL_TRY(ppl_cuda_arena_get(d, bytes, out));
    PPL_TRY(ppl_cuda_check("cudaMemsetAsync", cudaMemsetAsync(*out, 0, bytes, d->stream[0])));
    return stream_wait(d, 0);
}

static void cuda_memory_free(ppl_device *self, void *p) {
    if (here(cuda_of(self)) == PPL_OK) ppl_cuda_arena_free(cuda_of(self), p);
}

static ppl_status cuda_room(ppl_device *self, ppl_device_room *out) {
    ppl_cuda_device *d = cuda_of(self);
    *out = (ppl_device_room){.unit = d->ordinal};
    PPL_TRY(here(d));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(out->name, sizeof out->name, d->ordinal)));
    return ppl_cuda_check("cudaMemGetInfo", cudaMemGetInfo(&out->free, &out->all));
}

static ppl_status cuda_host_get(ppl_device *self, size_t bytes, void **out) {
    PPL_TRY(here(cuda_of(self)));
    PPL_TRY(ppl_cuda_check("cudaHostAlloc", cudaHostAlloc(out, bytes ? bytes : 1, cudaHostAllocPortable)));
    memset(*out, 0, bytes);
    return PPL_OK;
}

static void cuda_host_free(ppl_device *self, void *p) {
    if (p && here(cuda_of(self)) == PPL_OK) cudaFreeHost(p);
}

static ppl_status copy_enqueue(ppl_device *self, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                               int32_t stream) {
    ppl_cuda_device *d = cuda_of(self);
    if (!bytes) return PPL_OK;
    PPL_TRY(here(d));
    return ppl_cuda_check("cudaMemcpyAsync", cudaMemcpyAsync(dst, src, bytes, kind, ppl_cuda_stream(d, stream)));
}

static ppl_status cuda_copy_in(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream) {
    return copy_enqueue(self, dst, src, bytes, cudaMemcpyHostToDevice, stream);
}

static ppl_status cuda_copy_out(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream) {
    PPL_TRY(copy_enqueue(self, dst, src, bytes, cudaMemcpyDeviceToHost, stream));
    return stream_wait(cuda_of(self), stream);
}

static ppl_status cuda_copy_back(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream) {
    return copy_enqueue(self, dst, src, bytes, cudaMemcpyDeviceToHost, stream);
}

static ppl_status cuda_copy(ppl_device *self, void *dst, const void *src, size_t bytes, int32_t stream) {
    return copy_enqueue(self, dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
}

// ---- packed parameters: there are none, cuBLASLt reads weights as they are ----

static ppl_status cuda_pack_bind(ppl_device *self, void *memory, size_t bytes) {
    (void)self, (void)memory, (void)bytes;
    return PPL_OK;
}

static ppl_status cuda_pack(ppl_device *self, int32_t param, const void *weight) {
    (void)self, (void)param, (void)weight;
    return PPL_OK;
}

// ---- the optimizer ----

static ppl_status grads_check(const char *what, int32_t dtype, int32_t uses) {
    if (dtype != PPL_F32)
        return ppl_fail(PPL_ERR_DEVICE, "device cuda: %s of %s, want f32", what, ppl_dtype_name(dtype));
    if (uses <= PPL_CUDA_USES) return PPL_OK;
    return ppl_fail(PPL_ERR_DEVICE, "device cuda: %s of a parameter that is used %d times, want %d at most", what, uses,
                    PPL_CUDA_USES);
}

static ppl_status cuda_update(ppl_device *self, const ppl_update *u, int32_t stage) {
    (void)stage;
    PPL_TRY(grads_check("an update", u->dtype, u->uses));
    return ppl_cuda_check("update", ppl_cuda_update_by(u, cuda_of(self)->scale, cuda_of(self)->stream[0]));
}

static ppl_status cuda_square_sum_at(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                                     double *out) {
    ppl_cuda_device *d = cuda_of(self);
    PPL_TRY(grads_check("a square sum", dtype, uses));
    return ppl_cuda_check("square_sum", ppl_cuda_square_sum(grads, uses, n, d->partial, out, d->stream[0]));
}

static ppl_status cuda_square_sum(ppl_device *self, const void *const *grads, int32_t uses, int32_t dtype, int64_t n,
                                  double *out) {
    double *sum = cuda_of(self)->partial + PPL_CUDA_PARTIALS;
    PPL_TRY(cuda_square_sum_at(self, grads, uses, dtype, n, sum));
    return cuda_copy_out(self, out, sum, sizeof *out, 0);
}

static void cuda_scale_bind(ppl_device *self, const double *scale) {
    cuda_of(self)->scale = scale;
}

static ppl_status cuda_clip_scale_at(ppl_device *self, const double *sums, const int32_t *order, int64_t n,
                                     double limit, double *out) {
    return ppl_cuda_check("clip_scale", ppl_cuda_clip_scale(sums, order, n, limit, out, cuda_of(self)->stream[0]));
}

// ---- further streams: of links, whose work goes before the device's own ----

static ppl_status cuda_stream_open(ppl_device *self, int32_t *out) {
    ppl_cuda_device *d = cuda_of(self);
    int least = 0, greatest = 0;
    int32_t at = 0;
    while (at < d->n_more && d->more[at]) at++;
    if (at == d->n_more) {
        int32_t room = d->n_more ? 2 * d->n_more : 8;
        cudaStream_t *more = ppl_alloc((size_t)room * sizeof *more);
        if (!more) return PPL_ERR_MEMORY;
        if (d->more) memcpy(more, d->more, (size_t)d->n_more * sizeof *more);
        ppl_free(d->more);
        d->more = more;
        d->n_more = room;
    }
    PPL_TRY(here(d));
    PPL_TRY(ppl_cuda_check("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    *out = PPL_CUDA_STREAMS + at;
    return ppl_cuda_check("cudaStreamCreateWithPriority",
                          cudaStreamCreateWithPriority(&d->more[at], cudaStreamNonBlocking, greatest));
}

static void cuda_stream_close(ppl_device *self, int32_t stream) {
    ppl_cuda_device *d = cuda_of(self);
    cudaStream_t *at = &d->more[stream - PPL_CUDA_STREAMS];
    if (*at && here(d) == PPL_OK) cudaStreamDestroy(*at);
    *at = NULL;
}

static void *cuda_stream_handle(ppl_device *self, int32_t stream) {
    return ppl_cuda_stream(cuda_of(self), stream);
}

// ---- events ----

static ppl_status cuda_event_open(ppl_device *self, void **out) {
    cudaEvent_t event = NULL;
    PPL_TRY(here(cuda_of(self)));
    PPL_TRY(ppl_cuda_check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    *out = event;
    return PPL_OK;
}

static ppl_status cuda_timer_open(ppl_device *self, void **out) {
    cudaEvent_t event = NULL;
    PPL_TRY(here(cuda_of(self)));
    PPL_TRY(ppl_cuda_check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDefault)));
    *out = event;
    return PPL_OK;
}

static ppl_status cuda_timer_between(ppl_device *self, void *from, void *to, double *out) {
    (void)self;
    float ms = 0;
    PPL_TRY(ppl_cuda_check("cudaEventElapsedTime", cudaEventElapsedTime(&ms, from, to)));
    *out = (double)ms * 1e-3;
    return PPL_OK;
}

static ppl_status cuda_event_record(ppl_device *self, void *event, int32_t stream) {
    return ppl_cuda_check("cudaEventRecord", cudaEventRecord(event, ppl_cuda_stream(cuda_of(self), stream)));
}

static ppl_status cuda_event_wait(ppl_device *self, void *event, int32_t stream) {
    return ppl_cuda_check("cudaStreamWaitEvent", cudaStreamWaitEvent(ppl_cuda_stream(cuda_of(self), stream), event, 0));
}

static ppl_status cuda_event_done(ppl_device *self, void *event, bool *done) {
    cudaError_t error = cudaEventQuery(event);
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); // not a failure
        return PPL_OK;
    }
    PPL_TRY(ppl_cuda_check("cudaEventQuery", error));
    return fault_told(cuda_of(self));
}

static void cuda_event_close(ppl_device *self, void *event) {
    if (event && here(cuda_of(self)) == PPL_OK) cudaEventDestroy(event);
}

const ppl_device_ops ppl_device_cuda = {
    .name = "cuda",
    .flags = PPL_DEVICE_ASYNC | PPL_DEVICE_COMPUTES,
    .open = cuda_open,
    .close = cuda_close,
    .memory_get = cuda_memory_get,
    .memory_free = cuda_memory_free,
    .room = cuda_room,
    .host_get = cuda_host_get,
    .host_free = cuda_host_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy_back = cuda_copy_back,
    .copy = cuda_copy,
    .program_build = ppl_cuda_program_build,
    .program_free = ppl_cuda_program_free,
    .pack_bind = cuda_pack_bind,
    .pack = cuda_pack,
    .program_run = ppl_cuda_program_run,
    .update = cuda_update,
    .square_sum = cuda_square_sum,
    .square_sum_at = cuda_square_sum_at,
    .clip_scale_at = cuda_clip_scale_at,
    .scale_bind = cuda_scale_bind,
    .event_open = cuda_event_open,
    .timer_open = cuda_timer_open,
    .timer_between = cuda_timer_between,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_done = cuda_event_done,
    .event_close = cuda_event_close,
    .synchronize = cuda_synchronize,
    .label_get = ppl_cuda_label_get,
    .label_begin = ppl_cuda_label_begin,
    .label_end = ppl_cuda_label_end,
    .unit_of = cuda_unit_of,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_handle = cuda_stream_handle,
};
