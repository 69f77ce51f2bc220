// embedding_dw.cu - ids (...), dy (..., C) -> dw (V, C): each row of dy is added to the row of its id, in order of position,
// with no atomic sum. Before it: kernels.c. After it: common.cuh.
//
// Positions are put in order by id: ids are counted, the counts summed up to where each id's positions begin, positions
// placed there (in any order, by atomics on whole numbers) and then ranked within their id by comparing them with each
// other. One block then adds up the rows of one id. The last id, V, stands for ids outside the table.
#include "device/cuda/common.cuh"

struct id_lists { // in scratch
    int32_t *count; // (V + 1) positions of an id; after the ranking again 0
    int32_t *start; // (V + 1) where an id's positions begin
    int32_t *placed, *order; // (n) positions by id: as placed, and in order
};

static __device__ __forceinline__ int32_t id_of(const int32_t *ids, int64_t at, int32_t rows) {
    int32_t id = ids[at];
    return id < 0 || id >= rows ? rows : id;
}

__global__ void __launch_bounds__(EACH_BLOCK)
    ids_count(const int32_t *__restrict__ ids, int32_t *count, int32_t n, int32_t rows, ppl_cuda_fault *fault) {
    int32_t i = blockIdx.x * EACH_BLOCK + threadIdx.x;
    if (i >= n) return;
    int32_t id = id_of(ids, i, rows);
    if (id == rows) fault_tell(fault, PPL_CUDA_FAULT_ID, ids[i], i, rows);
    atomicAdd(&count[id], 1);
}

enum { SCAN_THREADS = 1024 };

