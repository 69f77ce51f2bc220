// label.c - names for profilers, through NVTX: rank threads and their streams, the task that a thread enqueues, the node
// within it. Without a profiler in the process NVTX registers no name, and nothing is done in a step. Before it: device.c,
// exec's tasks, program.c's nodes. After it: NVTX, which is headers alone and looks for the profiler itself.
#include "device/cuda/cuda.h"
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static nvtxDomainHandle_t domain; // of the whole program; NULL where no profiler listens
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void domain_open(void) {
    nvtxInitialize(NULL);
    domain = nvtxDomainCreateA("ppl");
}

void ppl_cuda_labels_open(const ppl_cuda_device *d) {
    static const char *const names[PPL_CUDA_STREAMS] = {"compute", "beside"};
    char text[48];
    pthread_once(&once, domain_open);
    if (!domain) return;
    snprintf(text, sizeof text, "rank %d", d->rank);
    nvtxNameOsThreadA((uint32_t)gettid(), text);
    for (int32_t i = 0; i < PPL_CUDA_STREAMS; i++) {
        snprintf(text, sizeof text, "rank %d, %s", d->rank, names[i]);
        nvtxNameCudaStreamA(d->stream[i], text);
    }
}

void *ppl_cuda_label_get(ppl_device *self, const char *text) {
    (void)self;
    return domain ? nvtxDomainRegisterStringA(domain, text) : NULL;
}

// Colours tell kinds apart: forward, backward, its halves, passing on and waiting, the step's end.
static uint32_t colour_of(int32_t kind) {
    static const uint32_t colour[PPL_TASK_KINDS] = {
        [PPL_TASK_F] = 0xff4e79a7,      [PPL_TASK_B] = 0xff59a14f,        [PPL_TASK_I] = 0xff8cd17d,
        [PPL_TASK_W] = 0xfff1ce63,      [PPL_TASK_SEND] = 0xffbab0ac,     [PPL_TASK_RECEIVE] = 0xffd4cfcb,
        [PPL_TASK_CREDIT] = 0xffd4cfcb, [PPL_TASK_RELEASE] = 0xffbab0ac,  [PPL_TASK_NORM] = 0xffe15759,
        [PPL_TASK_UPDATE] = 0xffb07aa1, [PPL_TASK_VALIDATE] = 0xffe15759,
    };
    return kind < 0 ? 0xff9d9d9d : colour[kind];
}

void ppl_cuda_label_begin(ppl_device *self, void *label, int32_t kind, int64_t step) {
    (void)self;
    if (!label) return;
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .colorType = NVTX_COLOR_ARGB,
                               .color = colour_of(kind),
                               .payloadType = step < 0 ? NVTX_PAYLOAD_UNKNOWN : NVTX_PAYLOAD_TYPE_INT64,
                               .payload.llValue = step,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message.registered = label};
    nvtxDomainRangePushEx(domain, &a);
}

void ppl_cuda_label_end(ppl_device *self, void *label) {
    (void)self;
    if (label) nvtxDomainRangePop(domain);
}
