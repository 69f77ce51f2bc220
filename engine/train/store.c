// store.c - the parameters and the optimizer's state, one copy for each rank that uses them. Before: stages.h says
// which rank uses which. After: the executor's updates change them in place; checkpoint.c writes them down.
#include "train/store.h"

// How many moments the optimizer keeps of a parameter.
static int32_t moments(const ppl_optimizer_options *o) {
    return o->kind == PPL_ADAMW ? 2 : o->momentum != 0 ? 1 : 0;
}

// Allocates one rank's entry of a parameter of n numbers.
static ppl_status entry_build(ppl_store *s, const ppl_param *p, ppl_store_entry *e) {
    int64_t n = ppl_type_elements(&p->type);
    size_t bytes = (size_t)n * ppl_dtype_size(p->type.dtype);
    if (!(e->master = ppl_arena_get(&s->arena, bytes))) return PPL_ERR_MEMORY;
    if (s->graph->dtype != p->type.dtype &&
        !(e->copy = ppl_arena_get(&s->arena, (size_t)n * ppl_dtype_size(s->graph->dtype))))
        return PPL_ERR_MEMORY;
    e->versions = 1;
    if (p->spec.frozen) return PPL_OK;
    int32_t n_moments = moments(&s->optimizer);
    if (n_moments > 0 && !(e->moment1 = ppl_arena_get(&s->arena, bytes))) return PPL_ERR_MEMORY;
    if (n_moments > 1 && !(e->moment2 = ppl_arena_get(&s->arena, bytes))) return PPL_ERR_MEMORY;
    if (s->optimizer.clip != PPL_CLIP_AFTER) return PPL_OK;
    for (int32_t k = 0; k <= n_moments; k++)
        if (!(e->spare[k] = ppl_arena_get(&s->arena, bytes))) return PPL_ERR_MEMORY;
    return PPL_OK;
}

static void copy_round(const ppl_store *s, const ppl_param *p, ppl_store_entry *e) {
    if (e->copy) ppl_convert(e->copy, s->graph->dtype, e->master, p->type.dtype, ppl_type_elements(&p->type));
}

ppl_store_entry *ppl_store_first(const ppl_store *s, int32_t param) {
    for (int32_t r = 0; r < s->ranks; r++)
        if (ppl_store_at(s, r, param)->master) return ppl_store_at(s, r, param);
    return NULL;
}

// All ranks' entries of one parameter, with its initial weights.
static ppl_status param_build(ppl_store *s, const bool *uses, const ppl_store_spread *spread, int32_t param) {
    const ppl_param *p = &s->graph->params[param];
    for (int32_t r = 0; r < s->ranks; r++) {
        if (!uses[(size_t)r * s->graph->n_params + (size_t)param]) continue;
        if (spread && spread->rank_process[r] != s->world->process) continue;
        PPL_TRY(entry_build(s, p, ppl_store_at(s, r, param)));
    }
    ppl_store_entry *first = ppl_store_first(s, param);
    if (ppl_store_owner(s, param) < 0 || (!first && !s->world))
        return ppl_fail(PPL_ERR_ARG, "store: no rank uses parameter '%s', want one at least", p->name);
    if (!first) return PPL_OK;
    ppl_init_fill(first->master, p->type.dtype, ppl_type_elements(&p->type), &p->spec, s->seed, p->name);
    copy_round(s, p, first);
    for (int32_t r = 0; r < s->ranks; r++) {
        ppl_store_entry *e = ppl_store_at(s, r, param);
        if (!e->master || e == first) continue;
        memcpy(e->master, first->master, ppl_type_bytes(&p->type));
        copy_round(s, p, e);
    }
    return PPL_OK;
}

static ppl_status holds_find(ppl_store *s, const bool *uses, const ppl_store_spread *spread) {
    size_t n = s->graph->n_params;
    s->world = spread->world;
    s->holds = ppl_arena_get(&s->arena, (size_t)s->world->processes * n * sizeof *s->holds);
    if (!s->holds) return PPL_ERR_MEMORY;
    for (int32_t r = 0; r < s->ranks; r++)
        for (size_t i = 0; i < n; i++)
            if (uses[(size_t)r * n + i]) s->holds[(size_t)spread->rank_process[r] * n + i] = true;
    return PPL_OK;
}

static bool is_held(const ppl_store *s, int32_t process, int32_t param) {
    return s->holds[(size_t)process * s->graph->n_params + (size_t)param];
}

int32_t ppl_store_owner(const ppl_store *s, int32_t param) {
    for (int32_t p = 0; s->world && p < s->world->processes; p++)
        if (is_held(s, p, param)) return p;
    return s->world ? -1 : 0;
}

