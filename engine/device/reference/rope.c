// rope.c - rotary position embedding (Su et al., "RoFormer", 2021): in each rotated head the pair (j, j + D/2) turns by
// the angle t theta^(-2j/D); the inverse turns back, which is also the gradient.
#include "device/reference/reference.h"

// x (B, T, H D); heads from `rotated` on are copied
static ppl_status rope(const ppl_kernel_spec *spec, void *state, const ppl_call *call) {
    (void)state;
    const ppl_type *x = &spec->in[0];
    int64_t batch = x->dim[0], time = x->dim[1], d = spec->attrs.i[0], heads = x->dim[2] / d;
    int64_t rotated = spec->attrs.i[1], half = d / 2;
    double sign = spec->attrs.i[2] ? -1 : 1;
    for (int64_t row = 0; row < batch * time; row++) {
        for (int64_t head = 0; head < heads; head++) {
            for (int64_t j = 0; j < half; j++) {
                int64_t at = (row * heads + head) * d + j;
                double angle = (double)(row % time) * pow(spec->attrs.f[0], -2 * (double)j / (double)d) * sign;
                double c = head < rotated ? cos(angle) : 1, s = head < rotated ? sin(angle) : 0;
                double a = get(spec, call, 0, at), b = get(spec, call, 0, at + half);
                put(spec, call, 0, at, a * c - b * s);
                put(spec, call, 0, at + half, b * c + a * s);
            }
        }
    }
    return PPL_OK;
}

PPL_REFERENCE_KERNEL(rope, rope);
