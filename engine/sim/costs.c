// costs.c - costs checked, copied, jittered, and spread over the links of a plan. Before: ppl.h. After: simulate.c,
// device/emulated, link/local.c.
#include "sim/costs.h"
#include "base/random.h"
#include "base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static ppl_status check_time(const char *where, const char *what, double seconds) {
    if (seconds >= 0 && seconds <= PPL_COSTS_LONGEST) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "%s: %s of %g seconds, want 0 to %g", where, what, seconds, PPL_COSTS_LONGEST);
}

static ppl_status check_bandwidth(const char *where, const char *what, double bandwidth) {
    if (bandwidth >= 0 && isfinite(bandwidth)) return PPL_OK;
    return ppl_fail(PPL_ERR_ARG, "%s: %s of %g bytes a second, want a number above 0, or 0 for no limit", where, what,
                    bandwidth);
}

static ppl_status check_links(const char *where, const ppl_costs *c) {
    PPL_TRY(check_time(where, "a latency", c->latency));
    PPL_TRY(check_bandwidth(where, "a bandwidth", c->bandwidth));
    PPL_TRY(check_time(where, "a latency between nodes", c->between_latency));
    PPL_TRY(check_bandwidth(where, "a bandwidth between nodes", c->between_bandwidth));
    if (c->node_ranks < 0) return ppl_fail(PPL_ERR_ARG, "%s: nodes of %d ranks, want 0 or more", where, c->node_ranks);
    if (c->n_links < 0 || (c->n_links && !c->links))
        return ppl_fail(PPL_ERR_ARG, "%s: %d links and no list of them", where, c->n_links);
    for (int32_t i = 0; i < c->n_links; i++) {
        const ppl_link_cost *l = &c->links[i];
        if (l->from < 0 || l->to < 0 || l->from == l->to)
            return ppl_fail(PPL_ERR_ARG, "%s: link %d goes from rank %d to rank %d, want two ranks from 0", where, i,
                            l->from, l->to);
        for (int32_t k = 0; k < i; k++)
            if (c->links[k].from == l->from && c->links[k].to == l->to)
                return ppl_fail(PPL_ERR_ARG, "%s: links %d and %d both go from rank %d to rank %d, want one", where, k,
                                i, l->from, l->to);
        PPL_TRY(check_time(where, "a link's latency", l->latency));
        PPL_TRY(check_bandwidth(where, "a link's bandwidth", l->bandwidth));
    }
    return PPL_OK;
}

ppl_status ppl_costs_check(const char *where, const ppl_costs *c, int32_t stages) {
    if (!c || !c->f || !c->i || !c->w)
        return ppl_fail(PPL_ERR_ARG, "%s: no costs, want seconds of each stage's F, I and W", where);
    for (int32_t k = 0; k < stages; k++) {
        const double all[] = {c->f[k], c->i[k], c->w[k]};
        for (int32_t i = 0; i < 3; i++)
            if (!(all[i] >= 0 && all[i] <= PPL_COSTS_LONGEST))
                return ppl_fail(PPL_ERR_ARG, "%s: stage %d's %c takes %g seconds, want 0 to %g", where, k, "FIW"[i],
                                all[i], PPL_COSTS_LONGEST);
    }
    if (!(c->update >= 0 && c->update <= PPL_COSTS_LONGEST))
        return ppl_fail(PPL_ERR_ARG, "%s: an update takes %g seconds, want 0 to %g", where, c->update,
                        PPL_COSTS_LONGEST);
    if (!(c->unit_bytes >= 0 && isfinite(c->unit_bytes)))
        return ppl_fail(PPL_ERR_ARG, "%s: a message of %g bytes, want a number from 0", where, c->unit_bytes);
    if (!(c->jitter >= 0 && c->jitter < 1))
        return ppl_fail(PPL_ERR_ARG, "%s: a jitter of %g, want a part from 0 to below 1", where, c->jitter);
    return check_links(where, c);
}

ppl_status ppl_costs_copy(ppl_arena *arena, const ppl_costs *from, int32_t stages, ppl_costs *out) {
    size_t n = (size_t)stages, bytes = n * sizeof(double), links = (size_t)from->n_links * sizeof *from->links;
    double *numbers = ppl_arena_get(arena, 3 * bytes);
    ppl_link_cost *copies = ppl_arena_get(arena, links);
    if (!numbers || !copies) return PPL_ERR_MEMORY;
    memcpy(numbers, from->f, bytes);
    memcpy(numbers + n, from->i, bytes);
    memcpy(numbers + 2 * n, from->w, bytes);
    if (links) memcpy(copies, from->links, links);
    *out = *from;
    out->f = numbers, out->i = numbers + n, out->w = numbers + 2 * n, out->links = copies;
    return PPL_OK;
}

// ---- jitter ----

static double jitter(const ppl_costs *c, uint64_t what, int64_t step, uint64_t lo) {
    uint32_t bits[4];
    ppl_philox(ppl_mix_key(c->jitter_seed, what), (uint64_t)step, lo, bits);
    return 1 + c->jitter * (2 * (double)ppl_unit(bits[0]) - 1);
}

