// kernel.hh - CUDA's names for kernels that g++ compiles: thread indices, barriers, warp operations, shared memory,
// atomics, intrinsics. Before it: engine/device/cuda/launch.cuh, which includes this for g++; after it: fiber.hh.
// A name that is missing here is a compile error in the kernel that needs it: add it, as the CUDA manual says it.
#ifndef EMULATION_KERNEL_HH
#define EMULATION_KERNEL_HH
#include "emulation/fiber.hh"
#include "emulation/launch.hh"
#include <cmath>
#include <type_traits>

#define EMU_HERE                                                                                                       \
    emu::Where {                                                                                                       \
        __FILE__, __LINE__                                                                                             \
    }

#define PPL_LAUNCH(kernel, grid, block, shared, stream, ...)                                                           \
    emu::launch(#kernel, kernel, grid, block, shared, stream __VA_OPT__(, ) __VA_ARGS__)
#define PPL_SHARED(type, name, extent)     auto &name = emu::shared<type extent>([] {})
#define PPL_SHARED_DYNAMIC(type, name)     type *name = static_cast<type *>(emu::current->block->dynamic)
#define ppl_mma(d, a, b)                   emu::mma(d, a, b, EMU_HERE)
#define ppl_load_matrix(r, row)            emu::load_matrix(r, row, false, EMU_HERE)
#define ppl_load_matrix_transposed(r, row) emu::load_matrix(r, row, true, EMU_HERE)
#define ppl_copy_async(to, from, valid)    emu::copy_async(to, from, valid)
#define ppl_copy_commit()                  emu::copy_commit()
template <int n> inline void ppl_copy_wait() {
    emu::copy_wait(n);
}

// A static array of a kernel must be shared by its fibers and by nothing else.
#undef __shared__
#define __shared__ static_assert(false, "shared memory is declared with PPL_SHARED");
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __forceinline__
#define __forceinline__ inline

#define threadIdx (emu::current->thread)
#define blockIdx  (emu::current->block->index)
#define blockDim  (emu::current->block->size)
#define gridDim   (emu::current->block->grid)
constexpr int warpSize = emu::warp_size;

#define __syncthreads() emu::block_barrier(EMU_HERE)
#define __syncwarp(...) emu::sync_warp(EMU_HERE __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(mask, value, from, ...)                                                                            \
    emu::shuffle(mask, value, emu::shuffle_from(from __VA_OPT__(, ) __VA_ARGS__), EMU_HERE)
#define __shfl_xor_sync(mask, value, lanes, ...)                                                                       \
    emu::shuffle(mask, value, emu::shuffle_xor(lanes __VA_OPT__(, ) __VA_ARGS__), EMU_HERE)
#define __shfl_up_sync(mask, value, by, ...)                                                                           \
    emu::shuffle(mask, value, emu::shuffle_up(by __VA_OPT__(, ) __VA_ARGS__), EMU_HERE)
#define __shfl_down_sync(mask, value, by, ...)                                                                         \
    emu::shuffle(mask, value, emu::shuffle_down(by __VA_OPT__(, ) __VA_ARGS__), EMU_HERE)
#define __ballot_sync(mask, yes) emu::vote(mask, yes, EMU_HERE)
#define __any_sync(mask, yes)    (emu::vote(mask, yes, EMU_HERE) != 0)
#define __all_sync(mask, yes)    (emu::vote(mask, !(yes), EMU_HERE) == 0)

namespace emu {

inline void sync_warp(Where where, uint32_t mask = 0xffffffffu) {
    unsigned parity;
    meet(mask, WarpAction::sync, nullptr, 0, where, &parity);
}
// The lane that a shuffle reads; a warp may be cut into parts of `width` lanes, and what lies outside reads itself.
inline unsigned shuffle_from(int from, int width = 32) {
    return (current->lane & ~(width - 1u)) | (static_cast<unsigned>(from) & (width - 1u));
}
inline unsigned shuffle_xor(unsigned lanes, int width = 32) {
    unsigned from = current->lane ^ lanes;
    return from <= (current->lane | (width - 1u)) ? from : current->lane;
}
inline unsigned shuffle_up(unsigned by, int width = 32) {
    return (current->lane & (width - 1u)) >= by ? current->lane - by : current->lane;
}
inline unsigned shuffle_down(unsigned by, int width = 32) {
    return (current->lane & (width - 1u)) + by < static_cast<unsigned>(width) ? current->lane + by : current->lane;
}

// Applies f to *p atomically and gives the old value; kernels of several streams run at once.
template <class T, class F> T atomic(T *p, F f) {
    T old, next;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do next = f(old);
    while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return old;
}

} // namespace emu

// The pointer alone says the type, as in CUDA's overloads.
template <class T> using EmuSame = std::common_type_t<T>;
#define EMU_ATOMIC(name, next)                                                                                         \
    template <class T> inline T name(T *p, EmuSame<T> v) {                                                             \
        return emu::atomic(p, [=](T old) { return static_cast<T>(next); });                                            \
    }
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicSub, old - v)
EMU_ATOMIC(atomicMax, old < v ? v : old)
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicAnd, old &v)
EMU_ATOMIC(atomicExch, (void(old), v))
#undef EMU_ATOMIC
template <class T> inline T atomicCAS(T *p, EmuSame<T> want, EmuSame<T> v) {
    return emu::atomic(p, [=](T old) { return old == want ? v : old; });
}
inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Loads and stores with a cache hint.
template <class T> inline T __ldg(const T *p) {
    return *p;
}
template <class T> inline T __ldcs(const T *p) {
    return *p;
}
template <class T> inline T __ldcg(const T *p) {
    return *p;
}
template <class T> inline void __stcs(T *p, T v) {
    *p = v;
}
template <class T> inline void __stcg(T *p, T v) {
    *p = v;
}

