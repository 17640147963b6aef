// The inner loop of our own matrix product, one per instruction set (Highway). Internal to kernels.
//
// A micro kernel computes a block of C of up to rows_max rows and one or two vectors of columns, keeps it in
// registers over the whole of k, and reads A one broadcast element at a time:
//   c[i, j] (+)= sum over p of A(i, p) * b[p * b_stride + j]
// The sum runs in the order of p with one rounding per term (fused where the CPU fuses), so an element's bits
// depend neither on the block it lies in nor on the strides.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

struct MicroArgs {
  const float* a;
  int64_t a_stride;
  const float* b;  // rows of vectors * lanes floats, all readable; any alignment
  int64_t b_stride;
  int64_t k;
  float* c;  // rows x vectors * lanes, all written
  int64_t ldc;
  bool add;  // C += instead of C =
};
using MicroKernel = void (*)(const MicroArgs&);

struct GemmKernels {
  int64_t rows_max;       // rows of the largest micro kernel
  int64_t lanes;          // floats in a vector
  int64_t panel_cols;     // 2 * lanes: columns of the widest micro kernel
  int64_t a_pack_stride;  // floats per p in pack_a's output; >= rows_max
  /// [vectors - 1][rows - 1]. by_row reads A(i, p) = a[i * a_stride + p], by_column A(i, p) = a[p * a_stride
  /// + i].
  const MicroKernel* by_row[2];
  const MicroKernel* by_column[2];
  /// Copies k rows of `cols` columns (<= panel_cols) of op(B) to out, padded with zeros to whole vectors: row
  /// p starts at out + p * (vectors * lanes). `out` is aligned to a vector.
  void (*pack_b)(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t cols, float* out);
  /// Copies a (k, rows) piece of a transposed A to out, row p at out + p * a_pack_stride. `readable` >= rows
  /// elements may be read of each row.
  void (*pack_a)(const float* a, int64_t lda, int64_t k, int64_t rows, int64_t readable, float* out);
};

/// For the instruction set in use (isa.h).
const GemmKernels& gemm_kernels();

/// rows_max * panel_cols of any instruction set.
inline constexpr int64_t kMicroTileMax = 14 * 32;

}  // namespace lockstep::kernels
