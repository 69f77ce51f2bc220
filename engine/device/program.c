// program.c - programs of the synchronous devices: each node's kernel is prepared once, and run in order with the
// addresses of the day. Before it: exec gives the nodes of a stage's F, I or W program. After it: the kernels.
//
// Packed parameters: a kernel may want a parameter in a layout of its own. Nodes that want the same parameter in the
// same layout (pack_key) share one copy, over all programs of the device; one of them packs for all.
#include "device/host.h"
#include <assert.h>
#include <stdlib.h>

enum { ALIGNMENT = 64 };

// The pack of (param, key), -1 if there is none.
static int32_t pack_find(const ppl_host_device *d, int32_t param, uint64_t key) {
    if ((size_t)param >= d->n_first) return -1;
    int32_t at = d->first[param];
    while (at >= 0 && d->packs[at].key != key) at = d->packs[at].next;
    return at;
}

static ppl_status pack_add(ppl_host_device *d, int32_t param, uint64_t key, size_t bytes, int32_t *out) {
    PPL_TRY(ppl_grow((void **)&d->packs, &d->room_packs, d->n_packs + 1, sizeof *d->packs));
    PPL_TRY(ppl_grow((void **)&d->first, &d->room_first, (size_t)param + 1, sizeof *d->first));
    while (d->n_first <= (size_t)param) d->first[d->n_first++] = -1;
    int32_t at = (int32_t)d->n_packs++;
    d->packs[at] = (ppl_host_pack){
        .param = param, .next = d->first[param], .key = key, .bytes = bytes, .offset = d->pack_bytes, .user = NULL};
    d->first[param] = at;
    d->pack_bytes += ppl_align(bytes, ALIGNMENT);
    *out = at;
    return PPL_OK;
}

// Finds or makes the packed copy that this step reads.
static ppl_status step_pack(ppl_host_device *d, ppl_host_step *s, int32_t param, const ppl_kernel_needs *needs) {
    s->pack = -1;
    if (!needs->pack) return PPL_OK;
    if (param < 0) {
        return ppl_fail(PPL_ERR_DEVICE, "the kernel packs input %d, which is no parameter, want a parameter",
                        s->spec.param_input);
    }
    int32_t at = pack_find(d, param, needs->pack_key);
    if (at < 0) PPL_TRY(pack_add(d, param, needs->pack_key, needs->pack, &at));
    if (d->packs[at].bytes != needs->pack) {
        return ppl_fail(PPL_ERR_DEVICE, "packed parameter %d takes %zu bytes here and %zu elsewhere, want them equal",
                        param, needs->pack, d->packs[at].bytes);
    }
    s->pack = at;
    if (!d->packs[at].user) d->packs[at].user = s;
    return PPL_OK;
}

static ppl_status step_build(ppl_host_device *d, ppl_device_program *p, const ppl_device_node *node, size_t *scratch) {
    ppl_host_step *s = &p->steps[p->count];
    s->spec = node->spec;
    s->spec.threads = d->threads;
    s->name = ppl_arena_text(&p->arena, node->name ? node->name : "?");
    if (!s->name) return PPL_ERR_MEMORY;
    s->kernel = d->kernel(node->spec.op);
    if (!s->kernel) {
        return ppl_fail(PPL_ERR_DEVICE, "%s: device %s has no kernel for %s, want an operator it has", s->name, d->name,
                        ppl_op_name(node->spec.op));
    }
    ppl_kernel_needs needs = {0};
    ppl_status st = s->kernel->prepare(&s->spec, &needs, &s->state);
    if (st != PPL_OK) return ppl_prefix(st, "%s: ", s->name);
    p->count++; // from here on the program owns the state
    if (needs.scratch > *scratch) *scratch = needs.scratch;
    st = step_pack(d, s, node->param, &needs);
    return st == PPL_OK ? st : ppl_prefix(st, "%s: ", s->name);
}

ppl_status ppl_host_program_build(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                  int32_t count, ppl_program_needs *needs, ppl_device_program **out) {
    (void)stage, (void)phase;
    ppl_host_device *d = (ppl_host_device *)self;
    ppl_device_program *p = ppl_alloc(sizeof *p);
    if (!p) return PPL_ERR_MEMORY;
    p->next = d->programs;
    d->programs = p;
    ppl_status st = PPL_ERR_MEMORY;
    size_t before = d->pack_bytes, scratch = 0;
    p->steps = ppl_arena_get(&p->arena, (size_t)count * sizeof *p->steps);
    if (!p->steps) goto fail;
    for (int32_t i = 0; i < count; i++) PPL_GOTO(step_build(d, p, &nodes[i], &scratch));
    *needs = (ppl_program_needs){.scratch = scratch, .pack = d->pack_bytes - before};
    *out = p;
    return PPL_OK;
fail:
    ppl_host_program_free(self, p);
    return st;
}

// Another step that reads the pack, NULL if none is left.
static ppl_host_step *pack_user(const ppl_host_device *d, int32_t pack) {
    for (ppl_device_program *p = d->programs; p; p = p->next)
        for (int32_t i = 0; i < p->count; i++)
            if (p->steps[i].pack == pack) return &p->steps[i];
    return NULL;
}

void ppl_host_program_free(ppl_device *self, ppl_device_program *program) {
    ppl_host_device *d = (ppl_host_device *)self;
    if (!program) return;
    ppl_device_program **at = &d->programs;
    while (*at && *at != program) at = &(*at)->next;
    if (*at) *at = program->next;
    for (int32_t i = 0; i < program->count; i++) {
        ppl_host_step *s = &program->steps[i];
        if (s->pack >= 0 && d->packs[s->pack].user == s) d->packs[s->pack].user = pack_user(d, s->pack);
        s->kernel->free(s->state);
    }
    ppl_arena_clear(&program->arena);
    ppl_free(program);
}

ppl_status ppl_host_pack_bind(ppl_device *self, void *memory, size_t bytes) {
    ppl_host_device *d = (ppl_host_device *)self;
    if (bytes < d->pack_bytes) {
        return ppl_fail(PPL_ERR_ARG, "device %s: %zu bytes for packed parameters, want %zu", d->name, bytes,
                        d->pack_bytes);
    }
    d->pack_memory = memory;
    return PPL_OK;
}

ppl_status ppl_host_pack_run(ppl_device *self, int32_t param, const void *weight) {
    ppl_host_device *d = (ppl_host_device *)self;
    if (param < 0 || (size_t)param >= d->n_first) return PPL_OK; // no program packs it
    for (int32_t at = d->first[param]; at >= 0; at = d->packs[at].next) {
        const ppl_host_pack *pack = &d->packs[at];
        if (!pack->user) continue;
        assert(d->pack_memory);
        const ppl_host_step *s = pack->user;
        ppl_status st = s->kernel->pack(&s->spec, s->state, weight, d->pack_memory + pack->offset);
        if (st != PPL_OK) return ppl_prefix(st, "%s: ", s->name);
    }
    return PPL_OK;
}

ppl_status ppl_host_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run) {
    const ppl_host_device *d = (const ppl_host_device *)self;
    for (int32_t i = 0; i < program->count; i++) {
        const ppl_host_step *s = &program->steps[i];
        ppl_call call = run->calls[i];
        call.scratch = run->scratch;
        call.packed = s->pack >= 0 ? d->pack_memory + d->packs[s->pack].offset : NULL;
        call.env = run->env;
        ppl_status st = s->kernel->run(&s->spec, s->state, &call);
        if (st != PPL_OK) return ppl_prefix(st, "%s: ", s->name);
    }
    return PPL_OK;
}
