// dropout.cu - x (B, ...) -> x mask / (1 - p). The mask is base/random.h's: a function of seed, node, step, sample in the
// step's batch and element, so that the gradient is the same operator again. After it: common.cuh.
#include "device/cuda/common.cuh"
extern "C" {
#include "base/random.h"
}

// ppl_philox's words for one counter.
static __device__ __forceinline__ void philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t (&word)[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

// One thread for the four numbers of a counter; `whole`: samples have a multiple of four numbers.
template <class T, bool whole> struct dropout_part {
    const T *x;
    T *y;
    int64_t size, groups; // numbers and counters of a sample
    uint64_t key, step, first_sample;
    uint32_t threshold;
    float scale;
    __device__ void operator()(int64_t i) const {
        int64_t sample = quotient_of(i, groups), group = i - sample * groups, at = sample * size + group * 4;
        int count = whole || size - group * 4 >= 4 ? 4 : (int)(size - group * 4);
        uint32_t word[4];
        float a[4];
        philox(key, step, (first_sample + (uint64_t)sample) << 40 | (uint64_t)group, word);
        if (whole) load(a, x + at);
        else
            for (int k = 0; k < 4; k++) a[k] = k < count ? widen(x[at + k]) : 0.0f;
        for (int k = 0; k < 4; k++) a[k] = word[k] >= threshold ? a[k] * scale : 0.0f;
        if (whole) store(y + at, a);
        else
            for (int k = 0; k < count; k++) y[at + k] = narrow<T>(a[k]);
    }
};

template <class T, bool whole> static cudaError_t mask_run(const ppl_cuda_job *job) {
    const ppl_type *x = &job->spec->in[0];
    const ppl_call_env *env = job->call->env;
    double p = job->spec->attrs.f[0];
    dropout_part<T, whole> part;
    part.x = (const T *)job->call->in[0];
    part.y = (T *)job->call->out[0];
    part.size = ppl_type_elements(x) / x->dim[0];
    part.groups = (part.size + 3) / 4;
    part.key = ppl_mix_key(env->seed, (uint64_t)job->spec->attrs.i[7]);
    part.step = (uint64_t)env->step;
    part.first_sample = (uint64_t)env->first_sample;
    part.threshold = (uint32_t)(p * 4294967296.0);
    part.scale = (float)(1 / (1 - p));
    return each_run<1>(x->dim[0] * part.groups, part, job->stream);
}

template <class T> static cudaError_t run(const ppl_cuda_job *job) {
    const ppl_type *x = &job->spec->in[0];
    return ppl_type_elements(x) / x->dim[0] % 4 == 0 ? mask_run<T, true>(job) : mask_run<T, false>(job);
}

extern "C" cudaError_t ppl_cuda_dropout(const ppl_cuda_job *job) {
    if (!job->call->env->training || job->spec->attrs.f[0] == 0) return ppl_cuda_copy(job);
    return BY_DTYPE(job->spec->in[0].dtype, run, job);
}

// The same bytes: RESHAPE where it is asked for as an operator of its own, DROPOUT where nothing is dropped.
extern "C" cudaError_t ppl_cuda_copy(const ppl_cuda_job *job) {
    return cudaMemcpyAsync(job->call->out[0], job->call->in[0], ppl_type_bytes(&job->spec->in[0]),
                           cudaMemcpyDeviceToDevice, job->stream);
}
