// test_random.c - orders that no one would write: any placement, any order that is possible at all, over a chain and over
// a graph with skips and ties. Each must compile, find its buffers right in replays, and lose no time to credits.
#include "plan/forward.h"
#include "plan/graphs.h"
#include "base/random.h"
#include "support/plans.h"
#include "support/schedules.h"

typedef struct dice {
    uint64_t seed, n;
} dice;

static int32_t roll(dice *d, int32_t sides) {
    uint32_t bits[4];
    ppl_philox(d->seed, d->n++, 0, bits);
    return (int32_t)(bits[0] % (uint32_t)sides);
}

enum { STAGES = 8, MICROBATCHES = 7 };

typedef struct progress { // what is done so far
    bool f[STAGES][MICROBATCHES], i[STAGES][MICROBATCHES];
    int32_t w[STAGES];
} progress;

static bool try_add(ppl_schedule *s, progress *done, int32_t kind, int32_t k, int32_t m) {
    bool f = !done->f[k][m] && (k == 0 || done->f[k - 1][m]);
    bool i = done->f[k][m] && !done->i[k][m] && (k == s->stages - 1 || done->i[k + 1][m]);
    bool w = done->w[k] == m;
    if (kind == PPL_F ? !f : kind == PPL_I ? !i : kind == PPL_W ? !w || !done->i[k][m] : !i || !w) return false;
    OK(ppl_schedule_add(s, s->stage_rank[k], kind, k, m, 0));
    if (kind == PPL_F) done->f[k][m] = true;
    if (kind == PPL_I || kind == PPL_B) done->i[k][m] = true;
    if (kind == PPL_W || kind == PPL_B) done->w[k]++;
    return true;
}

// An order that one worker could follow over all ranks, dealt out to the ranks.
static ppl_schedule *make_random(dice *d, int32_t ranks, int32_t stages, int32_t m) {
    int32_t place[STAGES] = {0};
    for (int32_t k = 0; k < stages; k++) place[k] = k < ranks ? k : roll(d, ranks);
    for (int32_t k = stages - 1; k > 0; k--) { // shuffled
        int32_t other = roll(d, k + 1), keep = place[k];
        place[k] = place[other];
        place[other] = keep;
    }
    ppl_schedule *s;
    OK(ppl_schedule_open("random", ranks, stages, place, m, &s));
    progress done = {0};
    int32_t eager = roll(d, 4); // how much forwards are preferred
    for (int32_t left = stages; left > 0;) {
        int32_t k = roll(d, stages), mb = roll(d, 3) ? done.w[k] % m : roll(d, m), kind = roll(d, 4 + eager);
        if (kind >= PPL_U) kind = PPL_F;
        if (try_add(s, &done, kind, k, mb) && done.w[k] == m && kind != PPL_F && kind != PPL_I) left--;
    }
    OK(ppl_schedule_check(s));
    return s;
}

static double makespan(ppl_plan *p) {
    double one[STAGES];
    for (int32_t k = 0; k < STAGES; k++) one[k] = 1;
    ppl_sim_result r;
    OK(ppl_plan_simulate(p, &(ppl_costs){.f = one, .i = one, .w = one}, 1, &r));
    return r.makespan;
}

static void check(const ppl_schedule *s, const ppl_stages *stages, const ppl_plan_options *options, uint64_t seed) {
    ppl_plan *p;
    if (ppl_plan_build(s, stages, options, &p) != PPL_OK) fail_msg("seed %d: %s", (int)seed, ppl_error());
    for (uint64_t n = 1; n <= 3; n++) {
        const char *bad = plan_replay(p, 3, seed * 8 + n);
        if (bad) fail_msg("seed %d copies=%d: %s", (int)seed, options->copy_links, bad);
    }
    if (!options->validate) check_forward(p, s);
    double bounded = makespan(p);
    for (int32_t i = 0; i < stages->n_edges; i++)
        if (p->edge[i].buffers) p->edge[i].buffers = ppl_plan_uses(p, i);
    double unbounded = makespan(p);
    if (bounded != unbounded)
        fail_msg("seed %d copies=%d: %g with credits, %g without", (int)seed, options->copy_links, bounded, unbounded);
    ppl_plan_close(p);
}

static void test_random(void **state) {
    (void)state;
    ppl_graph *g = make_graph(6); // eight layers
    for (uint64_t seed = 1; seed <= 400; seed++) {
        dice d = {.seed = seed};
        int32_t stages_n = 1 + roll(&d, STAGES), ranks = 1 + roll(&d, stages_n < 4 ? stages_n : 4), first[STAGES];
        ppl_schedule *s = make_random(&d, ranks, stages_n, 1 + roll(&d, MICROBATCHES));
        ppl_stages *chain, *cut;
        OK(ppl_stages_chain(stages_n, &chain));
        OK(ppl_graph_cut_even(g, stages_n, first));
        OK(ppl_stages_build(g, stages_n, first, &cut));
        for (int32_t bits = 0; bits < 6; bits++) {
            ppl_plan_options options = {.copy_links = bits & 1,
                                        .receive_early = (bits & 1) && seed % 2,
                                        .validate = bits / 2 == 1,
                                        .forward_only = bits / 2 == 2};
            check(s, chain, &options, seed);
            check(s, cut, &options, seed);
        }
        ppl_stages_free(chain);
        ppl_stages_free(cut);
        ppl_schedule_close(s);
    }
    ppl_graph_close(g);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 80 }; // programs run ten times as long
#else
enum { SEEDS = 400 };
#endif

// The same orders as those of asynchronous schedules: whatever they are, their steps overlap without a circle.
static void test_flow(void **state) {
    (void)state;
    int32_t overlap = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        dice d = {.seed = seed};
        int32_t stages_n = 1 + roll(&d, STAGES), ranks = 1 + roll(&d, stages_n < 4 ? stages_n : 4);
        ppl_schedule *s = make_random(&d, ranks, stages_n, 1 + roll(&d, MICROBATCHES));
        ppl_stages *chain;
        OK(ppl_stages_chain(stages_n, &chain));
        for (int32_t bits = 0; bits < 4; bits++) {
            ppl_plan *p;
            ppl_schedule_set_weights(s, bits & 2 ? PPL_WEIGHTS_2BW : PPL_WEIGHTS_STASH);
            if (ppl_plan_build(s, chain, &(ppl_plan_options){.copy_links = bits & 1}, &p) != PPL_OK)
                fail_msg("seed %d: %s", (int)seed, ppl_error());
            for (int32_t r = 0; r < ranks; r++) overlap += ppl_plan_ahead(p, r) > 0;
            for (uint64_t n = 1; n <= 3; n++) {
                const char *bad = plan_replay(p, 4, seed * 8 + n);
                if (bad) fail_msg("seed %d weights=%d copies=%d: %s", (int)seed, p->weights, bits & 1, bad);
            }
            ppl_plan_close(p);
        }
        ppl_stages_free(chain);
        ppl_schedule_close(s);
    }
    assert_true(overlap > SEEDS); // many do
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_flow)};
    return cmocka_run_group_tests_name("plan/random", tests, NULL, NULL);
}