bool ppl_store_has(const ppl_store *s, int32_t param, int32_t part) {
    int32_t least = part == PPL_PART_MOMENT1 ? 1 : part == PPL_PART_MOMENT2 ? 2 : 0;
    return least == 0 || (!s->graph->params[param].spec.frozen && moments(&s->optimizer) >= least);
}

ppl_status ppl_store_fetch(const ppl_store *s, int32_t param, int32_t part, void *scratch, const void **out) {
    const ppl_store_entry *e = ppl_store_first(s, param);
    void *own = e ? ppl_store_part(e, part) : NULL;
    int32_t owner = ppl_store_owner(s, param);
    *out = own ? own : scratch;
    if (!s->world || owner == 0) return PPL_OK;
    return ppl_world_move(s->world, owner, 0, s->world->process == owner ? own : scratch,
                          ppl_type_bytes(&s->graph->params[param].type));
}

ppl_status ppl_store_build(const ppl_graph *g, int32_t ranks, const bool *uses, uint64_t seed,
                           const ppl_optimizer_options *o, ppl_store **out) {
    return ppl_store_build_here(g, ranks, uses, NULL, seed, o, out);
}

ppl_status ppl_store_build_here(const ppl_graph *g, int32_t ranks, const bool *uses, const ppl_store_spread *spread,
                                uint64_t seed, const ppl_optimizer_options *o, ppl_store **out) {
    ppl_store *s = ppl_alloc(sizeof *s);
    if (!s) return PPL_ERR_MEMORY;
    ppl_status st = PPL_OK;
    *s = (ppl_store){.graph = g, .ranks = ranks, .seed = seed, .optimizer = *o};
    s->entry = ppl_arena_get(&s->arena, (size_t)ranks * g->n_params * sizeof *s->entry);
    if (!s->entry) {
        st = PPL_ERR_MEMORY;
        goto fail;
    }
    if (spread) PPL_GOTO(holds_find(s, uses, spread));
    for (size_t i = 0; i < g->n_params; i++) PPL_GOTO(param_build(s, uses, spread, (int32_t)i));
    *out = s;
    return PPL_OK;
fail:
    ppl_store_free(s);
    return st;
}

ppl_status ppl_store_keep(ppl_store *s, int32_t param, int32_t versions) {
    const ppl_type *type = &s->graph->params[param].type;
    size_t bytes = (size_t)ppl_type_elements(type) * ppl_dtype_size(s->graph->dtype);
    for (int32_t r = 0; versions > 1 && r < s->ranks; r++) {
        ppl_store_entry *e = ppl_store_at(s, r, param);
        if (!e->master) continue;
        if (!(e->version = ppl_arena_get(&s->arena, (size_t)versions * sizeof *e->version))) return PPL_ERR_MEMORY;
        e->version[0] = e->copy ? e->copy : e->master;
        for (int32_t i = 1; i < versions; i++)
            if (!(e->version[i] = ppl_arena_get(&s->arena, bytes))) return PPL_ERR_MEMORY;
        e->versions = versions;
    }
    return PPL_OK;
}

void ppl_store_free(ppl_store *s) {
    if (!s) return;
    ppl_arena_clear(&s->arena);
    ppl_free(s);
}

void *ppl_store_part(const ppl_store_entry *e, int32_t part) {
    return part == PPL_PART_WEIGHT ? e->master : part == PPL_PART_MOMENT1 ? e->moment1 : e->moment2;
}

// Checks the arguments of a read or a write.
static ppl_status part_check(const ppl_store *s, int32_t param, int32_t part) {
    static const char *const names[] = {[PPL_PART_WEIGHT] = "weights",
                                        [PPL_PART_GRADIENT] = "gradient",
                                        [PPL_PART_MOMENT1] = "first moment",
                                        [PPL_PART_MOMENT2] = "second moment"};
    if (param < 0 || (size_t)param >= s->graph->n_params)
        return ppl_fail(PPL_ERR_ARG, "parameter %d: there are %zu, want an index from 0", param, s->graph->n_params);
    const ppl_param *p = &s->graph->params[param];
    if (part != PPL_PART_WEIGHT && part != PPL_PART_MOMENT1 && part != PPL_PART_MOMENT2)
        return ppl_fail(PPL_ERR_ARG, "parameter '%s': part %d is not kept here, want weights or moments", p->name,
                        part);
    if (!ppl_store_has(s, param, part))
        return ppl_fail(PPL_ERR_ARG, "parameter '%s': it has no %s%s", p->name, names[part],
                        p->spec.frozen ? ", it is frozen" : " with this optimizer");
    return PPL_OK;
}

