// cuda.h - the cuda device's host side: one rank's device, its memory, its programs, its products. Included by this folder's
// C files alone; what kernels see is job.h. In reading order: probe.c, activity.c, device.c, memory.c, program.c, label.c,
// kernels.c, linear.c and matmul.c, gemm.c, attention_choice.c.
#ifndef PPL_DEVICE_CUDA_CUDA_H
#define PPL_DEVICE_CUDA_CUDA_H
#include "base/memory.h"
#include "device/cuda/errors.h"
#include "device/cuda/job.h"
#include "device/device.h"
#include <cublasLt.h>

enum {
    PPL_CUDA_STREAMS = 2,          // compute, and what may run beside it
    PPL_CUDA_ALIGNMENT = 256,      // of what memory_get gives
    PPL_CUDA_WORKSPACE = 32 << 20, // bytes a stream, for cuBLASLt
    PPL_CUDA_BLOCK = 32 << 20      // bytes taken from the driver at once for small requests
};

// ---- probe.c ----

// Whether ranks can work on a GPU; else why not. Makes it the thread's current one.
ppl_status ppl_cuda_usable(int32_t ordinal);
ppl_status ppl_gpu_index_check(int32_t index); // that there is such a GPU

// ---- memory.c: what a rank has of the device's memory ----

typedef struct ppl_cuda_block { // of one cudaMalloc
    char *memory;
    size_t bytes, used;
    int32_t users; // requests that live in it
    struct ppl_cuda_block *next;
} ppl_cuda_block;

typedef struct ppl_cuda_arena {
    ppl_cuda_block *blocks;
    size_t total, peak; // bytes taken from the driver, now and at most
} ppl_cuda_arena;

typedef struct ppl_cuda_device ppl_cuda_device;

// Not zeroed, PPL_CUDA_ALIGNMENT. Fails with what was asked for, what is free and what this rank has.
ppl_status ppl_cuda_arena_get(ppl_cuda_device *d, size_t bytes, void **out);
void ppl_cuda_arena_free(ppl_cuda_device *d, void *p);
void ppl_cuda_arena_clear(ppl_cuda_device *d);

// ---- gemm.c: products ----

// D (m, n) = alpha op(A) op(B) [+ D], column-major as cuBLASLt has it, f32 sums. Rows of A, B, D follow each other without a
// gap; `batch` of them too.
typedef struct ppl_cuda_gemm_spec {
    int64_t m, n, k, batch;
    bool a_transposed, b_transposed;
    bool bias;                // of length m, added to each column, in D's dtype
    int32_t dtype, out_dtype; // of A and B; of D
} ppl_cuda_gemm_spec;

typedef struct ppl_cuda_gemm ppl_cuda_gemm;
ppl_status ppl_cuda_gemm_build(ppl_cuda_device *d, const ppl_cuda_gemm_spec *spec, ppl_cuda_gemm **out);
void ppl_cuda_gemm_free(ppl_cuda_gemm *g);
ppl_status ppl_cuda_gemm_run(ppl_cuda_device *d, ppl_cuda_gemm *g, const void *a, const void *b, void *out,
                             const void *bias, bool add, int32_t stream);

// ---- kernels.c: which code serves an operator ----

typedef struct ppl_cuda_run { // of one node
    ppl_cuda_device *device;
    const ppl_kernel_spec *spec;
    void *state;
    const ppl_call *call;
    int32_t stream;
} ppl_cuda_run;

typedef struct ppl_cuda_kernel {
    ppl_cuda_launcher *launch; // a kernel file's; NULL: run
    size_t (*scratch)(const ppl_kernel_spec *spec);
    ppl_status (*prepare)(ppl_cuda_device *d, const ppl_kernel_spec *spec, ppl_kernel_needs *needs, void **state);
    ppl_status (*run)(const ppl_cuda_run *r);
    void (*free)(void *state);
} ppl_cuda_kernel;

const ppl_cuda_kernel *ppl_cuda_kernel_of(int32_t op);
extern const ppl_cuda_kernel ppl_cuda_linear, ppl_cuda_linear_dx, ppl_cuda_linear_dw, ppl_cuda_matmul;

// ---- attention_choice.c: cuDNN, or the kernels of attention.cu and attention_grad.cu ----

enum {                           // what PPL_CUDA_ATTENTION says
    PPL_CUDA_ATTENTION_BOTH = 0, // nothing: cuDNN where it serves a shape
    PPL_CUDA_ATTENTION_OWN,
    PPL_CUDA_ATTENTION_CUDNN,
    PPL_CUDA_ATTENTION_ANY_ORDER
};
ppl_status ppl_cuda_attention_open(ppl_cuda_device *d);
extern const ppl_cuda_kernel ppl_cuda_attention_kernel;

// ---- program.c ----

typedef struct ppl_cuda_step { // a node of a program
    const ppl_cuda_kernel *kernel;
    void *state;
    const char *name;
    void *label;
    ppl_kernel_spec spec;
    const void *table;
} ppl_cuda_step;

struct ppl_device_program {
    ppl_arena arena; // owns steps and names
    ppl_cuda_step *steps;
    int32_t count;
    ppl_device_program *next; // of this device
};

typedef struct ppl_cuda_table { // of ROPE, shared by the nodes that turn by the same angles
    int64_t time, d;
    double theta;
    void *memory;
    struct ppl_cuda_table *next;
} ppl_cuda_table;

struct ppl_cuda_device {
    int32_t rank, ordinal;
    cudaStream_t stream[PPL_CUDA_STREAMS];
    cudaStream_t *more; // [n_more]: opened beside those, NULL where closed again; numbered behind them
    int32_t n_more;
    void *workspace[PPL_CUDA_STREAMS];
    cublasLtHandle_t lt;
    ppl_cuda_arena arena;
    ppl_device_program *programs;
    ppl_cuda_table *tables;
    struct ppl_cudnn *cudnn; // NULL until a program has attention that it may serve
    int32_t attention;       // PPL_CUDA_ATTENTION_...
    ppl_cuda_fault *fault;   // in memory of the host that the device writes too
    const double *scale;     // what gradients are multiplied by in updates, on the device; NULL: each update says
    double *partial;         // PPL_CUDA_PARTIALS and the sum, for square_sum
};

static inline cudaStream_t ppl_cuda_stream(const ppl_cuda_device *d, int32_t stream) {
    return stream < PPL_CUDA_STREAMS ? d->stream[stream] : d->more[stream - PPL_CUDA_STREAMS];
}

ppl_status ppl_cuda_program_build(ppl_device *self, int32_t stage, int32_t phase, const ppl_device_node *nodes,
                                  int32_t count, ppl_program_needs *needs, ppl_device_program **out);
void ppl_cuda_program_free(ppl_device *self, ppl_device_program *program);
ppl_status ppl_cuda_program_run(ppl_device *self, ppl_device_program *program, const ppl_program_run *run);
void ppl_cuda_tables_free(ppl_cuda_device *d);

// ---- label.c ----

void ppl_cuda_labels_open(const ppl_cuda_device *d); // on the rank's thread, which is named as well
void *ppl_cuda_label_get(ppl_device *self, const char *text);
void ppl_cuda_label_begin(ppl_device *self, void *label, int32_t kind, int64_t step);
void ppl_cuda_label_end(ppl_device *self, void *label);

#endif
