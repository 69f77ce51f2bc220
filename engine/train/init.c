// init.c - initial weights: a function of (seed, name, element) alone, so that they do not depend on stages or ranks.
// Before it: a parameter's spec; after it: the store's masters, or a tensor.
#include "base/random.h"
#include "train/store.h"
#include <math.h>

static const double two_pi = 6.28318530717958647693;

// Four numbers of the spec's distribution from one Philox block.
static void draw(const ppl_param_spec *spec, const uint32_t word[4], double x[4]) {
    switch ((ppl_init)spec->init) {
    case PPL_INIT_ZEROS:
    case PPL_INIT_ONES:
        for (int k = 0; k < 4; k++) x[k] = spec->init == PPL_INIT_ONES;
        return;
    case PPL_INIT_NORMAL: // Box and Muller, 1958: two words make two numbers
        for (int k = 0; k < 4; k += 2) {
            double radius = sqrt(-2 * log(((double)word[k] + 1) * 0x1p-32));
            double angle = two_pi * ((double)word[k + 1] * 0x1p-32);
            x[k] = spec->a * radius * cos(angle);
            x[k + 1] = spec->a * radius * sin(angle);
        }
        return;
    case PPL_INIT_UNIFORM:
        for (int k = 0; k < 4; k++) x[k] = spec->a * (2 * (double)ppl_unit(word[k]) - 1);
        return;
    }
}

void ppl_init_fill(void *data, int32_t dtype, int64_t n, const ppl_param_spec *spec, uint64_t seed, const char *name) {
    uint64_t key = ppl_mix_key(seed, ppl_name_key(name));
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t word[4];
        double x[4] = {0};
        ppl_philox(key, 0, (uint64_t)i / 4, word);
        draw(spec, word, x);
        for (int64_t k = 0; k < 4 && i + k < n; k++) ppl_number_set(data, dtype, i + k, x[k]);
    }
}
