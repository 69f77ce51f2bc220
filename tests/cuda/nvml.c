// nvml.c - the part of the driver's management library that ppl asks, for GPUs of the emulation: built as a library of its own,
// which PPL_NVML names. What it says comes from the environment:
//
//   PPL_EMU_NVLINKS=18          links of each GPU to a switch that all are behind; 0: none, the bus alone (0)
//   PPL_EMU_NVLINKS_DIRECT=1    they lead to the next and the former GPU instead, half of them each
//   PPL_EMU_ANCESTOR=30         nvmlGpuTopologyLevel_t of any two (30: a host bridge)
//   PPL_EMU_LANES=16            of each GPU's slot, which is PCIe 4
//   PPL_EMU_INIT=9              nvmlInit fails so (9: no driver is loaded)
//   PPL_EMU_MIG=1               GPUs are divided
//   PPL_EMU_GPM=0               they do not count their activity; -N: asking whether they do fails with N
//   PPL_EMU_SAMPLE=4            taking a sample fails so (4: no permission)
//   PPL_EMU_METRICS=2           making figures of two samples fails so
//   PPL_EMU_HOLE=10             one of the figures is not there
//
// What they count goes by the bus: of the GPU on bus n, 40 + n % of the multiprocessors are active, 20 + n % of the warps, tensor
// cores 30 + n %, memory 10 + n %. With PPL_EMU_OLD defined the library is one of before this.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4 };

typedef struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;

int nvmlInit_v2(void);
const char *nvmlErrorString(int error);
int nvmlSystemGetDriverVersion(char *text, unsigned length);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out);
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level);
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status);
int nvmlDeviceGetNvLinkState(void *d, unsigned link, int *on);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, pci_info *out);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, int *kind);
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *generation);
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *lanes);

static unsigned setting(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

// A handle is the bus' number, which the emulation counts from 1.
static unsigned bus_of(void *d) {
    return (unsigned)(size_t)d;
}

int nvmlInit_v2(void) {
    return (int)setting("PPL_EMU_INIT", OK);
}

const char *nvmlErrorString(int error) {
    return error == NO_PERMISSION ? "Insufficient Permissions" : error == 9 ? "Driver Not Loaded" : "Some Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "999.00");
    return OK;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out) {
    unsigned domain, number;
    if (sscanf(bus, "%x:%x:", &domain, &number) != 2 || number == 0) return INVALID;
    *out = (void *)(size_t)number;
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level) {
    (void)a, (void)b;
    *level = (int)setting("PPL_EMU_ANCESTOR", 30);
    return OK;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status) {
    enum { NVLINK = 2, P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
    unsigned apart = bus_of(a) > bus_of(b) ? bus_of(a) - bus_of(b) : bus_of(b) - bus_of(a);
    int linked = setting("PPL_EMU_NVLINKS", 0) && (!setting("PPL_EMU_NVLINKS_DIRECT", 0) || apart == 1);
    *status = what != NVLINK || linked ? P2P_OK : P2P_NOT_SUPPORTED;
    return OK;
}

int nvmlDeviceGetNvLinkState(void *d, unsigned link, int *on) {
    (void)d;
    if (link >= 18) return INVALID;
    *on = link < setting("PPL_EMU_NVLINKS", 0);
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, pci_info *out) {
    memset(out, 0, sizeof *out);
    out->bus = 0xf0;
    if (setting("PPL_EMU_NVLINKS_DIRECT", 0)) out->bus = link % 2 ? bus_of(d) + 1 : bus_of(d) - 1;
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, int *kind) {
    enum { GPU = 0, SWITCH = 2 };
    (void)d, (void)link;
    *kind = setting("PPL_EMU_NVLINKS_DIRECT", 0) ? GPU : SWITCH;
    return OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *generation) {
    (void)d;
    *generation = 4;
    return OK;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *lanes) {
    (void)d;
    *lanes = setting("PPL_EMU_LANES", 16);
    return OK;
}

// ---- activity ----

#ifndef PPL_EMU_OLD
typedef struct support {
    unsigned version, supported;
} support;
typedef struct sample {
    unsigned bus;
    unsigned long count; // of samples taken before and with it; 0: none was
} sample;
typedef struct metric {
    unsigned id;
    int status;
    double value;
    char *name, *words, *unit;
} metric;
typedef struct request {
    unsigned version, count;
    sample *from, *to;
    metric metric[333];
} request;

int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *next);
int nvmlGpmQueryDeviceSupport(void *d, support *out);
int nvmlGpmSampleAlloc(sample **out);
int nvmlGpmSampleFree(sample *s);
int nvmlGpmSampleGet(void *d, sample *s);
int nvmlGpmMetricsGet(request *r);

int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *next) {
    (void)d;
    *now = *next = setting("PPL_EMU_MIG", 0);
    return OK;
}

int nvmlGpmQueryDeviceSupport(void *d, support *out) {
    int counts = (int)setting("PPL_EMU_GPM", 1);
    if (!d || out->version != 1) return INVALID;
    out->supported = counts > 0;
    return counts < 0 ? -counts : OK;
}

int nvmlGpmSampleAlloc(sample **out) {
    *out = calloc(1, sizeof **out);
    return *out ? OK : INVALID;
}

int nvmlGpmSampleFree(sample *s) {
    free(s);
    return s ? OK : INVALID;
}

int nvmlGpmSampleGet(void *d, sample *s) {
    static _Atomic unsigned long taken;
    unsigned long count = ++taken;
    int fails = (int)setting("PPL_EMU_SAMPLE", OK);
    if (fails) return fails;
    *s = (sample){bus_of(d), count};
    return OK;
}

int nvmlGpmMetricsGet(request *r) {
    static const struct { unsigned id, base; } figures[] = {{2, 40}, {3, 20}, {5, 30}, {10, 10}};
    int fails = (int)setting("PPL_EMU_METRICS", OK);
    if (fails) return fails;
    if (r->version != 1 || r->from->bus != r->to->bus || r->from->count == 0 || r->from->count >= r->to->count)
        return INVALID;
    for (unsigned i = 0; i < r->count; i++) {
        metric *m = &r->metric[i];
        m->status = NOT_SUPPORTED;
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
            if (figures[k].id == m->id && m->id != setting("PPL_EMU_HOLE", 0))
                *m = (metric){.id = m->id, .value = figures[k].base + r->to->bus, .unit = "%"};
    }
    return OK;
}
#endif
