// nvml.c - the part of the driver's management library that ppl asks, for GPUs of the emulation: built as a library of its own,
// which PPL_NVML names. What it says comes from the environment:
//
//   PPL_EMU_NVLINKS=18          links of each GPU to a switch that all are behind; 0: none, the bus alone (0)
//   PPL_EMU_NVLINKS_DIRECT=1    they lead to the next and the former GPU instead, half of them each
//   PPL_EMU_ANCESTOR=30         nvmlGpuTopologyLevel_t of any two (30: a host bridge)
//   PPL_EMU_LANES=16            of each GPU's slot, which is PCIe 4
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3 };

typedef struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;

int nvmlInit_v2(void);
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
    return OK;
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