// start[i] = count[0] + ... + count[i - 1], by one block: each thread takes a stretch.
__global__ void __launch_bounds__(SCAN_THREADS)
    ids_scan(const int32_t *__restrict__ count, int32_t *__restrict__ start, int32_t n) {
    PPL_SHARED(int32_t, sums, [SCAN_THREADS]);
    int32_t stretch = (n + SCAN_THREADS - 1) / SCAN_THREADS, first = (int32_t)threadIdx.x * stretch, sum = 0;
    int32_t end = first + stretch < n ? first + stretch : n;
    for (int32_t i = first; i < end; i++) sum += count[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int o = 1; o < SCAN_THREADS; o *= 2) {
        int32_t before = (int)threadIdx.x >= o ? sums[threadIdx.x - o] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    int32_t at = sums[threadIdx.x] - sum;
    for (int32_t i = first; i < end; i++) {
        start[i] = at;
        at += count[i];
    }
}

// count falls back to 0, which gives each position of an id another place.
__global__ void __launch_bounds__(EACH_BLOCK)
    ids_place(const int32_t *__restrict__ ids, id_lists lists, int32_t n, int32_t rows) {
    int32_t i = blockIdx.x * EACH_BLOCK + threadIdx.x;
    if (i >= n) return;
    int32_t id = id_of(ids, i, rows);
    lists.placed[lists.start[id] + atomicAdd(&lists.count[id], -1) - 1] = i;
}

static __device__ __forceinline__ int32_t list_end(const id_lists &lists, int32_t id, int32_t n, int32_t rows) {
    return id == rows ? n : lists.start[id + 1];
}

__global__ void __launch_bounds__(EACH_BLOCK)
    ids_rank(const int32_t *__restrict__ ids, id_lists lists, int32_t n, int32_t rows) {
    int32_t i = blockIdx.x * EACH_BLOCK + threadIdx.x;
    if (i >= n) return;
    int32_t position = lists.placed[i], id = id_of(ids, position, rows);
    int32_t first = lists.start[id], end = list_end(lists, id, n, rows), rank = 0;
    for (int32_t k = first; k < end; k++) rank += lists.placed[k] < position;
    lists.order[first + rank] = position;
}

// Block x: the id whose positions begin at entry x of the order, if one does; block y: its columns.
template <class T, class O, int V>
__global__ void __launch_bounds__(EACH_BLOCK)
    rows_add(const int32_t *__restrict__ ids, id_lists lists, const T *__restrict__ dy, O *__restrict__ dw, int32_t n,
             int32_t rows, int64_t c, bool add) {
    int32_t first = (int32_t)blockIdx.x, id = id_of(ids, lists.order[first], rows);
    if (id == rows || lists.start[id] != first) return;
    int32_t end = list_end(lists, id, n, rows);
    int64_t column = ((int64_t)blockIdx.y * EACH_BLOCK + threadIdx.x) * V;
    if (column >= c) return;
    float sum[V] = {}, x[V];
    if (add) load(sum, dw + id * c + column);
    for (int32_t k = first; k < end; k++) {
        load(x, dy + lists.order[k] * c + column);
        for (int v = 0; v < V; v++) sum[v] += x[v];
    }
    store(dw + id * c + column, sum);
}

static id_lists lists_in(void *scratch, int64_t n, int64_t rows) {
    int32_t *at = (int32_t *)scratch;
    return id_lists{at, at + rows + 1, at + 2 * (rows + 1), at + 2 * (rows + 1) + n};
}

template <class T, class O, int V> static cudaError_t add_launch(const ppl_cuda_job *job, id_lists lists, bool add) {
    int32_t n = (int32_t)ppl_type_elements(&job->spec->in[0]), rows = (int32_t)job->spec->out[0].dim[0];
    int64_t c = job->spec->out[0].dim[1];
    const int32_t *ids = (const int32_t *)job->call->in[0];
    const T *dy = (const T *)job->call->in[1];
    O *dw = (O *)job->call->out[0];
    dim3 grid((unsigned)n, (unsigned)((c / V + EACH_BLOCK - 1) / EACH_BLOCK));
    PPL_LAUNCH((rows_add<T, O, V>), grid, EACH_BLOCK, 0, job->stream, ids, lists, dy, dw, n, rows, c, add);
    return cudaGetLastError();
}

template <class T, class O> static cudaError_t add_run(const ppl_cuda_job *job, id_lists lists, bool add) {
    return job->spec->out[0].dim[1] % 4 == 0 ? add_launch<T, O, 4>(job, lists, add) : add_launch<T, O, 1>(job, lists, add);
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    int32_t n = (int32_t)ppl_type_elements(&job->spec->in[0]), rows = (int32_t)job->spec->out[0].dim[0];
    id_lists lists = lists_in(job->call->scratch, n, rows);
    bool add = job->spec->accumulates && job->call->add;
    const int32_t *ids = (const int32_t *)job->call->in[0];
    int32_t *count = lists.count, *start = lists.start, lengths = rows + 1;
    unsigned blocks = (unsigned)((n + EACH_BLOCK - 1) / EACH_BLOCK);
    ppl_cuda_fault *fault = job->fault;
    cudaError_t error = cudaMemsetAsync(count, 0, (size_t)lengths * sizeof *count, job->stream);
    if (error == cudaSuccess && !add)
        error = cudaMemsetAsync(job->call->out[0], 0, ppl_type_bytes(&job->spec->out[0]), job->stream);
    if (error != cudaSuccess) return error;
    PPL_LAUNCH(ids_count, blocks, EACH_BLOCK, 0, job->stream, ids, count, n, rows, fault);
    PPL_LAUNCH(ids_scan, 1, SCAN_THREADS, 0, job->stream, count, start, lengths);
    PPL_LAUNCH(ids_place, blocks, EACH_BLOCK, 0, job->stream, ids, lists, n, rows);
    PPL_LAUNCH(ids_rank, blocks, EACH_BLOCK, 0, job->stream, ids, lists, n, rows);
    error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    return job->spec->out[0].dtype == PPL_BF16 ? add_run<T, bf16>(job, lists, add) : add_run<T, float>(job, lists, add);
}

extern "C" cudaError_t ppl_cuda_embedding_dw(const ppl_cuda_job *job) {
    return BY_DTYPE(job->spec->in[1].dtype, run, job);
}

extern "C" size_t ppl_cuda_embedding_dw_scratch(const ppl_kernel_spec *spec) {
    size_t n = (size_t)ppl_type_elements(&spec->in[0]), rows = (size_t)spec->out[0].dim[0];
    return (2 * (rows + 1) + 2 * n) * sizeof(int32_t);
}
