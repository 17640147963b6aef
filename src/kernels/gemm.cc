#include "kernels/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <tuple>

#include "base/check.h"
#include "kernels/bf16.h"
#include "kernels/gemm_backend.h"
#include "kernels/gemm_native.h"
#include "kernels/gemm_tiles.h"

namespace lockstep::kernels {
namespace {

template <typename Args>
void check_args(const Args& args) {
  LOCKSTEP_CHECK(args.m >= 1 && args.n >= 1 && args.k >= 1)
      << "m=" << args.m << " n=" << args.n << " k=" << args.k;
  LOCKSTEP_CHECK(args.beta == 0.0f || args.beta == 1.0f) << "beta=" << args.beta;
  LOCKSTEP_CHECK_GE(args.lda, args.transpose_a == Transpose::kYes ? args.m : args.k);
  LOCKSTEP_CHECK_GE(args.ldb, args.transpose_b == Transpose::kYes ? args.k : args.n);
  LOCKSTEP_CHECK_GE(args.ldc, args.n);
}

/// The same product restricted to one tile of C and to [k_first, k_first + k_count) of the sum.
template <typename Args>
Args restrict_to(const Args& args, const Tile& tile, int64_t k_first, int64_t k_count) {
  Args part = args;
  part.m = tile.rows;
  part.n = tile.cols;
  part.k = k_count;
  part.a +=
      args.transpose_a == Transpose::kYes ? k_first * args.lda + tile.row : tile.row * args.lda + k_first;
  part.b +=
      args.transpose_b == Transpose::kYes ? tile.col * args.ldb + k_first : k_first * args.ldb + tile.col;
  part.c += tile.row * args.ldc + tile.col;
  return part;
}

/// Calls body(tile) for every tile, then its epilogue, on whichever thread is free.
template <typename Body>
void for_each_tile(const TileGrid& grid, TileEpilogue epilogue, const Body& body) {
#pragma omp parallel for schedule(dynamic) if (grid.count() > 1)
  for (int64_t index = 0; index < grid.count(); ++index) {
    const Tile tile = grid.tile(index);
    body(tile);
    if (epilogue.run != nullptr) epilogue.run(epilogue.context, tile);
  }
}

/// Scratch of one thread; grows to what was ever asked for and stays.
std::byte* thread_scratch(size_t bytes) {
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<std::byte, Free> scratch;
  thread_local size_t capacity = 0;
  if (bytes > capacity) {
    capacity = (bytes + 4095) / 4096 * 4096;
    scratch.reset(static_cast<std::byte*>(std::aligned_alloc(4096, capacity)));
    if (scratch == nullptr) throw std::bad_alloc();
  }
  return scratch.get();
}

/// Prepared products, one per shape of a tile; made once, kept for the life of the process. A null entry says
/// that the library has no kernel.
const backend::Bf16Product* find_bf16_product(const GemmBf16Args& args) {
  using Key = std::tuple<bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool>;
  static std::mutex mutex;
  static auto& products = *new std::map<Key, std::unique_ptr<backend::Bf16Product>>();
  const Key key{args.transpose_a == Transpose::kYes,
                args.transpose_b == Transpose::kYes,
                args.m,
                args.n,
                args.k,
                args.lda,
                args.ldb,
                args.ldc,
                args.beta != 0.0f};
  const std::lock_guard lock(mutex);
  auto [entry, is_new] = products.try_emplace(key);
  if (is_new) entry->second = backend::make_bf16_product(args, /*threaded=*/false);
  return entry->second.get();
}

void widen(const uint16_t* from, int64_t rows, int64_t cols, int64_t stride, float* to) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) to[row * cols + col] = from_bf16(from[row * stride + col]);
  }
}

/// One tile without bf16 instructions: pieces of k are widened to fp32 and multiplied in order.
void multiply_widened(const GemmBf16Args& args, const Tile& tile) {
  constexpr int64_t kPiece = 512;  // k of a piece: two fp32 panels of 384 x 512 stay within a 2 MB cache
  const int64_t piece = std::min(kPiece, args.k);
  auto* a = reinterpret_cast<float*>(
      thread_scratch(sizeof(float) * static_cast<size_t>((tile.rows + tile.cols) * piece)));
  float* b = a + tile.rows * piece;
  for (int64_t first = 0; first < args.k; first += kPiece) {
    const GemmBf16Args part = restrict_to(args, tile, first, std::min(kPiece, args.k - first));
    const bool ta = part.transpose_a == Transpose::kYes, tb = part.transpose_b == Transpose::kYes;
    const int64_t a_rows = ta ? part.k : part.m, a_cols = ta ? part.m : part.k;
    const int64_t b_rows = tb ? part.n : part.k, b_cols = tb ? part.k : part.n;
    widen(part.a, a_rows, a_cols, part.lda, a);
    widen(part.b, b_rows, b_cols, part.ldb, b);
    backend::sgemm({part.transpose_a, part.transpose_b, part.m, part.n, part.k, a, a_cols, b, b_cols,
                    first == 0 ? part.beta : 1.0f, part.c, part.ldc},
                   /*threaded=*/false);
  }
}

}  // namespace

void library_gemm(const GemmArgs& args, TileEpilogue epilogue) {
  for_each_tile(TileGrid::for_library(args.m, args.n), epilogue, [&](const Tile& tile) {
    backend::sgemm(restrict_to(args, tile, 0, args.k), /*threaded=*/false);
  });
}

void gemm(const GemmArgs& args, TileEpilogue epilogue) {
  check_args(args);
  prefers_native(args) ? native_gemm(args, epilogue) : library_gemm(args, epilogue);
}

void gemm(const GemmBf16Args& args, TileEpilogue epilogue) {
  check_args(args);
  const TileGrid grid = TileGrid::for_library(args.m, args.n);
  // At most four shapes of tiles: inner, last column, last row, corner. Looked up here because a primitive is
  // made for the number of threads that it sees.
  const backend::Bf16Product* products[2][2];
  for (const bool last_row : {false, true}) {
    for (const bool last_col : {false, true}) {
      const Tile tile = grid.tile_at(last_row ? grid.row_count - 1 : 0, last_col ? grid.col_count - 1 : 0);
      products[last_row][last_col] = find_bf16_product(restrict_to(args, tile, 0, args.k));
    }
  }
  for_each_tile(grid, epilogue, [&](const Tile& tile) {
    const backend::Bf16Product* product = products[tile.row + tile.rows == args.m && grid.row_count > 1]
                                                  [tile.col + tile.cols == args.n && grid.col_count > 1];
    if (product == nullptr) return multiply_widened(args, tile);
    const GemmBf16Args part = restrict_to(args, tile, 0, args.k);
    product->run(part.a, part.b, part.c, thread_scratch(product->scratch_bytes()));
  });
}

bool cpu_has_fast_bf16() {
  return backend::has_fast_bf16();
}
const char* gemm_library() {
  return backend::library();
}

}  // namespace lockstep::kernels
