// transpose.cu - two dims exchanged, elements moved and not looked at. x is (outer, A, middle, B, inner), y (outer, B,
// middle, A, inner). With inner > 1 runs of inner elements move whole; else tiles turn in shared memory, so that reads and
// writes both follow memory. Before it: kernels.c. After it: common.cuh.
#include "device/cuda/common.cuh"

struct transpose_dims {
    int64_t outer, a, middle, b, inner;
};

static transpose_dims dims_of(const ppl_kernel_spec *spec) {
    const ppl_type *x = &spec->in[0];
    int64_t low = spec->attrs.i[0] < spec->attrs.i[1] ? spec->attrs.i[0] : spec->attrs.i[1];
    int64_t high = spec->attrs.i[0] + spec->attrs.i[1] - low;
    transpose_dims d = {1, x->dim[low], 1, x->dim[high], 1};
    for (int64_t i = 0; i < low; i++) d.outer *= x->dim[i];
    for (int64_t i = low + 1; i < high; i++) d.middle *= x->dim[i];
    for (int64_t i = high + 1; i < x->ndim; i++) d.inner *= x->dim[i];
    return d;
}

// Number i of y in units: inner is in units too.
template <class U> struct transpose_part {
    const U *x;
    U *y;
    transpose_dims d;
    __device__ void operator()(int64_t i) const {
        int64_t rest = quotient_of(i, d.inner), inner = i - rest * d.inner;
        int64_t t = quotient_of(rest, d.a), a = rest - t * d.a;
        rest = quotient_of(t, d.middle);
        int64_t m = t - rest * d.middle, o = quotient_of(rest, d.b), b = rest - o * d.b;
        y[i] = x[(((o * d.a + a) * d.middle + m) * d.b + b) * d.inner + inner];
    }
};

enum { TILE = 32, TILE_ROWS = 8 };

// Block (x, y, z): columns of B, rows of A, and which of (outer, middle).
template <class U>
__global__ void __launch_bounds__(TILE *TILE_ROWS) tile_turn(const U *__restrict__ x, U *__restrict__ y, transpose_dims d) {
    PPL_SHARED(U, tile, [TILE][TILE + 1]);
    int64_t b0 = (int64_t)blockIdx.x * TILE, a0 = (int64_t)blockIdx.y * TILE;
    int column = threadIdx.x % TILE, row = threadIdx.x / TILE;
    for (int64_t z = blockIdx.z; z < d.outer * d.middle; z += gridDim.z) {
        int64_t o = z / d.middle, m = z % d.middle;
        __syncthreads(); // the tile before is written
        for (int r = row; r < TILE; r += TILE_ROWS)
            if (a0 + r < d.a && b0 + column < d.b)
                tile[r][column] = x[((o * d.a + a0 + r) * d.middle + m) * d.b + b0 + column];
        __syncthreads();
        for (int r = row; r < TILE; r += TILE_ROWS)
            if (b0 + r < d.b && a0 + column < d.a)
                y[((o * d.b + b0 + r) * d.middle + m) * d.a + a0 + column] = tile[column][r];
    }
}

// Tiles along A and z go by grid y and z, which hold 65,535 each: beyond that, numbers move one by one.
template <class U> static cudaError_t turn(const ppl_cuda_job *job, transpose_dims d) {
    const U *x = (const U *)job->call->in[0];
    U *y = (U *)job->call->out[0];
    int64_t tiles = (d.a + TILE - 1) / TILE, most = 65535, z = d.outer * d.middle;
    if (d.inner > 1 || tiles > most) {
        transpose_part<U> part = {x, y, d};
        return each_run<1>(d.outer * d.a * d.middle * d.b * d.inner, part, job->stream);
    }
    dim3 grid((unsigned)((d.b + TILE - 1) / TILE), (unsigned)tiles, (unsigned)(z < most ? z : most));
    PPL_LAUNCH(tile_turn<U>, grid, TILE *TILE_ROWS, 0, job->stream, x, y, d);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_transpose(const ppl_cuda_job *job) {
    transpose_dims d = dims_of(job->spec);
    int64_t size = (int64_t)ppl_dtype_size(job->spec->in[0].dtype);
    if (d.inner * size % 16 == 0) {
        d.inner = d.inner * size / 16;
        transpose_part<bundle<float, 4>> part = {(const bundle<float, 4> *)job->call->in[0],
                                                 (bundle<float, 4> *)job->call->out[0], d};
        return each_run<1>(d.outer * d.a * d.middle * d.b * d.inner, part, job->stream);
    }
    return size == 2 ? turn<uint16_t>(job, d) : turn<uint32_t>(job, d);
}