ppl_status ppl_store_read(const ppl_store *s, int32_t param, int32_t part, double *out) {
    PPL_TRY(part_check(s, param, part));
    const ppl_store_entry *e = ppl_store_first(s, param);
    const ppl_param *p = &s->graph->params[param];
    if (!e) return ppl_fail(PPL_ERR_ARG, "parameter '%s': process %d holds it", p->name, ppl_store_owner(s, param));
    ppl_convert(out, PPL_F64, ppl_store_part(e, part), p->type.dtype, ppl_type_elements(&p->type));
    return PPL_OK;
}

ppl_status ppl_store_set(ppl_store *s, int32_t param, int32_t part, const void *in, int32_t dtype) {
    PPL_TRY(part_check(s, param, part));
    const ppl_param *p = &s->graph->params[param];
    for (int32_t r = 0; r < s->ranks; r++) {
        ppl_store_entry *e = ppl_store_at(s, r, param);
        if (!e->master) continue;
        ppl_convert(ppl_store_part(e, part), p->type.dtype, in, dtype, ppl_type_elements(&p->type));
        if (part == PPL_PART_WEIGHT) copy_round(s, p, e);
    }
    return PPL_OK;
}

ppl_status ppl_store_write(ppl_store *s, int32_t param, int32_t part, const double *in) {
    return ppl_store_set(s, param, part, in, PPL_F64);
}

void ppl_store_zero_moments(ppl_store *s) {
    s->updates = 0;
    for (size_t i = 0; i < (size_t)s->ranks * s->graph->n_params; i++) {
        size_t bytes = ppl_type_bytes(&s->graph->params[i % s->graph->n_params].type);
        if (s->entry[i].moment1) memset(s->entry[i].moment1, 0, bytes);
        if (s->entry[i].moment2) memset(s->entry[i].moment2, 0, bytes);
    }
}

// Does a process need the parameter that had none so far?
static bool is_moved(const ppl_store *s, const ppl_store *from, int32_t param) {
    for (int32_t p = 0; s->world && p < s->world->processes; p++)
        if (is_held(s, p, param) && !is_held(from, p, param)) return true;
    return false;
}

static ppl_status part_take(ppl_store *s, const ppl_store *from, int32_t param, int32_t part) {
    const ppl_type *type = &s->graph->params[param].type;
    const ppl_store_entry *old = ppl_store_first(from, param);
    void *data = old ? ppl_store_part(old, part) : NULL, *scratch = NULL;
    ppl_status st = PPL_OK;
    if (is_moved(s, from, param)) {
        if (!data) data = scratch = ppl_alloc(ppl_type_bytes(type));
        if (!data) return ppl_world_lose(s->world, PPL_ERR_MEMORY); // the others wait for this process
        st = ppl_world_share(s->world, ppl_store_owner(from, param), data, ppl_type_bytes(type));
    }
    if (st == PPL_OK && ppl_store_first(s, param)) st = ppl_store_set(s, param, part, data, type->dtype);
    ppl_free(scratch);
    return st;
}

ppl_status ppl_store_take(ppl_store *s, const ppl_store *from) {
    if (s->graph != from->graph || moments(&s->optimizer) != moments(&from->optimizer))
        return ppl_fail(PPL_ERR_ARG, "store: the other store is of another graph or optimizer, want the same");
    s->updates = from->updates;
    for (size_t i = 0; i < s->graph->n_params; i++)
        for (int32_t part = PPL_PART_WEIGHT; part <= PPL_PART_MOMENT2; part++)
            if (part != PPL_PART_GRADIENT && ppl_store_has(s, (int32_t)i, part))
                PPL_TRY(part_take(s, from, (int32_t)i, part));
    return PPL_OK;
}

int64_t ppl_store_bytes(const ppl_store *s, int32_t rank, int32_t kind) {
    int64_t bytes = 0;
    for (size_t i = 0; i < s->graph->n_params; i++) {
        const ppl_store_entry *e = ppl_store_at(s, rank, (int32_t)i);
        const ppl_type *type = &s->graph->params[i].type;
        int64_t n = ppl_type_elements(type), master = n * (int64_t)ppl_dtype_size(type->dtype);
        if (kind == PPL_MEM_PARAMETERS) {
            if (e->master) bytes += master;
            if (e->copy) bytes += n * (int64_t)ppl_dtype_size(s->graph->dtype);
            if (e->versions > 1) bytes += (e->versions - 1) * n * (int64_t)ppl_dtype_size(s->graph->dtype);
        } else if (kind == PPL_MEM_OPTIMIZER) {
            bytes += master * ((e->moment1 != NULL) + (e->moment2 != NULL));
            for (int32_t k = 0; k < 3; k++) bytes += e->spare[k] ? master : 0;
        }
    }
    return bytes;
}
