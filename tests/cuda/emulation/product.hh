// product.hh - a matrix product as cuBLASLt means it: D = epilogue(alpha op(A) op(B) + beta C), all column-major.
// Before it: cublaslt.cc, which reads descriptors and checks them; after it: product.cc, which computes.
#ifndef EMULATION_PRODUCT_HH
#define EMULATION_PRODUCT_HH
#include <library_types.h>
#include <cstdint>

namespace emu {

struct Matrix {
    cudaDataType type; // CUDA_R_32F or CUDA_R_16BF
    uint64_t rows, columns;
    int64_t ld;         // elements from column to column
    int32_t batch = 1;  // products in a row
    int64_t stride = 0; // elements from one to the next
};

struct Product {
    Matrix a, b, c, d;
    const void *a_data, *b_data, *c_data;
    void *d_data;
    bool a_transposed, b_transposed;
    uint64_t m, n, k;
    float alpha, beta;
    uint32_t epilogue; // a cublasLtEpilogue_t
    void *bias;        // of D's type: m, for BGRADB n
    void *aux;         // of D's type: m x n, what GELU is taken of
    int64_t aux_ld, bias_stride, aux_stride;
    bool halves; // k is summed in two halves, as an algorithm that splits k does
};

// Sums in ascending k, in f32; the same bits for the same product, whatever else runs.
void multiply(const Product &p);

} // namespace emu
#endif
