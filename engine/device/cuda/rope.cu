// rope.cu - rotary position embedding (Su et al., "RoFormer", 2021): in each rotated head of x (B, T, H D) the pair
// (j, j + D/2) turns by the angle t theta^(-2j/D), back where it is the inverse; other heads are copied. The angles' cosines
// and sines come from the same table as the cpu device's, copied to the device once. Before it: kernels.c.
#include "device/cuda/common.cuh"

// One thread for V neighbouring pairs. table: (T, 2, D/2), cosines, then sines.
template <class T, int V> struct rope_part {
    const T *x;
    T *y;
    const float *table;
    int64_t time, heads, rotated, half;
    float sign;
    __device__ void operator()(int64_t i) const {
        int64_t head_row = quotient_of(i, half), j = i - head_row * half;
        int64_t row = quotient_of(head_row, heads), head = head_row - row * heads;
        int64_t at = head_row * 2 * half + j;
        float a[V], b[V], c[V], s[V];
        load(a, x + at);
        load(b, x + at + half);
        if (head < rotated) {
            const float *turn = table + remainder_of(row, time) * 2 * half + j;
            for (int k = 0; k < V; k++) c[k] = turn[k], s[k] = sign * turn[half + k];
            for (int k = 0; k < V; k++) {
                float ac = a[k] * c[k], bc = b[k] * c[k];
                float turned = fmaf(a[k], s[k], bc);
                a[k] = fmaf(-b[k], s[k], ac);
                b[k] = turned;
            }
        }
        store(y + at, a);
        store(y + at + half, b);
    }
};

template <class T, int V> static cudaError_t turn(const ppl_cuda_job *job) {
    const ppl_type *x = &job->spec->in[0];
    rope_part<T, V> part;
    part.x = (const T *)job->call->in[0];
    part.y = (T *)job->call->out[0];
    part.table = (const float *)job->table;
    part.time = x->dim[1];
    part.half = job->spec->attrs.i[0] / 2;
    part.heads = x->dim[2] / job->spec->attrs.i[0];
    part.rotated = job->spec->attrs.i[1];
    part.sign = job->spec->attrs.i[2] ? -1.0f : 1.0f;
    return each_run<V>(ppl_type_elements(x) / 2, part, job->stream);
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    return job->spec->attrs.i[0] / 2 % V == 0 ? turn<T, V>(job) : turn<T, 1>(job);
}

extern "C" cudaError_t ppl_cuda_rope(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }
