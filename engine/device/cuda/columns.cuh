// columns.cuh - sums over rows, one for each column: the gradients of biases and gains. Rows are dealt out in shares whose
// number depends on the shape alone; each share's sums go to scratch, and a second kernel adds the shares in order, so
// that the bits are always the same. Before it: reduce.cu, layernorm_dw.cu, rmsnorm_dw.cu; after it: common.cuh.
#ifndef PPL_DEVICE_CUDA_COLUMNS_CUH
#define PPL_DEVICE_CUDA_COLUMNS_CUH
#include "device/cuda/common.cuh"

enum { COLUMN_WARPS = 8, COLUMN_BLOCKS = 1024 }; // warps of a block, each with every eighth row; blocks wanted

// Shares of rows: enough blocks for the device, and at least 32 rows each.
static inline int64_t column_shares(int64_t rows, int64_t columns) {
    int64_t tiles = (columns + WARP - 1) / WARP; // of the narrowest kernel: one column a lane
    int64_t shares = (COLUMN_BLOCKS + tiles - 1) / tiles, most = (rows + 31) / 32;
    return shares < most ? shares : most;
}

// F: term(row, column, x) gives V numbers of each of S sums. A block has WARP * V columns and one share.
template <int V, int S, class F>
__global__ void __launch_bounds__(WARP *COLUMN_WARPS)
    column_shares_sum(F f, float *__restrict__ partial, int64_t rows, int64_t columns, int64_t per_share) {
    PPL_SHARED(float, shared, [S][COLUMN_WARPS][WARP * V]);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t column = ((int64_t)blockIdx.x * WARP + lane) * V, first = (int64_t)blockIdx.y * per_share;
    int64_t end = first + per_share < rows ? first + per_share : rows;
    float sum[S][V] = {};
    for (int64_t r = first + warp; column < columns && r < end; r += COLUMN_WARPS) {
        float x[S][V];
        f.term(r, column, x);
        for (int s = 0; s < S; s++)
            for (int k = 0; k < V; k++) sum[s][k] += x[s][k];
    }
    for (int s = 0; s < S; s++)
        for (int k = 0; k < V; k++) shared[s][warp][k * WARP + lane] = sum[s][k];
    __syncthreads();
    for (int i = threadIdx.x; i < S * WARP * V; i += WARP * COLUMN_WARPS) {
        int s = i / (WARP * V), j = i % (WARP * V);
        int64_t to = ((int64_t)blockIdx.x * WARP + j % WARP) * V + j / WARP; // lane j % WARP's number j / WARP
        float total = 0;
        for (int w = 0; w < COLUMN_WARPS; w++) total += shared[s][w][j];
        if (to < columns) partial[((int64_t)blockIdx.y * S + s) * columns + to] = total;
    }
}

template <class T>
__global__ void __launch_bounds__(EACH_BLOCK)
    column_totals(const float *__restrict__ partial, T *__restrict__ out, int64_t columns, int64_t shares, int sums,
                  int which, bool add) {
    int64_t i = (int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x;
    if (i >= columns) return;
    float total = 0;
    for (int64_t s = 0; s < shares; s++) total += partial[(s * sums + which) * columns + i];
    out[i] = narrow<T>(add ? widen(out[i]) + total : total);
}

static inline cudaError_t column_total(const ppl_cuda_job *job, const float *partial, int output, int64_t columns,
                                       int64_t shares, int sums) {
    unsigned blocks = (unsigned)((columns + EACH_BLOCK - 1) / EACH_BLOCK);
    bool add = job->spec->accumulates && job->call->add;
    void *out = job->call->out[output];
    if (job->spec->out[output].dtype == PPL_BF16) {
        PPL_LAUNCH(column_totals<bf16>, blocks, EACH_BLOCK, 0, job->stream, partial, (bf16 *)out, columns, shares, sums,
                   output, add);
    } else {
        PPL_LAUNCH(column_totals<float>, blocks, EACH_BLOCK, 0, job->stream, partial, (float *)out, columns, shares,
                   sums, output, add);
    }
    return cudaGetLastError();
}

// Sum s of f's terms goes to output s of the job. V divides columns.
template <int V, int S, class F>
cudaError_t columns_run(const ppl_cuda_job *job, int64_t rows, int64_t columns, const F &f) {
    int64_t shares = column_shares(rows, columns), per_share = (rows + shares - 1) / shares;
    float *partial = (float *)job->call->scratch;
    dim3 grid((unsigned)((columns + WARP * V - 1) / (WARP * V)), (unsigned)shares);
    PPL_LAUNCH((column_shares_sum<V, S, F>), grid, WARP *COLUMN_WARPS, 0, job->stream, f, partial, rows, columns,
               per_share);
    cudaError_t error = cudaGetLastError();
    for (int s = 0; s < S && error == cudaSuccess; s++) error = column_total(job, partial, s, columns, shares, S);
    return error;
}

#endif