template <class To, class From> inline To emu_bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "the same size on both sides");
    To out;
    memcpy(&out, &v, sizeof out);
    return out;
}
inline float __uint_as_float(uint32_t v) {
    return emu_bits<float>(v);
}
inline float __int_as_float(int v) {
    return emu_bits<float>(v);
}
inline uint32_t __float_as_uint(float v) {
    return emu_bits<uint32_t>(v);
}
inline int __float_as_int(float v) {
    return emu_bits<int>(v);
}
inline double __longlong_as_double(long long v) {
    return emu_bits<double>(v);
}
inline long long __double_as_longlong(double v) {
    return emu_bits<long long>(v);
}

// The fast forms are the exact ones here: a kernel's error on a device may be larger by what the CUDA manual states.
inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
inline float __frsqrt_rn(float x) {
    return 1.0f / sqrtf(x);
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float __fdiv_rn(float x, float y) {
    return x / y;
}
inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __fsub_rn(float x, float y) {
    return x - y;
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
inline float __expf(float x) {
    return expf(x);
}
inline float __exp2f(float x) {
    return exp2f(x);
}
inline float __logf(float x) {
    return logf(x);
}
inline float __log2f(float x) {
    return log2f(x);
}
inline float __sinf(float x) {
    return sinf(x);
}
inline float __cosf(float x) {
    return cosf(x);
}
inline float __powf(float x, float y) {
    return powf(x, y);
}
inline float __saturatef(float x) {
    return x > 0 ? (x < 1 ? x : 1) : 0;
}

inline uint32_t __umulhi(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __popc(uint32_t v) {
    return __builtin_popcount(v);
}
inline int __clz(int v) {
    return v ? __builtin_clz(static_cast<unsigned>(v)) : 32;
}
inline int __ffs(int v) {
    return __builtin_ffs(v);
}

#define EMU_LESSER(type)                                                                                               \
    inline type min(type a, type b) {                                                                                  \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    inline type max(type a, type b) {                                                                                  \
        return a < b ? b : a;                                                                                          \
    }
EMU_LESSER(int)
EMU_LESSER(unsigned)
EMU_LESSER(long)
EMU_LESSER(unsigned long)
EMU_LESSER(long long)
EMU_LESSER(unsigned long long)
#undef EMU_LESSER
inline float min(float a, float b) {
    return fminf(a, b);
}
inline float max(float a, float b) {
    return fmaxf(a, b);
}

#endif
