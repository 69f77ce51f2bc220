// activity.c - how busy a GPU is, by the counters that the driver's management library reads (GPM, since Hopper): two
// samples, and the means between them. A sample takes the driver a while, so that none is taken within a step. Before it:
// exec/activity.c, `ppl devices`. After it: nvml.c.
#include "device/activity.h"
#include "base/clock.h"
#include "device/cuda/cuda.h"
#include "device/cuda/nvml.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef void *sample; // nvmlGpmSample_t

enum {
    VERSION = 1, // NVML_GPM_METRICS_GET_VERSION, NVML_GPM_SUPPORT_VERSION
    NO_PERMISSION = 4,
    // nvmlGpmMetricId_t
    SM_UTIL = 2,
    SM_OCCUPANCY = 3,
    ANY_TENSOR_UTIL = 5,
    DRAM_BW_UTIL = 10,
    // Places of a request: NVML_GPM_METRIC_MAX was 98, then 333; a library may clear as many as it knows.
    PLACES = 512
};

typedef struct gpm_support { // nvmlGpmSupport_t
    unsigned version, supported;
} gpm_support;

typedef struct gpm_metric { // nvmlGpmMetric_t
    unsigned id;
    int status; // not 0: there is no value
    double value;
    char *short_name, *long_name, *unit;
} gpm_metric;

typedef struct gpm_request { // nvmlGpmMetricsGet_t
    unsigned version, count;
    sample from, to;
    gpm_metric metric[PLACES];
} gpm_request;

typedef struct gpm_calls {
    int (*mig)(void *gpu, unsigned *now, unsigned *next);
    int (*query)(void *gpu, gpm_support *out);
    int (*sample_get)(void *gpu, sample s);
    int (*sample_alloc)(sample *out);
    int (*sample_free)(sample s);
    int (*metrics)(gpm_request *r);
} gpm_calls;

struct ppl_activity {
    gpm_calls call;
    void *gpu; // nvmlDevice_t
    sample from, to;
    int64_t begin, end; // ppl_now of `from`; of the end of the newest work
    bool under_way;     // `from` was taken, and what began there is too short so far
    int32_t ordinal;
    ppl_gpu_activity figures;
    gpm_request request;
};

static const struct {
    unsigned id;
    size_t at; // of a double in ppl_gpu_activity
} metrics[] = {
    {SM_UTIL, offsetof(ppl_gpu_activity, sm)},
    {SM_OCCUPANCY, offsetof(ppl_gpu_activity, occupancy)},
    {ANY_TENSOR_UTIL, offsetof(ppl_gpu_activity, tensor)},
    {DRAM_BW_UTIL, offsetof(ppl_gpu_activity, memory)},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

// ---- open and close ----

static void says(char *text, size_t room, int32_t gpu, const char *call, int error) {
    snprintf(text, room, "GPU %d: its activity cannot be read: %s: %s (NVML %d), want %s", gpu, call,
             ppl_nvml_words(error), error,
             error == NO_PERMISSION ? "the right to read its counters, which who runs the machine gives"
                                    : "one whose counters the driver reads");
}

static ppl_status failed(int32_t gpu, const char *call, int error) {
    char text[sizeof((ppl_gpu_activity *)0)->reason];
    says(text, sizeof text, gpu, call, error);
    return ppl_fail_text(PPL_ERR_DEVICE, text);
}

static ppl_status calls_get(int32_t gpu, gpm_calls *out) {
    const struct {
        void *at;
        const char *symbol;
    } wanted[] = {
        {&out->query, "nvmlGpmQueryDeviceSupport"}, {&out->sample_get, "nvmlGpmSampleGet"},
        {&out->sample_alloc, "nvmlGpmSampleAlloc"}, {&out->sample_free, "nvmlGpmSampleFree"},
        {&out->metrics, "nvmlGpmMetricsGet"},
    };
    const char *why = ppl_nvml_missing();
    if (why) return ppl_fail(PPL_ERR_DEVICE, "GPU %d: its activity cannot be read: %s", gpu, why);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *call = ppl_nvml_call(wanted[i].symbol);
        if (!call)
            return ppl_fail(PPL_ERR_DEVICE,
                            "GPU %d: its activity cannot be read: the driver's library has no %s, want a driver of 525 "
                            "or later",
                            gpu, wanted[i].symbol);
        memcpy(wanted[i].at, &call, sizeof call);
    }
    void *mig = ppl_nvml_call("nvmlDeviceGetMigMode");
    memcpy(&out->mig, &mig, sizeof mig);
    return PPL_OK;
}

