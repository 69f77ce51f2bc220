// product.cc - computes a matrix product with its epilogue. Before it: cublaslt.cc.
#include "emulation/product.hh"
#include <cublasLt.h>
#include <cmath>
#include <cstring>
#include <vector>

namespace emu {
namespace {

typedef float Eight __attribute__((vector_size(32)));
constexpr uint64_t tile_rows = 16, tile_columns = 4;

size_t bytes_of(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : 2;
}

float read(const void *p, cudaDataType type, int64_t at) {
    if (type == CUDA_R_32F) return static_cast<const float *>(p)[at];
    uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(p)[at]) << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// To the nearest, ties to even.
void write(void *p, cudaDataType type, int64_t at, float f) {
    if (type == CUDA_R_32F) {
        static_cast<float *>(p)[at] = f;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) bits = 0x7fff0000u;
    else bits += 0x7fffu + (bits >> 16 & 1);
    static_cast<uint16_t *>(p)[at] = static_cast<uint16_t>(bits >> 16);
}

// GELU by tanh, and its derivative.
constexpr float root = 0.7978845608f, cube = 0.044715f;
float gelu(float x) {
    return 0.5f * x * (1 + tanhf(root * (x + cube * x * x * x)));
}
float gelu_slope(float x) {
    float t = tanhf(root * (x + cube * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root * (1 + 3 * cube * x * x);
}

// op(A) as f32 in strips of 16 rows, k after k; op(B) in strips of 4 columns. What lies outside is 0.
struct Packed {
    std::vector<float> a, b;
};

void pack(const Product &p, const char *a, const char *b, Packed &to) {
    uint64_t rows = (p.m + tile_rows - 1) / tile_rows * tile_rows;
    uint64_t columns = (p.n + tile_columns - 1) / tile_columns * tile_columns;
    to.a.assign(rows * p.k, 0);
    to.b.assign(columns * p.k, 0);
    for (uint64_t i = 0; i < p.m; i++)
        for (uint64_t q = 0; q < p.k; q++) {
            int64_t from =
                static_cast<int64_t>(p.a_transposed ? q : i) + static_cast<int64_t>(p.a_transposed ? i : q) * p.a.ld;
            to.a[(i / tile_rows * p.k + q) * tile_rows + i % tile_rows] = read(a, p.a.type, from);
        }
    for (uint64_t j = 0; j < p.n; j++)
        for (uint64_t q = 0; q < p.k; q++) {
            int64_t from =
                static_cast<int64_t>(p.b_transposed ? j : q) + static_cast<int64_t>(p.b_transposed ? q : j) * p.b.ld;
            to.b[(j / tile_columns * p.k + q) * tile_columns + j % tile_columns] = read(b, p.b.type, from);
        }
}

// sum[column][row] of one tile over k from `first` to `end`.
void multiply_tile(const float *a, const float *b, uint64_t first, uint64_t end,
                   float (&sum)[tile_columns][tile_rows]) {
    Eight s[tile_columns][2] = {};
    for (uint64_t q = first; q < end; q++) {
        Eight x[2];
        memcpy(x, a + q * tile_rows, sizeof x);
        for (uint64_t c = 0; c < tile_columns; c++) {
            float y = b[q * tile_columns + c];
            s[c][0] += x[0] * y;
            s[c][1] += x[1] * y;
        }
    }
    memcpy(sum, s, sizeof s);
}

// What the epilogue makes of the element; aux and bias gradients are written on the way.
float finish(const Product &p, float v, int64_t row, int64_t column, const char *bias, char *aux) {
    int64_t at = column * p.aux_ld + row;
    if (p.epilogue & CUBLASLT_EPILOGUE_BIAS) v += read(bias, p.d.type, row);
    if (p.epilogue & CUBLASLT_EPILOGUE_RELU) v = v > 0 ? v : 0;
    if (p.epilogue & CUBLASLT_EPILOGUE_GELU) {
        if (aux) write(aux, p.d.type, at, v);
        v = gelu(v);
    }
    if ((p.epilogue & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU) v *= gelu_slope(read(aux, p.d.type, at));
    return v;
}

void add_columns(const Product &p, const char *data, const Matrix &of, bool transposed, uint64_t rows, char *bias) {
    for (uint64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (uint64_t q = 0; q < p.k; q++)
            sum += read(data, of.type,
                        static_cast<int64_t>(transposed ? i : q) * of.ld + static_cast<int64_t>(transposed ? q : i));
        write(bias, p.d.type, static_cast<int64_t>(i), sum);
    }
}

void multiply_one(const Product &p, const char *a, const char *b, const char *c, char *d, char *bias, char *aux) {
    Packed packed;
    pack(p, a, b, packed);
    bool bias_gradient = p.epilogue & 16;
    std::vector<float> row_sums(bias_gradient ? p.m : 0);
    for (uint64_t j = 0; j < p.n; j += tile_columns)
        for (uint64_t i = 0; i < p.m; i += tile_rows) {
            float sum[tile_columns][tile_rows], more[tile_columns][tile_rows] = {};
            const float *x = &packed.a[i * p.k], *y = &packed.b[j * p.k];
            uint64_t half = p.halves ? p.k / 2 : p.k;
            multiply_tile(x, y, 0, half, sum);
            if (p.halves) multiply_tile(x, y, half, p.k, more);
            for (uint64_t column = j; column < j + tile_columns && column < p.n; column++)
                for (uint64_t row = i; row < i + tile_rows && row < p.m; row++) {
                    int64_t r = static_cast<int64_t>(row), q = static_cast<int64_t>(column);
                    float v = p.alpha * (sum[column - j][row - i] + more[column - j][row - i]);
                    if (p.beta != 0) v += p.beta * read(c, p.c.type, q * p.c.ld + r);
                    v = finish(p, v, r, q, bias, aux);
                    if (bias_gradient) row_sums[row] += v;
                    write(d, p.d.type, q * p.d.ld + r, v);
                }
        }
    for (uint64_t i = 0; i < row_sums.size(); i++) write(bias, p.d.type, static_cast<int64_t>(i), row_sums[i]);
    // The sum over k of op(A)'s rows, or of op(B)'s columns.
    if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA) add_columns(p, a, p.a, p.a_transposed, p.m, bias);
    if (p.epilogue == CUBLASLT_EPILOGUE_BGRADB) add_columns(p, b, p.b, !p.b_transposed, p.n, bias);
}

char *batch_at(const void *data, int64_t stride, cudaDataType type, int32_t i) {
    if (!data) return nullptr;
    return const_cast<char *>(static_cast<const char *>(data)) + i * stride * static_cast<int64_t>(bytes_of(type));
}

} // namespace

void multiply(const Product &p) {
    for (int32_t i = 0; i < p.d.batch; i++)
        multiply_one(p, batch_at(p.a_data, p.a.stride, p.a.type, i), batch_at(p.b_data, p.b.stride, p.b.type, i),
                     batch_at(p.c_data, p.c.stride, p.c.type, i), batch_at(p.d_data, p.d.stride, p.d.type, i),
                     batch_at(p.bias, p.bias_stride, p.d.type, i), batch_at(p.aux, p.aux_stride, p.d.type, i));
}

} // namespace emu
