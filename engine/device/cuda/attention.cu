// attention.cu - o = softmax(scale q k^T) v for each head, and lse (B, H, T), block by block without the matrix of scores in
// memory. Before it: kernels.c. After it: attention_mma.cuh or attention_plain.cuh; attention_grad.cu reads lse.
#include "device/cuda/attention_mma.cuh"
#include "device/cuda/attention_plain.cuh"

// ---- tensor cores: a block has 128 queries, 16 a warp, a step 64 keys, the next 64 on their way meanwhile ----

enum { KEYS = 64, FORWARD_WARPS = 8 };

template <int D> struct forward_shape {
    enum { threads = FORWARD_WARPS * WARP, queries = FORWARD_WARPS * 16, row = tile_row<D>::numbers };
    static constexpr size_t shared = (size_t)4 * KEYS * row * sizeof(bf16); // two pairs of key and value tiles
    static_assert(queries == 2 * KEYS, "the queries' tile lies where the second pair comes later");
};

// One step of a warp's 16 rows: scores become weights, the running maximum and sum follow, o is scaled to them. Scores and
// maximum wait for their scale, which with log2(e) in it makes the weights powers of 2. first: query; key: of the tile.
template <int D>
__device__ __forceinline__ void step_weights(float (&s)[KEYS / 8][4], float (&o)[D / 8][4], float (&max)[2], float (&sum)[2],
                                             int first, int key, int time, bool causal, float scale) {
    int lane = threadIdx.x % WARP;
    bool masks = key + KEYS > time || (causal && key + KEYS - 1 > first);
    float top[2] = {max[0], max[1]};
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int k = key + n * 8 + lane % 4 * 2 + i % 2, q = first + lane / 4 + i / 2 * 8;
            if (masks && (k >= time || (causal && k > q))) s[n][i] = -INFINITY;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 2));
        float shrink = power2((max[h] - top[h]) * scale);
        max[h] = top[h];
        sum[h] *= shrink;
#pragma unroll
        for (int n = 0; n < D / 8; n++) o[n][2 * h] *= shrink, o[n][2 * h + 1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = power2(fmaf(s[n][i], scale, -scale * max[i / 2]));
            sum[i / 2] += s[n][i];
        }
    }
}

