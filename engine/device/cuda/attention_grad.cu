// attention_grad.cu - dy, o, lse, q, k, v -> dq, dk, dv, with the weights computed again from lse and without the matrix of
// scores in memory. Before it: attention.cu's o and lse. After it: attention_mma.cuh or attention_plain.cuh.
//
// With p = e^(scale q.k - lse), delta = dy.o and ds = p (dy.v - delta):  dv = p^T dy,  dk = scale ds^T q,  dq = scale ds k.
// Keys and queries have a kernel each, which sum over the other side in order: no atomic sums, always the same bits, at the
// price of computing p twice.
#include "device/cuda/attention_mma.cuh"
#include "device/cuda/attention_plain.cuh"

template <class T> struct grad_inputs {
    const T *dy;
    const float *lse, *delta; // (B, H, T)
};

// delta: a warp for each position of each head.
template <class T>
__global__ void __launch_bounds__(EACH_BLOCK)
    deltas(const T *__restrict__ dy, const T *__restrict__ o, float *__restrict__ delta, int64_t count, int32_t time,
           int32_t heads, int32_t d) {
    int64_t i = ((int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x) / WARP; // (b * time + t) * heads + h
    if (i >= count) return;
    float sum = 0;
    for (int c = threadIdx.x % WARP; c < d; c += WARP) sum = fmaf(widen(dy[i * d + c]), widen(o[i * d + c]), sum);
    sum = warp_sum(sum);
    int64_t position = quotient_of(i, heads), h = i - position * heads, b = quotient_of(position, time);
    if (threadIdx.x % WARP == 0) delta[(b * heads + h) * time + position - b * time] = sum;
}

template <class T> static cudaError_t deltas_run(const ppl_cuda_job *job, const attention_heads<T> &a) {
    const T *dy = (const T *)job->call->in[0], *o = (const T *)job->call->in[1];
    float *delta = (float *)job->call->scratch;
    int64_t count = (int64_t)a.batch * a.time * a.heads;
    unsigned blocks = (unsigned)((count * WARP + EACH_BLOCK - 1) / EACH_BLOCK);
    int32_t time = a.time, heads = a.heads, d = a.d;
    PPL_LAUNCH(deltas<T>, blocks, EACH_BLOCK, 0, job->stream, dy, o, delta, count, time, heads, d);
    return cudaGetLastError();
}

extern "C" size_t ppl_cuda_attention_grad_scratch(const ppl_kernel_spec *spec) {
    return (size_t)ppl_type_elements(&spec->in[2]) * sizeof(float);
}

// ---- tensor cores: 64 keys (or queries) a block, a step `other` of the other side, the next ones on their way ----

enum { GRAD_WARPS = 4, GRAD_THREADS = GRAD_WARPS * WARP, GRAD_OWN = GRAD_WARPS * 16 };

template <int D> struct grad_shape {
    enum { other = D == 64 ? 64 : 32, row = tile_row<D>::numbers, own_pair = 2 * GRAD_OWN * row, pair = 2 * other * row };
    static constexpr size_t numbers = 2 * 2 * other * sizeof(float); // lse and delta of two steps
    static constexpr size_t shared = (own_pair + 2 * pair) * sizeof(bf16) + numbers;
};

// dk and dv: a block has 64 keys of a key head and goes through its query heads and their queries.
template <int D> struct key_step { // one step of that walk
    int head, first;
};
template <int D>
__device__ __forceinline__ key_step<D> key_step_of(const attention_heads<bf16> &a, int kv, int begin, int steps, int at) {
    return key_step<D>{kv * a.group + at / steps, (begin + at % steps) * grad_shape<D>::other};
}

template <int D>
__device__ __forceinline__ void key_step_load(bf16 *tile, float *numbers, const attention_heads<bf16> &a,
                                              const grad_inputs<bf16> &in, int64_t sample, int b, key_step<D> s) {
    typedef grad_shape<D> shape;
    constexpr int N = shape::other;
    tile_load<N, D, GRAD_THREADS>(tile, a.q + sample * a.q_row + (int64_t)s.head * a.d, a.q_row, s.first, a.time, a.d, a.aligned);
    tile_load<N, D, GRAD_THREADS>(tile + N * shape::row, in.dy + sample * a.o_row + (int64_t)s.head * a.d, a.o_row, s.first,
                                  a.time, a.d, a.aligned);
    int64_t at = ((int64_t)b * a.heads + s.head) * a.time + s.first;
    for (int i = threadIdx.x; i < N; i += GRAD_THREADS) {
        bool valid = s.first + i < a.time;
        numbers[i] = valid ? in.lse[at + i] * LOG2_E : 0.0f;
        numbers[N + i] = valid ? in.delta[at + i] : 0.0f;
    }
}

// p^T of 16 keys from their scores with N queries.
template <int N>
__device__ __forceinline__ void key_weights(float (&s)[N / 8][4], const float *lse, int key, int query, const attention_heads<bf16> &a) {
    int lane = threadIdx.x % WARP;
    float scale = a.scale * LOG2_E;
#pragma unroll
    for (int n = 0; n < N / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = n * 8 + lane % 4 * 2 + i % 2, q = query + column, k = key + lane / 4 + i / 2 * 8;
            bool hidden = q >= a.time || k >= a.time || (a.causal && k > q);
            s[n][i] = hidden ? 0.0f : power2(fmaf(s[n][i], scale, -lse[column]));
        }
    }
}