// The GPU as the library knows it, if it counts there.
static ppl_status find(int32_t gpu, const gpm_calls *call, void **out) {
    char bus[32];
    unsigned mig = 0, next = 0;
    gpm_support support = {.version = VERSION};
    PPL_TRY(ppl_cuda_check("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus, sizeof bus, gpu)));
    int error = ppl_nvml_gpu(bus, out);
    if (error) return failed(gpu, "nvmlDeviceGetHandleByPciBusId", error);
    if (call->mig && call->mig(*out, &mig, &next) == 0 && mig)
        return ppl_fail(PPL_ERR_DEVICE,
                        "GPU %d: its activity cannot be read: it is divided (MIG), want a whole one: the counters are "
                        "those of all its parts",
                        gpu);
    error = call->query(*out, &support);
    if (error && error != PPL_NVML_NOT_SUPPORTED) return failed(gpu, "nvmlGpmQueryDeviceSupport", error);
    if (error || !support.supported)
        return ppl_fail(PPL_ERR_DEVICE,
                        "GPU %d: its activity cannot be read: the driver does not count it there, want a GPU for "
                        "servers of compute capability 9.0 (Hopper) or later",
                        gpu);
    return PPL_OK;
}

static ppl_status samples_get(ppl_activity *a) {
    int error = a->call.sample_alloc(&a->from);
    if (error) {
        a->from = NULL;
        return failed(a->ordinal, "nvmlGpmSampleAlloc", error);
    }
    error = a->call.sample_alloc(&a->to);
    if (error) {
        a->to = NULL;
        return failed(a->ordinal, "nvmlGpmSampleAlloc", error);
    }
    error = a->call.sample_get(a->gpu, a->to); // only then does it show whether this process may
    return error ? failed(a->ordinal, "nvmlGpmSampleGet", error) : PPL_OK;
}

ppl_status ppl_activity_open(int32_t gpu, ppl_activity **out) {
    gpm_calls call = {0};
    void *handle = NULL;
    PPL_TRY(calls_get(gpu, &call));
    PPL_TRY(find(gpu, &call, &handle));
    ppl_activity *a = ppl_alloc(sizeof *a);
    if (!a) return PPL_ERR_MEMORY;
    a->call = call;
    a->gpu = handle;
    a->ordinal = gpu;
    a->figures = (ppl_gpu_activity){.gpu = gpu};
    snprintf(a->figures.reason, sizeof a->figures.reason,
             "GPU %d: its activity is not known yet: no steps in a row have taken 0.1 s", gpu);
    ppl_status st = samples_get(a);
    if (st != PPL_OK) {
        ppl_activity_close(a);
        return st;
    }
    *out = a;
    return PPL_OK;
}

void ppl_activity_close(ppl_activity *a) {
    if (!a) return;
    if (a->from) a->call.sample_free(a->from);
    if (a->to) a->call.sample_free(a->to);
    ppl_free(a);
}

ppl_status ppl_gpu_activity_check(int32_t index) {
    ppl_activity *a = NULL;
    PPL_TRY(ppl_gpu_index_check(index));
    PPL_TRY(ppl_activity_open(index, &a));
    ppl_activity_close(a);
    return PPL_OK;
}

// ---- samples ----

static void lost(ppl_activity *a, const char *call, int error) {
    a->under_way = false;
    a->figures = (ppl_gpu_activity){.gpu = a->ordinal};
    says(a->figures.reason, sizeof a->figures.reason, a->ordinal, call, error);
}

void ppl_activity_begin(ppl_activity *a) {
    if (!a) return;
    int64_t now = ppl_now();
    if (a->under_way && (now - a->end) * 10 <= a->end - a->begin) return;
    int error = a->call.sample_get(a->gpu, a->from);
    a->under_way = error == 0;
    a->begin = ppl_now();
    if (error) lost(a, "nvmlGpmSampleGet", error);
}

void ppl_activity_end(ppl_activity *a) {
    static const int64_t least = 100000000; // ns, by the library's manual
    if (!a || !a->under_way) return;
    a->end = ppl_now();
    if (a->end - a->begin <= least) return;
    a->under_way = false;
    int error = a->call.sample_get(a->gpu, a->to);
    if (error) {
        lost(a, "nvmlGpmSampleGet", error);
        return;
    }
    gpm_request *r = &a->request;
    *r = (gpm_request){.version = VERSION, .count = METRICS, .from = a->from, .to = a->to};
    for (size_t i = 0; i < METRICS; i++) r->metric[i].id = metrics[i].id;
    error = a->call.metrics(r);
    if (error) {
        lost(a, "nvmlGpmMetricsGet", error);
        return;
    }
    a->figures = (ppl_gpu_activity){.gpu = a->ordinal, .seconds = (double)(a->end - a->begin) * 1e-9};
    for (size_t i = 0; i < METRICS; i++) {
        double share = r->metric[i].status == 0 ? r->metric[i].value / 100 : NAN;
        memcpy((char *)&a->figures + metrics[i].at, &share, sizeof share);
    }
}

void ppl_activity_read(const ppl_activity *a, ppl_gpu_activity *out) {
    *out = a->figures;
}
