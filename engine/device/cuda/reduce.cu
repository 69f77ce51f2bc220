// reduce.cu - x summed over leading dims down to the last i0: the gradient of a bias and of what was broadcast. Before it:
// kernels.c. After it: columns.cuh.
#include "device/cuda/columns.cuh"

template <class T, int V> struct reduce_terms {
    const T *x;
    int64_t columns;
    __device__ void term(int64_t row, int64_t column, float (&out)[1][V]) const { load(out[0], x + row * columns + column); }
};

// Down to one number: x taken as rows of 32, so that a whole block works; the rest and the 32 columns are added at the end.
template <class T>
__global__ void __launch_bounds__(EACH_BLOCK) total(const T *__restrict__ x, double *__restrict__ partial, int64_t n) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * EACH_BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * EACH_BLOCK)
        sum += (double)widen(x[i]);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(EACH_BLOCK)
    total_end(const double *__restrict__ partial, T *__restrict__ out, int blocks, bool add) {
    PPL_SHARED(double, shared, [WARP]);
    double sum = 0;
    for (int i = threadIdx.x; i < blocks; i += EACH_BLOCK) sum += partial[i];
    float all = (float)block_sum(sum, shared);
    if (threadIdx.x == 0) out[0] = narrow<T>(add ? widen(out[0]) + all : all);
}

static const int TOTAL_BLOCKS = 512;

static int total_blocks(int64_t n) {
    int64_t blocks = (n + EACH_BLOCK * 8 - 1) / (EACH_BLOCK * 8);
    return (int)(blocks < TOTAL_BLOCKS ? blocks : TOTAL_BLOCKS);
}

template <class T> static cudaError_t total_run(const ppl_cuda_job *job) {
    int64_t n = ppl_type_elements(&job->spec->in[0]);
    int blocks = total_blocks(n);
    const T *x = (const T *)job->call->in[0];
    double *partial = (double *)job->call->scratch;
    bool add = job->spec->accumulates && job->call->add;
    void *out = job->call->out[0];
    PPL_LAUNCH(total<T>, blocks, EACH_BLOCK, 0, job->stream, x, partial, n);
    if (job->spec->out[0].dtype == PPL_BF16) {
        PPL_LAUNCH(total_end<bf16>, 1, EACH_BLOCK, 0, job->stream, partial, (bf16 *)out, blocks, add);
    } else {
        PPL_LAUNCH(total_end<float>, 1, EACH_BLOCK, 0, job->stream, partial, (float *)out, blocks, add);
    }
    return cudaGetLastError();
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    constexpr int V = wide<T>::count;
    int64_t columns = ppl_type_elements(&job->spec->out[0]), rows = ppl_type_elements(&job->spec->in[0]) / columns;
    const T *x = (const T *)job->call->in[0];
    if (columns == 1) return total_run<T>(job);
    if (columns % V == 0) return columns_run<V, 1>(job, rows, columns, reduce_terms<T, V>{x, columns});
    return columns_run<1, 1>(job, rows, columns, reduce_terms<T, 1>{x, columns});
}

extern "C" cudaError_t ppl_cuda_reduce(const ppl_cuda_job *job) { return BY_DTYPE(job->spec->in[0].dtype, run, job); }

extern "C" size_t ppl_cuda_columns_scratch(int64_t rows, int64_t columns, int32_t sums) {
    size_t shares = (size_t)column_shares(rows, columns) * (size_t)columns * (size_t)sums * sizeof(float);
    size_t total = TOTAL_BLOCKS * sizeof(double);
    return columns == 1 && total > shares ? total : shares;
}