// p and dp of N columns become ds. delta: of a column.
template <int N> __device__ __forceinline__ void key_slopes(float (&dp)[N / 8][4], const float (&p)[N / 8][4], const float *delta) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) dp[n][i] = p[n][i] * (dp[n][i] - delta[n * 8 + lane % 4 * 2 + i % 2]);
}

// acc (16, D) += x (16, N) tile (N, D)
template <int D, int N>
__device__ __forceinline__ void rows_add(float (&acc)[D / 8][4], const float (&x)[N / 8][4], const bf16 *tile) {
#pragma unroll
    for (int c = 0; c < N / 16; c++) {
        uint32_t left[4];
        left_of(left, x[2 * c], x[2 * c + 1]);
        product_by_columns<D>(acc, left, tile, c * 16);
    }
}

// x (16, N) = rows row .. of `own` times the rows of `tile`
template <int D, int N>
__device__ __forceinline__ void rows_times(float (&x)[N / 8][4], const bf16 *own, int row, const bf16 *tile) {
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        uint32_t left[4];
        left_load<D>(left, own, row, c * 16);
        product_by_rows<D>(x, left, tile, c * 16);
    }
}

template <int D>
__global__ void __launch_bounds__(GRAD_THREADS, 2) // two blocks a processor: else it spills to fit three
    keys_grad_mma(attention_heads<bf16> a, grad_inputs<bf16> in, attention_grads<bf16> out) {
    typedef grad_shape<D> shape;
    constexpr int N = shape::other;
    PPL_SHARED_DYNAMIC(bf16, keys);
    bf16 *values = keys + GRAD_OWN * shape::row, *tiles = keys + shape::own_pair;
    float *numbers = reinterpret_cast<float *>(tiles + 2 * shape::pair);
    int warp = threadIdx.x / WARP, kv = blockIdx.y % a.kv_heads, b = blockIdx.y / a.kv_heads;
    int first = (int)blockIdx.x * GRAD_OWN, key = first + warp * 16;
    int64_t sample = (int64_t)b * a.time, at_head = sample * a.kv_row + (int64_t)kv * a.d;
    int begin = a.causal ? first / N : 0, steps = (a.time + N - 1) / N - begin, all = steps * a.group;

    tile_load<GRAD_OWN, D, GRAD_THREADS>(keys, a.k + at_head, a.kv_row, first, a.time, a.d, a.aligned);
    tile_load<GRAD_OWN, D, GRAD_THREADS>(values, a.v + at_head, a.kv_row, first, a.time, a.d, a.aligned);
    key_step_load<D>(tiles, numbers, a, in, sample, b, key_step_of<D>(a, kv, begin, steps, 0));
    ppl_copy_commit();
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    for (int at = 0; at < all; at++) {
        const bf16 *queries = tiles + at % 2 * shape::pair, *dy = queries + N * shape::row;
        const float *lse = numbers + at % 2 * 2 * N;
        if (at + 1 < all)
            key_step_load<D>(tiles + (at + 1) % 2 * shape::pair, numbers + (at + 1) % 2 * 2 * N, a, in, sample, b,
                             key_step_of<D>(a, kv, begin, steps, at + 1));
        ppl_copy_commit();
        ppl_copy_wait<1>();
        __syncthreads();
        int query = key_step_of<D>(a, kv, begin, steps, at).first;
        if (!a.causal || query + N > key) {
            float p[N / 8][4] = {}, dp[N / 8][4] = {};
            rows_times<D, N>(p, keys, warp * 16, queries);
            key_weights<N>(p, lse, key, query, a);
            rows_add<D, N>(dv, p, dy);
            rows_times<D, N>(dp, values, warp * 16, dy);
            key_slopes<N>(dp, p, lse + N);
            rows_add<D, N>(dk, dp, queries);
        }
        __syncthreads();
    }
    rows_store<D>(out.dk + at_head, a.kv_row, key, a.time, a.d, dk, a.scale, a.scale);
    rows_store<D>(out.dv + at_head, a.kv_row, key, a.time, a.d, dv, 1.0f, 1.0f);
}