double ppl_costs_program_jitter(const ppl_costs *c, int64_t step, int32_t stage, int32_t phase, int32_t microbatch) {
    if (c->jitter <= 0) return 1;
    return jitter(c, 100 + (uint64_t)phase, step, (uint64_t)stage << 32 | (uint32_t)microbatch);
}

double ppl_costs_message_jitter(const ppl_costs *c, int64_t step, int32_t edge, int32_t reader, int32_t sequence) {
    if (c->jitter <= 0) return 1;
    return jitter(c, 200 + (uint64_t)reader, step, (uint64_t)edge << 32 | (uint32_t)sequence);
}

// ---- links ----

static bool on_nodes(const ppl_costs *c, int32_t from, int32_t to) {
    return c->node_ranks > 0 && from / c->node_ranks != to / c->node_ranks;
}

static double per_byte(double bandwidth) {
    return bandwidth > 0 ? 1 / bandwidth : 0;
}

static void link_set(const ppl_costs *c, ppl_cost_link *l) {
    bool between = on_nodes(c, l->from, l->to);
    l->latency = between ? c->between_latency : c->latency;
    l->per_byte = per_byte(between ? c->between_bandwidth : c->bandwidth);
    for (int32_t i = 0; i < c->n_links; i++) {
        if (c->links[i].from != l->from || c->links[i].to != l->to) continue;
        l->latency = c->links[i].latency;
        l->per_byte = per_byte(c->links[i].bandwidth);
    }
}

double ppl_costs_latency(const ppl_costs *c, int32_t ranks) {
    if (ranks < 2) return 0;
    double longest = c->latency;
    if (on_nodes(c, 0, ranks - 1) && c->between_latency > longest) longest = c->between_latency;
    for (int32_t i = 0; i < c->n_links; i++) {
        const ppl_link_cost *l = &c->links[i];
        if (l->from < ranks && l->to < ranks && l->latency > longest) longest = l->latency;
    }
    return longest;
}

static int by_ranks(const void *a, const void *b) {
    const ppl_cost_link *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

// Every (edge, reader on another rank) as a link, sorted, each link once.
static ppl_status links_find(ppl_arena *arena, const ppl_plan *p, ppl_cost_links *out) {
    size_t most = 0, n = 0;
    for (int32_t e = 0; e < p->stages->n_edges; e++) most += (size_t)p->edge[e].n_readers;
    out->link = ppl_arena_get(arena, most * sizeof *out->link);
    if (!out->link) return PPL_ERR_MEMORY;
    for (int32_t e = 0; e < p->stages->n_edges; e++) {
        int32_t from = ppl_plan_edge_rank(p, e);
        for (int32_t i = 0; i < p->edge[e].n_readers; i++)
            if (p->edge[e].reader_rank[i] != from)
                out->link[n++] = (ppl_cost_link){.from = from, .to = p->edge[e].reader_rank[i]};
    }
    if (n) qsort(out->link, n, sizeof *out->link, by_ranks);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_ranks(&out->link[i], &out->link[out->count - 1])) out->link[out->count++] = out->link[i];
    return PPL_OK;
}

static ppl_status edge_links(ppl_arena *arena, const ppl_plan *p, const ppl_cost_links *links, int32_t edge,
                             int32_t **out) {
    const ppl_edge_plan *e = &p->edge[edge];
    int32_t *of = *out = ppl_arena_get(arena, (size_t)e->n_readers * sizeof *of);
    if (!of) return PPL_ERR_MEMORY;
    ppl_cost_link key = {.from = ppl_plan_edge_rank(p, edge)};
    for (int32_t i = 0; i < e->n_readers; i++) {
        key.to = e->reader_rank[i];
        const ppl_cost_link *l =
            key.to == key.from ? NULL : bsearch(&key, links->link, (size_t)links->count, sizeof *links->link, by_ranks);
        of[i] = l ? (int32_t)(l - links->link) : -1;
    }
    return PPL_OK;
}

ppl_status ppl_cost_links_build(ppl_arena *arena, const char *where, const ppl_plan *p, const ppl_costs *c,
                                ppl_cost_links *out) {
    size_t edges = (size_t)p->stages->n_edges;
    *out = (ppl_cost_links){.of = ppl_arena_get(arena, edges * sizeof *out->of),
                            .bytes = ppl_arena_get(arena, edges * sizeof *out->bytes)};
    if (!out->of || !out->bytes) return PPL_ERR_MEMORY;
    PPL_TRY(links_find(arena, p, out));
    for (int32_t i = 0; i < out->count; i++) link_set(c, &out->link[i]);
    for (size_t e = 0; e < edges; e++) {
        PPL_TRY(edge_links(arena, p, out, (int32_t)e, &out->of[e]));
        out->bytes[e] = (double)p->stages->edges[e].bytes * (p->stages->graph ? 1 : c->unit_bytes);
    }
    for (int32_t i = 0; i < out->count; i++)
        if (out->link[i].per_byte > 0 && !p->stages->graph && c->unit_bytes <= 0)
            return ppl_fail(
                PPL_ERR_ARG,
                "%s: the link from rank %d to rank %d has a bandwidth, and no model says how large a message "
                "is, want its bytes",
                where, out->link[i].from, out->link[i].to);
    return PPL_OK;
}
