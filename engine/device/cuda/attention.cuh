// attention.cuh - where the heads of attention lie, and which kernels take them: bf16 heads of up to 128 numbers go to the
// tensor cores (attention_mma.cuh), all others to plain f32 arithmetic (attention_plain.cuh). Before it: attention.cu,
// attention_grad.cu. The method: Dao, "FlashAttention-2", 2023; a query head h reads key and value head h / (H / K).
#ifndef PPL_DEVICE_CUDA_ATTENTION_CUH
#define PPL_DEVICE_CUDA_ATTENTION_CUH
#include "device/cuda/common.cuh"

// Head h of sample b at position t begins at base + (b * time + t) * row + h * d.
template <class T> struct attention_heads {
    const T *q, *k, *v;
    int64_t q_row, kv_row, o_row; // numbers from one position to the next; o and dy have rows of their own
    int32_t batch, time, heads, kv_heads, d;
    int32_t group; // query heads that share a key head
    bool causal;
    bool aligned; // all rows of heads begin on 16 bytes
    float scale;
};

template <class T> attention_heads<T> attention_heads_of(const ppl_cuda_job *job, int32_t first) {
    const ppl_type *q = &job->spec->in[first];
    bool packed = job->spec->inputs == first + 1;
    attention_heads<T> a = {};
    a.batch = (int32_t)q->dim[0], a.time = (int32_t)q->dim[1];
    a.heads = (int32_t)job->spec->attrs.i[0], a.kv_heads = (int32_t)job->spec->attrs.i[1];
    a.d = (int32_t)(q->dim[2] / (a.heads + (packed ? 2 * a.kv_heads : 0)));
    a.group = a.heads / a.kv_heads;
    a.causal = job->spec->attrs.i[2] != 0;
    a.scale = (float)(job->spec->attrs.f[0] != 0 ? job->spec->attrs.f[0] : 1 / sqrt((double)a.d));
    a.o_row = (int64_t)a.heads * a.d;
    a.q = (const T *)job->call->in[first];
    a.k = packed ? a.q + a.o_row : (const T *)job->call->in[first + 1];
    a.v = packed ? a.k + (int64_t)a.kv_heads * a.d : (const T *)job->call->in[first + 2];
    a.q_row = q->dim[2];
    a.kv_row = packed ? a.q_row : (int64_t)a.kv_heads * a.d;
    a.aligned = a.d % wide<T>::count == 0;
    return a;
}

// Where the gradient writes: as the inputs lie.
template <class T> struct attention_grads {
    T *dq, *dk, *dv;
};
template <class T> attention_grads<T> attention_grads_of(const ppl_cuda_job *job, const attention_heads<T> &a) {
    T *dq = (T *)job->call->out[0];
    if (job->spec->outputs > 1) return attention_grads<T>{dq, (T *)job->call->out[1], (T *)job->call->out[2]};
    return attention_grads<T>{dq, dq + a.o_row, dq + a.o_row + (int64_t)a.kv_heads * a.d};
}

enum { MMA_HEAD_MOST = 128, PLAIN_HEAD_MOST = 256 };

// More than 48 KiB of shared memory a block has to be asked for.
template <class K> cudaError_t shared_ask(K kernel, size_t bytes) {
    if (bytes <= 48 * 1024) return cudaSuccess;
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

#endif
