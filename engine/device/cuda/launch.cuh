// launch.cuh - what a kernel file says differently to nvcc and to g++. Every .cu file includes this and nothing else of
// CUDA; with nvcc it becomes CUDA's own syntax, with g++ the emulation in tests/cuda/emulation, which runs one fiber a
// thread on the CPU. Before it: device code in the .cu files; after it: a launch in a stream.
//
//   PPL_LAUNCH(kernel, grid, block, shared, stream, ...)   starts kernel(...); several template arguments want brackets:
//                                                          PPL_LAUNCH((norm<bf16, 4>), ...). Errors: cudaGetLastError()
//   PPL_SHARED(float, tile, [64][72]);                     static shared memory, in place of __shared__ float tile[64][72]
//   PPL_SHARED_DYNAMIC(float, row);                        float *row: the launch's `shared` bytes, 16-byte aligned; one
//                                                          array a kernel. More than 48 KiB wants cudaFuncSetAttribute
//   ppl_mma(d, a, b)                                       d += a b by a whole warp: m16n8k16, bf16 into f32
//   ppl_load_matrix(r, row), ppl_load_matrix_transposed    ldmatrix.x4: four 8 x 8 matrices of 16-bit values in shared memory
//   ppl_copy_async(to, from, valid)                        16 bytes from global to shared memory, zeros where not valid
//   ppl_copy_commit(), ppl_copy_wait<n>()                  closes a group of copies; waits for all but the newest n groups
#ifndef PPL_DEVICE_CUDA_LAUNCH_CUH
#define PPL_DEVICE_CUDA_LAUNCH_CUH
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__

#define PPL_LAUNCH(kernel, grid, block, shared, stream, ...)                                                           \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define PPL_SHARED(type, name, extent) __shared__ type name extent
#define PPL_SHARED_DYNAMIC(type, name)                                                                                 \
    extern __shared__ __align__(16) unsigned char ppl_shared_dynamic[];                                                \
    type *name = reinterpret_cast<type *>(ppl_shared_dynamic)

// Fragments as in the PTX manual, mma.sync.m16n8k16: lane l holds, with g = l / 4 and t = l % 4,
//   a[0] = A[g][2t..], a[1] = A[g + 8][2t..], a[2] = A[g][2t + 8..], a[3] = A[g + 8][2t + 8..]    two bf16 each, low one first
//   b[0] = B[2t..][g], b[1] = B[2t + 8..][g]                                                      B is k x n
//   d[0], d[1] = D[g][2t], D[g][2t + 1]; d[2], d[3] = D[g + 8][2t], D[g + 8][2t + 1]
static __device__ __forceinline__ void ppl_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, aligned) and gets r[i] = row l / 4, columns
// 2 (l % 4) and the next, of matrix i; transposed: column l / 4, rows 2 (l % 4) and the next.
static __device__ __forceinline__ void ppl_load_matrix(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}
static __device__ __forceinline__ void ppl_load_matrix_transposed(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// Both addresses are multiples of 16; `from` may be anything when not valid.
static __device__ __forceinline__ void ppl_copy_async(void *to, const void *from, bool valid) {
    asm volatile(
        "cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
        "l"(from), "r"(valid ? 16 : 0)
        : "memory");
}
static __device__ __forceinline__ void ppl_copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int n> static __device__ __forceinline__ void ppl_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

#else
#include "emulation/kernel.hh"
#endif
#endif