template <int D>
__global__ void __launch_bounds__(FORWARD_WARPS *WARP) attention_mma(attention_heads<bf16> a, bf16 *__restrict__ out, float *__restrict__ lse) {
    typedef forward_shape<D> shape;
    PPL_SHARED_DYNAMIC(bf16, shared);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int block = gridDim.x - 1 - blockIdx.x; // with a causal mask the last queries have most to do: they begin
    int h = blockIdx.y % a.heads, b = blockIdx.y / a.heads, first = block * shape::queries;
    int64_t sample = (int64_t)b * a.time;
    const bf16 *q = a.q + sample * a.q_row + (int64_t)h * a.d;
    const bf16 *k = a.k + sample * a.kv_row + (int64_t)(h / a.group) * a.d;
    const bf16 *v = a.v + sample * a.kv_row + (int64_t)(h / a.group) * a.d;
    constexpr int PAIR = 2 * KEYS * shape::row; // a tile of keys, then one of values; two pairs take turns
    int steps = (a.time + KEYS - 1) / KEYS, seen = (first + shape::queries - 1) / KEYS + 1;
    if (a.causal && seen < steps) steps = seen;

    uint32_t left[D / 16][4];
    tile_load<shape::queries, D, shape::threads>(shared + PAIR, q, a.q_row, first, a.time, a.d, a.aligned);
    ppl_copy_commit();
    tile_load<KEYS, D, shape::threads>(shared, k, a.kv_row, 0, a.time, a.d, a.aligned);
    tile_load<KEYS, D, shape::threads>(shared + KEYS * shape::row, v, a.kv_row, 0, a.time, a.d, a.aligned);
    ppl_copy_commit();
    ppl_copy_wait<1>();
    __syncthreads();
#pragma unroll
    for (int c = 0; c < D / 16; c++) left_load<D>(left[c], shared + PAIR, warp * 16, c * 16);
    __syncthreads();

    float o[D / 8][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    int row = first + warp * 16; // the warp's first query
    for (int step = 0; step < steps; step++) {
        const bf16 *keys = shared + step % 2 * PAIR, *values = keys + KEYS * shape::row;
        if (step + 1 < steps) {
            bf16 *next = shared + (step + 1) % 2 * PAIR;
            tile_load<KEYS, D, shape::threads>(next, k, a.kv_row, (step + 1) * KEYS, a.time, a.d, a.aligned);
            tile_load<KEYS, D, shape::threads>(next + KEYS * shape::row, v, a.kv_row, (step + 1) * KEYS, a.time, a.d, a.aligned);
        }
        ppl_copy_commit();
        ppl_copy_wait<1>();
        __syncthreads();
        if (!a.causal || step * KEYS <= row + 15) {
            float s[KEYS / 8][4] = {};
#pragma unroll
            for (int c = 0; c < D / 16; c++) product_by_rows<D>(s, left[c], keys, c * 16);
            step_weights<D>(s, o, max, sum, row, step * KEYS, a.time, a.causal, a.scale * LOG2_E);
#pragma unroll
            for (int c = 0; c < KEYS / 16; c++) {
                uint32_t weights[4];
                left_of(weights, s[2 * c], s[2 * c + 1]);
                product_by_columns<D>(o, weights, values, c * 16);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
        int at = row + lane / 4 + 8 * i;
        if (lane % 4 == 0 && at < a.time)
            lse[(int64_t)blockIdx.y * a.time + at] = max[i] * a.scale + logf(sum[i]);
    }
    rows_store<D>(out + sample * a.o_row + (int64_t)h * a.d, a.o_row, row, a.time, a.d, o, 1.0f / sum[0], 1.0f / sum[1]);
}

template <int D> static cudaError_t mma_launch(const ppl_cuda_job *job) {
    typedef forward_shape<D> shape;
    attention_heads<bf16> a = attention_heads_of<bf16>(job, 0);
    bf16 *out = (bf16 *)job->call->out[0];
    float *lse = (float *)job->call->out[1];
    dim3 grid((unsigned)((a.time + shape::queries - 1) / shape::queries), (unsigned)(a.batch * a.heads));
    cudaError_t error = shared_ask(attention_mma<D>, shape::shared);
    if (error != cudaSuccess) return error;
    PPL_LAUNCH(attention_mma<D>, grid, (int)shape::threads, shape::shared, job->stream, a, out, lse);
    return cudaGetLastError();
}

// ---- plain ----

template <class T, int C>
__global__ void __launch_bounds__(PLAIN_THREADS) attention_plain(attention_heads<T> a, T *__restrict__ out, float *__restrict__ lse) {
    PPL_SHARED_DYNAMIC(float, shared);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = plain_row(a.d);
    int h = blockIdx.y % a.heads, b = blockIdx.y / a.heads, block = (int)blockIdx.x * PLAIN_BLOCK;
    int first = block + warp * PLAIN_ROWS;
    int64_t sample = (int64_t)b * a.time, kv = (int64_t)(h / a.group) * a.d;
    float *queries = shared, *keys = queries + PLAIN_BLOCK * row, *values = keys + WARP * row;
    float acc[PLAIN_ROWS][C] = {}, max[PLAIN_ROWS], sum[PLAIN_ROWS] = {}, s[PLAIN_ROWS];
    for (int r = 0; r < PLAIN_ROWS; r++) max[r] = -INFINITY;
    plain_load(queries, a.q + sample * a.q_row + (int64_t)h * a.d, a.q_row, PLAIN_BLOCK, block, a.time, a.d);
    int end = a.causal && block + PLAIN_BLOCK < a.time ? block + PLAIN_BLOCK : a.time;
    for (int key = 0; key < end; key += WARP) {
        __syncthreads(); // the tile before is read
        plain_load(keys, a.k + sample * a.kv_row + kv, a.kv_row, WARP, key, a.time, a.d);
        plain_load(values, a.v + sample * a.kv_row + kv, a.kv_row, WARP, key, a.time, a.d);
        __syncthreads();
        plain_dots(s, queries + warp * PLAIN_ROWS * row, keys, a.d);
        for (int r = 0; r < PLAIN_ROWS; r++) {
            bool hidden = key + lane >= a.time || (a.causal && key + lane > first + r);
            s[r] = hidden ? -INFINITY : s[r] * a.scale;
            float top = fmaxf(max[r], warp_max(s[r]));
            float shrink = top == -INFINITY ? 1.0f : expf(max[r] - top); // nothing seen yet: nothing to shrink
            s[r] = hidden ? 0.0f : expf(s[r] - top);
            sum[r] = sum[r] * shrink + warp_sum(s[r]);
            max[r] = top;
            for (int c = 0; c < C; c++) acc[r][c] *= shrink;
        }
        plain_add(acc, s, values, a.d);
    }
    for (int r = 0; r < PLAIN_ROWS; r++) {
        if (lane == 0 && first + r < a.time) lse[(int64_t)blockIdx.y * a.time + first + r] = max[r] + logf(sum[r]);
        sum[r] = 1.0f / sum[r];
    }
    plain_store(out + sample * a.o_row + (int64_t)h * a.d, a.o_row, first, a.time, a.d, acc, sum);
}

template <class T, int C> static cudaError_t plain_launch(const ppl_cuda_job *job) {
    attention_heads<T> a = attention_heads_of<T>(job, 0);
    T *out = (T *)job->call->out[0];
    float *lse = (float *)job->call->out[1];
    size_t shared = plain_shared(a.d, 1, 2);
    dim3 grid((unsigned)((a.time + PLAIN_BLOCK - 1) / PLAIN_BLOCK), (unsigned)(a.batch * a.heads));
    cudaError_t error = shared_ask(attention_plain<T, C>, shared);
    if (error != cudaSuccess) return error;
    PPL_LAUNCH((attention_plain<T, C>), grid, PLAIN_THREADS, shared, job->stream, a, out, lse);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_attention(const ppl_cuda_job *job) {
    if (job->spec->in[0].dtype == PPL_BF16) {
        int32_t d = attention_heads_of<bf16>(job, 0).d;
        if (d <= 64) return mma_launch<64>(job);
        return d <= MMA_HEAD_MOST ? mma_launch<128>(job) : plain_launch<bf16, 8>(job);
    }
    return attention_heads_of<float>(job, 0).d <= 64 ? plain_launch<float, 2>(job) : plain_launch<float, 8>(job);
}
