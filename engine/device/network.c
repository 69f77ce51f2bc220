// network.c - what this machine has towards others: adapters of InfiniBand or RoCE, and network interfaces with hardware behind
// them, as the kernel lists them. Before it: `ppl devices`. NCCL decides by itself which of them ranks of two machines use.
#include "base/status.h"
#include "ppl.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// First line of root/a/b; "" where there is none.
static void line_of(const char *root, const char *a, const char *b, char *text, int bytes) {
    char path[512];
    text[0] = 0;
    snprintf(path, sizeof path, "%s/%.200s/%s", root, a, b);
    FILE *f = fopen(path, "r");
    if (!f) return;
    if (!fgets(text, bytes, f)) text[0] = 0;
    fclose(f);
    text[strcspn(text, "\n")] = 0;
}

static bool exists(const char *root, const char *a, const char *b) {
    char path[512];
    snprintf(path, sizeof path, "%s/%.200s/%s", root, a, b);
    DIR *d = opendir(path);
    if (d) closedir(d);
    return d != NULL;
}

static bool adapter(const char *root, const char *name, ppl_network *out) {
    char text[64];
    line_of(root, name, "ports/1/link_layer", text, sizeof text);
    if (!text[0]) return false;
    snprintf(out->kind, sizeof out->kind, "%s", strcmp(text, "Ethernet") == 0 ? "RoCE" : "InfiniBand");
    line_of(root, name, "ports/1/rate", text, sizeof text); // "400 Gb/sec (4X NDR)"
    out->bandwidth = strtod(text, NULL) * 1e9 / 8;
    line_of(root, name, "ports/1/state", text, sizeof text); // "4: ACTIVE"
    out->up = strtol(text, NULL, 10) == 4;
    return true;
}

static bool interface(const char *root, const char *name, ppl_network *out) {
    char text[64];
    if (!exists(root, name, "device")) return false; // a loop, a bridge, a tunnel
    snprintf(out->kind, sizeof out->kind, "network");
    line_of(root, name, "speed", text, sizeof text); // Mbit/s; -1 or an error where it is not known
    double speed = strtod(text, NULL);
    out->bandwidth = speed > 0 ? speed * 1e6 / 8 : 0;
    line_of(root, name, "operstate", text, sizeof text);
    out->up = strcmp(text, "up") == 0;
    return true;
}

typedef bool reader(const char *root, const char *name, ppl_network *out);

static int by_name(const void *a, const void *b) {
    return strcmp(((const ppl_network *)a)->name, ((const ppl_network *)b)->name);
}

// Appends what a folder lists.
static int32_t folder_read(const char *root, reader *read, ppl_network *out, int32_t at, int32_t max) {
    int32_t first = at;
    DIR *d = opendir(root);
    for (struct dirent *e; d && at < max && (e = readdir(d));) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof out->name) continue;
        out[at] = (ppl_network){.up = 0};
        snprintf(out[at].name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, e->d_name);
        at += read(root, e->d_name, &out[at]);
    }
    if (d) closedir(d);
    qsort(out + first, (size_t)(at - first), sizeof *out, by_name);
    return at;
}

int32_t ppl_networks(const char *root, ppl_network *out, int32_t max) {
    char path[256];
    snprintf(path, sizeof path, "%s/infiniband", root ? root : "/sys/class");
    int32_t count = folder_read(path, adapter, out, 0, max);
    snprintf(path, sizeof path, "%s/net", root ? root : "/sys/class");
    return folder_read(path, interface, out, count, max);
}