// dq: a block has 64 queries of a head and goes through the keys they see.
template <int D>
__global__ void __launch_bounds__(GRAD_THREADS)
    queries_grad_mma(attention_heads<bf16> a, grad_inputs<bf16> in, attention_grads<bf16> out) {
    typedef grad_shape<D> shape;
    constexpr int N = shape::other;
    PPL_SHARED_DYNAMIC(bf16, queries);
    bf16 *dy = queries + GRAD_OWN * shape::row, *tiles = queries + shape::own_pair;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, h = blockIdx.y % a.heads, b = blockIdx.y / a.heads;
    int first = (int)(gridDim.x - 1 - blockIdx.x) * GRAD_OWN, query = first + warp * 16;
    int64_t sample = (int64_t)b * a.time, kv = sample * a.kv_row + (int64_t)(h / a.group) * a.d;
    int64_t at_query = sample * a.q_row + (int64_t)h * a.d, numbers = (int64_t)blockIdx.y * a.time;
    int steps = (a.time + N - 1) / N, seen = (first + GRAD_OWN - 1) / N + 1;
    if (a.causal && seen < steps) steps = seen;

    tile_load<GRAD_OWN, D, GRAD_THREADS>(queries, a.q + at_query, a.q_row, first, a.time, a.d, a.aligned);
    tile_load<GRAD_OWN, D, GRAD_THREADS>(dy, in.dy + sample * a.o_row + (int64_t)h * a.d, a.o_row, first, a.time, a.d, a.aligned);
    tile_load<N, D, GRAD_THREADS>(tiles, a.k + kv, a.kv_row, 0, a.time, a.d, a.aligned);
    tile_load<N, D, GRAD_THREADS>(tiles + N * shape::row, a.v + kv, a.kv_row, 0, a.time, a.d, a.aligned);
    ppl_copy_commit();
    float dq[D / 8][4] = {}, lse[2], delta[2];
    for (int i = 0; i < 2; i++) {
        int q = query + lane / 4 + 8 * i;
        lse[i] = q < a.time ? in.lse[numbers + q] * LOG2_E : 0.0f;
        delta[i] = q < a.time ? in.delta[numbers + q] : 0.0f;
    }
    for (int step = 0; step < steps; step++) {
        const bf16 *keys = tiles + step % 2 * shape::pair, *values = keys + N * shape::row;
        if (step + 1 < steps) {
            bf16 *next = tiles + (step + 1) % 2 * shape::pair;
            tile_load<N, D, GRAD_THREADS>(next, a.k + kv, a.kv_row, (step + 1) * N, a.time, a.d, a.aligned);
            tile_load<N, D, GRAD_THREADS>(next + N * shape::row, a.v + kv, a.kv_row, (step + 1) * N, a.time, a.d, a.aligned);
        }
        ppl_copy_commit();
        ppl_copy_wait<1>();
        __syncthreads();
        if (!a.causal || step * N <= query + 15) {
            float p[N / 8][4] = {}, dp[N / 8][4] = {};
            rows_times<D, N>(p, queries, warp * 16, keys);
            rows_times<D, N>(dp, dy, warp * 16, values);
#pragma unroll
            for (int n = 0; n < N / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int k = step * N + n * 8 + lane % 4 * 2 + i % 2, q = query + lane / 4 + i / 2 * 8;
                    bool hidden = q >= a.time || k >= a.time || (a.causal && k > q);
                    float w = hidden ? 0.0f : power2(fmaf(p[n][i], a.scale * LOG2_E, -lse[i / 2]));
                    p[n][i] = w * (dp[n][i] - delta[i / 2]);
                }
            }
            rows_add<D, N>(dq, p, keys);
        }
        __syncthreads();
    }
    rows_store<D>(out.dq + at_query, a.q_row, query, a.time, a.d, dq, a.scale, a.scale);
}

