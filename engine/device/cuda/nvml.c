// nvml.c - the driver's management library, loaded when first asked: it has no header in the toolkit, so what is used of it
// is declared here. PPL_NVML names another file than libnvidia-ml.so.1. Before it: probe.c, activity.c.
#include "device/cuda/nvml.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *device; // nvmlDevice_t
typedef int result;   // nvmlReturn_t

enum {
    P2P_NVLINK = 2,    // NVML_P2P_CAPS_INDEX_NVLINK
    P2P_OK = 0,        // NVML_P2P_STATUS_OK
    REMOTE_SWITCH = 2, // NVML_NVLINK_DEVICE_TYPE_SWITCH
    MOST_NVLINKS = 36  // of one GPU
};

typedef struct pci_info { // nvmlPciInfo_t
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;

static struct {
    result (*init)(void);
    result (*driver)(char *text, unsigned length);
    result (*by_bus)(const char *bus, device *out);
    result (*ancestor)(device a, device b, int *level);
    result (*p2p)(device a, device b, int what, int *status);
    result (*link_state)(device d, unsigned link, int *on);
    result (*link_remote)(device d, unsigned link, pci_info *out);
    result (*link_remote_kind)(device d, unsigned link, int *kind);
    result (*pcie_generation)(device d, unsigned *generation);
    result (*pcie_width)(device d, unsigned *lanes);
    const char *(*error_words)(result error);
    void *library;
    bool loaded;
    char missing[224]; // why it is not
} nvml;

#define CALL(field, symbol)                                                                                            \
    { offsetof(__typeof__(nvml), field), symbol }
static const struct {
    size_t at;
    const char *symbol;
} calls[] = {
    CALL(init, "nvmlInit_v2"),
    CALL(driver, "nvmlSystemGetDriverVersion"),
    CALL(by_bus, "nvmlDeviceGetHandleByPciBusId_v2"),
    CALL(ancestor, "nvmlDeviceGetTopologyCommonAncestor"),
    CALL(p2p, "nvmlDeviceGetP2PStatus"),
    CALL(link_state, "nvmlDeviceGetNvLinkState"),
    CALL(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
    CALL(link_remote_kind, "nvmlDeviceGetNvLinkRemoteDeviceType"),
    CALL(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration"),
    CALL(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth"),
    CALL(error_words, "nvmlErrorString"),
};

// Stays loaded: its own threads and the driver's may use it to the end.
static void load(void) {
    const char *name = getenv("PPL_NVML");
    if (!name || !*name) name = "libnvidia-ml.so.1";
    nvml.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!nvml.library) {
        snprintf(nvml.missing, sizeof nvml.missing,
                 "%.80s cannot be loaded, want the driver's management library (in a container, "
                 "NVIDIA_DRIVER_CAPABILITIES with utility)",
                 name);
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(nvml.library, calls[i].symbol);
        memcpy((char *)&nvml + calls[i].at, &call, sizeof call);
    }
    result error = nvml.init ? nvml.init() : -1;
    nvml.loaded = error == 0;
    if (!nvml.loaded)
        snprintf(nvml.missing, sizeof nvml.missing,
                 "nvmlInit of %.80s: %.60s (NVML %d), want a driver that works with it", name,
                 nvml.error_words ? nvml.error_words(error) : "an error", error);
}

static bool there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return nvml.loaded;
}

const char *ppl_nvml_missing(void) {
    return there() ? NULL : nvml.missing;
}

void *ppl_nvml_call(const char *symbol) {
    return there() ? dlsym(nvml.library, symbol) : NULL;
}

int ppl_nvml_gpu(const char *bus, void **out) {
    if (!there() || !nvml.by_bus) return PPL_NVML_NOT_SUPPORTED;
    return nvml.by_bus(bus, out);
}

const char *ppl_nvml_words(int error) {
    const char *words = there() && nvml.error_words ? nvml.error_words(error) : NULL;
    return words ? words : "an error";
}

void ppl_nvml_driver(char *text, size_t bytes) {
    text[0] = 0;
    if (there() && nvml.driver && nvml.driver(text, (unsigned)bytes) != 0) text[0] = 0;
    text[bytes - 1] = 0;
}

// ---- NVLink ----

// Links that are up and lead from one GPU to the other, or to a switch behind which all are.
static int32_t links_between(device from, const char *to) {
    int32_t count = 0;
    unsigned domain = 0, bus = 0, slot = 0;
    if (!nvml.link_state || sscanf(to, "%x:%x:%x", &domain, &bus, &slot) != 3) return 0;
    for (unsigned link = 0; link < MOST_NVLINKS; link++) {
        int on = 0, kind = 0;
        pci_info remote = {.bus = 0};
        if (nvml.link_state(from, link, &on) != 0) continue;
        if (!on) continue;
        bool is_switch =
            nvml.link_remote_kind && nvml.link_remote_kind(from, link, &kind) == 0 && kind == REMOTE_SWITCH;
        bool direct = nvml.link_remote && nvml.link_remote(from, link, &remote) == 0 && remote.domain == domain &&
                      remote.bus == bus && remote.device == slot;
        count += is_switch || direct;
    }
    return count;
}

// Bytes a second of one NVLink, one way, that any generation since the first gives.
static const double nvlink_least = 20e9;

// ---- PCIe ----

// Bytes a second of one lane, one way.
static double lane(unsigned generation) {
    static const double rates[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
    enum { NEWEST = sizeof rates / sizeof *rates - 1 };
    return rates[generation > NEWEST ? NEWEST : generation];
}

// What the slot of a GPU carries; the generation is the largest it has, for an idle one goes slower to save power. 0: unknown.
static double slot_of(device d) {
    unsigned generation = 0, lanes = 0;
    if (!nvml.pcie_generation || nvml.pcie_generation(d, &generation) != 0) return 0;
    if (!nvml.pcie_width || nvml.pcie_width(d, &lanes) != 0) return 0;
    return lane(generation) * lanes;
}

static int32_t path_of(int level) { // nvmlGpuTopologyLevel_t
    switch (level) {
    case 0: return PPL_PATH_BOARD;
    case 10: return PPL_PATH_SWITCH;
    case 20: return PPL_PATH_SWITCHES;
    case 30: return PPL_PATH_BRIDGE;
    case 40: return PPL_PATH_NODE;
    case 50: return PPL_PATH_SYSTEM;
    default: return PPL_PATH_UNKNOWN;
    }
}

void ppl_nvml_link(const char *from, const char *to, ppl_gpu_link *out) {
    device a, b;
    int status = -1, level = -1;
    if (!there() || !nvml.by_bus || nvml.by_bus(from, &a) != 0 || nvml.by_bus(to, &b) != 0) return;
    if (nvml.p2p && nvml.p2p(a, b, P2P_NVLINK, &status) == 0 && status == P2P_OK) {
        out->path = PPL_PATH_NVLINK;
        out->nvlinks = links_between(a, to);
        out->promised = (out->nvlinks ? out->nvlinks : 1) * nvlink_least;
        return;
    }
    if (nvml.ancestor && nvml.ancestor(a, b, &level) == 0) out->path = path_of(level);
    double one = slot_of(a), other = slot_of(b);
    out->promised = one < other ? one : other;
}
