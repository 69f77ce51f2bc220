// gemm.h - matrix products on the cpu, prepared once for fixed shapes and run often. Behind it is oneDNN; gemm.c is the
// only file that knows it. Kernels (linear.c, linear_dx.c, linear_dw.c, matmul.c) call it for every block they multiply.
#ifndef PPL_DEVICE_CPU_GEMM_H
#define PPL_DEVICE_CPU_GEMM_H
#include "base/numbers.h"
#include "base/status.h"

// C (m, n) = A (m, k) B (k, n), all row-major, C dense, `batch` of them one after the other.
typedef struct ppl_gemm_spec {
    const char *name; // for errors; borrowed
    int64_t batch;    // >= 1
    int64_t m, n, k;
    int64_t tail;         // a run may have this many rows instead of m; 0: it never does
    bool a_transposed;    // A is stored (k, m)
    bool b_transposed;    // B is stored (n, k)
    int64_t a_row, b_row; // numbers from one stored row of A, B to the next; 0: dense. Else batch is 1
    bool add;             // C += A B; then C is F32
    bool b_param;         // B changes seldom: it may be laid out anew, and widened, by ppl_gemm_pack; batch is 1
    int32_t dtype;        // of A and of B as multiplied: F32, or BF16 where ppl_gemm_dtype says so
    int32_t b_dtype;      // of B as stored; another one than dtype only with b_param
    int32_t c_dtype;      // F32 or BF16; sums are f32 and rounded once
    int32_t threads;      // the bits of C depend on it, and on nothing else that can change between two runs
} ppl_gemm_spec;

typedef struct ppl_gemm ppl_gemm;

// Refuses what no product can be made of: a dtype other than F32 and BF16 (PPL_ERR_DEVICE), a size below 1 (PPL_ERR_SHAPE).
ppl_status ppl_gemm_check(const char *name, int32_t dtype, int64_t m, int64_t n, int64_t k);
// PPL_ERR_DEVICE with oneDNN's own words where it refuses. On the thread that will run it, or one like it.
ppl_status ppl_gemm_build(const ppl_gemm_spec *spec, ppl_gemm **out);
void ppl_gemm_free(ppl_gemm *g);
size_t ppl_gemm_scratch(const ppl_gemm *g);    // bytes that a run needs, 64-byte aligned
size_t ppl_gemm_pack_bytes(const ppl_gemm *g); // 0: B is read as it is stored
uint64_t ppl_gemm_pack_key(const ppl_gemm *g); // equal keys: equal packed bytes for the same B
ppl_status ppl_gemm_pack(ppl_gemm *g, const void *b, void *packed);
// rows: m or tail. b: packed where pack_bytes is not 0. One run at a time.
ppl_status ppl_gemm_run(ppl_gemm *g, int64_t rows, const void *a, const void *b, void *c, void *scratch);

// How far apart the rows of a matrix are best laid, where it is copied anyway: in numbers, at least `columns`.
int64_t ppl_gemm_row(int64_t columns);
// The dtype that values stored as `dtype` are multiplied in: BF16 for BF16 where the CPU has instructions for it, else F32.
int32_t ppl_gemm_dtype(int32_t dtype);

#endif