template <int D> static cudaError_t mma_launch(const ppl_cuda_job *job) {
    attention_heads<bf16> a = attention_heads_of<bf16>(job, 3);
    attention_grads<bf16> out = attention_grads_of(job, a);
    grad_inputs<bf16> in = {(const bf16 *)job->call->in[0], (const float *)job->call->in[2], (const float *)job->call->scratch};
    unsigned blocks = (unsigned)((a.time + GRAD_OWN - 1) / GRAD_OWN);
    dim3 by_keys(blocks, (unsigned)(a.batch * a.kv_heads)), by_queries(blocks, (unsigned)(a.batch * a.heads));
    size_t shared = grad_shape<D>::shared;
    cudaError_t error = deltas_run(job, a);
    if (error == cudaSuccess) error = shared_ask(keys_grad_mma<D>, shared);
    if (error == cudaSuccess) error = shared_ask(queries_grad_mma<D>, shared);
    if (error != cudaSuccess) return error;
    PPL_LAUNCH(keys_grad_mma<D>, by_keys, GRAD_THREADS, shared, job->stream, a, in, out);
    PPL_LAUNCH(queries_grad_mma<D>, by_queries, GRAD_THREADS, shared, job->stream, a, in, out);
    return cudaGetLastError();
}

// ---- plain ----

template <class T, int C>
__global__ void __launch_bounds__(PLAIN_THREADS)
    keys_grad_plain(attention_heads<T> a, grad_inputs<T> in, attention_grads<T> out) {
    PPL_SHARED_DYNAMIC(float, keys);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = plain_row(a.d);
    int kv = blockIdx.y % a.kv_heads, b = blockIdx.y / a.kv_heads, block = (int)blockIdx.x * PLAIN_BLOCK;
    int key = block + warp * PLAIN_ROWS;
    int64_t sample = (int64_t)b * a.time, at_head = sample * a.kv_row + (int64_t)kv * a.d;
    float *values = keys + PLAIN_BLOCK * row, *queries = values + PLAIN_BLOCK * row, *dy = queries + WARP * row;
    float dk[PLAIN_ROWS][C] = {}, dv[PLAIN_ROWS][C] = {}, p[PLAIN_ROWS], ds[PLAIN_ROWS];
    plain_load(keys, a.k + at_head, a.kv_row, PLAIN_BLOCK, block, a.time, a.d);
    plain_load(values, a.v + at_head, a.kv_row, PLAIN_BLOCK, block, a.time, a.d);
    int begin = a.causal ? block / WARP * WARP : 0;
    for (int h = kv * a.group; h < (kv + 1) * a.group; h++) {
        for (int query = begin; query < a.time; query += WARP) {
            __syncthreads(); // the tile before is read
            plain_load(queries, a.q + sample * a.q_row + (int64_t)h * a.d, a.q_row, WARP, query, a.time, a.d);
            plain_load(dy, in.dy + sample * a.o_row + (int64_t)h * a.d, a.o_row, WARP, query, a.time, a.d);
            __syncthreads();
            int q = query + lane;
            int64_t at = ((int64_t)b * a.heads + h) * a.time + q;
            float lse = q < a.time ? in.lse[at] : 0.0f, delta = q < a.time ? in.delta[at] : 0.0f;
            plain_dots(p, keys + warp * PLAIN_ROWS * row, queries, a.d);
            plain_dots(ds, values + warp * PLAIN_ROWS * row, dy, a.d);
            for (int r = 0; r < PLAIN_ROWS; r++) {
                bool hidden = q >= a.time || key + r >= a.time || (a.causal && key + r > q);
                p[r] = hidden ? 0.0f : expf(fmaf(p[r], a.scale, -lse));
                ds[r] = p[r] * (ds[r] - delta);
            }
            plain_add(dv, p, dy, a.d);
            plain_add(dk, ds, queries, a.d);
        }
    }
    float scale[PLAIN_ROWS], one[PLAIN_ROWS];
    for (int r = 0; r < PLAIN_ROWS; r++) scale[r] = a.scale, one[r] = 1.0f;
    plain_store(out.dk + at_head, a.kv_row, key, a.time, a.d, dk, scale);
    plain_store(out.dv + at_head, a.kv_row, key, a.time, a.d, dv, one);
}

