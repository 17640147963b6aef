// Matrix products, row-major: fp32 by our own kernels (gemm_kernel.cc) or oneDNN, whichever is measured to be
// faster for the shape and the instruction set; bf16 by oneDNN (the gemm_onednn files, the only ones that see
// its headers).
//
//   C[m, n] = op(A)[m, k] . op(B)[k, n] + beta * C[m, n]
//
// The product is cut into tiles of C by shape and instruction set alone; each tile is computed by one thread
// over fixed pieces of k, in order, so results do not depend on the thread count. After a tile is done its
// epilogue runs on the same thread while the tile is in cache.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

enum class Transpose : bool { kNo = false, kYes = true };

/// A finished tile of C: rows [row, row + rows) and columns [col, col + cols).
struct Tile {
  int64_t row, rows, col, cols;
};

/// Called once per finished tile, on the thread that computed it; tiles do not overlap and cover C. Null:
/// nothing.
struct TileEpilogue {
  void (*run)(const void* context, const Tile& tile) = nullptr;
  const void* context = nullptr;
};

/// One fp32 product. A is (m, k), or (k, m) when transposed; B is (k, n), or (n, k) when transposed. lda,
/// ldb, ldc are row strides in elements. beta is 0 (C may be uninitialised) or 1. m, n, k >= 1.
struct GemmArgs {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float beta = 0.0f;
  float* c = nullptr;
  int64_t ldc = 0;
};

void gemm(const GemmArgs& args, TileEpilogue epilogue = {});

/// As GemmArgs with bf16 inputs (upper 16 bits of an fp32), fp32 accumulation and fp32 C.
struct GemmBf16Args {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  const uint16_t* a = nullptr;
  int64_t lda = 0;
  const uint16_t* b = nullptr;
  int64_t ldb = 0;
  float beta = 0.0f;
  float* c = nullptr;
  int64_t ldc = 0;
};

void gemm(const GemmBf16Args& args, TileEpilogue epilogue = {});

/// Whether this CPU has instructions that make bf16 products faster than fp32 (AVX512-BF16 or AMX). The bf16
/// gemm works on every CPU all the same.
bool cpu_has_fast_bf16();

/// oneDNN's version and the instruction set it uses here, e.g. "oneDNN 2.6.3, avx512_core".
const char* gemm_library();

namespace reference {
/// Plain loops in double, for tests; inputs of the bf16 form are widened first.
void gemm(const GemmArgs& args);
void gemm(const GemmBf16Args& args);
}  // namespace reference

}  // namespace lockstep::kernels