template <class T, int C>
__global__ void __launch_bounds__(PLAIN_THREADS)
    queries_grad_plain(attention_heads<T> a, grad_inputs<T> in, attention_grads<T> out) {
    PPL_SHARED_DYNAMIC(float, queries);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = plain_row(a.d);
    int h = blockIdx.y % a.heads, b = blockIdx.y / a.heads, block = (int)blockIdx.x * PLAIN_BLOCK;
    int query = block + warp * PLAIN_ROWS;
    int64_t sample = (int64_t)b * a.time, kv = sample * a.kv_row + (int64_t)(h / a.group) * a.d;
    int64_t at_query = sample * a.q_row + (int64_t)h * a.d, numbers = (int64_t)blockIdx.y * a.time;
    float *dy = queries + PLAIN_BLOCK * row, *keys = dy + PLAIN_BLOCK * row, *values = keys + WARP * row;
    float dq[PLAIN_ROWS][C] = {}, p[PLAIN_ROWS], ds[PLAIN_ROWS], scale[PLAIN_ROWS];
    plain_load(queries, a.q + at_query, a.q_row, PLAIN_BLOCK, block, a.time, a.d);
    plain_load(dy, in.dy + sample * a.o_row + (int64_t)h * a.d, a.o_row, PLAIN_BLOCK, block, a.time, a.d);
    int end = a.causal && block + PLAIN_BLOCK < a.time ? block + PLAIN_BLOCK : a.time;
    for (int key = 0; key < end; key += WARP) {
        __syncthreads(); // the tile before is read
        plain_load(keys, a.k + kv, a.kv_row, WARP, key, a.time, a.d);
        plain_load(values, a.v + kv, a.kv_row, WARP, key, a.time, a.d);
        __syncthreads();
        plain_dots(p, queries + warp * PLAIN_ROWS * row, keys, a.d);
        plain_dots(ds, dy + warp * PLAIN_ROWS * row, values, a.d);
        for (int r = 0; r < PLAIN_ROWS; r++) {
            int q = query + r;
            bool hidden = q >= a.time || key + lane >= a.time || (a.causal && key + lane > q);
            float w = hidden ? 0.0f : expf(fmaf(p[r], a.scale, -in.lse[numbers + q]));
            ds[r] = hidden ? 0.0f : w * (ds[r] - in.delta[numbers + q]);
        }
        plain_add(dq, ds, keys, a.d);
    }
    for (int r = 0; r < PLAIN_ROWS; r++) scale[r] = a.scale;
    plain_store(out.dq + at_query, a.q_row, query, a.time, a.d, dq, scale);
}

template <class T, int C> static cudaError_t plain_launch(const ppl_cuda_job *job) {
    attention_heads<T> a = attention_heads_of<T>(job, 3);
    attention_grads<T> out = attention_grads_of(job, a);
    grad_inputs<T> in = {(const T *)job->call->in[0], (const float *)job->call->in[2], (const float *)job->call->scratch};
    size_t shared = plain_shared(a.d, 2, 2);
    unsigned blocks = (unsigned)((a.time + PLAIN_BLOCK - 1) / PLAIN_BLOCK);
    dim3 by_keys(blocks, (unsigned)(a.batch * a.kv_heads)), by_queries(blocks, (unsigned)(a.batch * a.heads));
    cudaError_t error = deltas_run(job, a);
    if (error == cudaSuccess) error = shared_ask(keys_grad_plain<T, C>, shared);
    if (error == cudaSuccess) error = shared_ask(queries_grad_plain<T, C>, shared);
    if (error != cudaSuccess) return error;
    PPL_LAUNCH((keys_grad_plain<T, C>), by_keys, PLAIN_THREADS, shared, job->stream, a, in, out);
    PPL_LAUNCH((queries_grad_plain<T, C>), by_queries, PLAIN_THREADS, shared, job->stream, a, in, out);
    return cudaGetLastError();
}

extern "C" cudaError_t ppl_cuda_attention_grad(const ppl_cuda_job *job) {
    if (job->spec->in[0].dtype == PPL_BF16) {
        int32_t d = attention_heads_of<bf16>(job, 3).d;
        if (d <= 64) return mma_launch<64>(job);
        return d <= MMA_HEAD_MOST ? mma_launch<128>(job) : plain_launch<bf16, 8>(job);
    }
    return attention_heads_of<float>(job, 3).d <= 64 ? plain_launch<float, 2>(job) : plain_launch<float, 8>(job);
}
