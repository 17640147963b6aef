#include "kernels/gemm_native.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "kernels/gemm_kernel.h"
#include "kernels/gemm_tiles.h"

namespace lockstep::kernels {
namespace {

struct FreeFloats {
  void operator()(float* p) const { std::free(p); }
};

/// Aligned floats that grow to what was ever asked for and stay.
class Scratch {
 public:
  float* floats(int64_t count) {
    if (count > capacity_) {
      capacity_ = (count + 1023) / 1024 * 1024;
      data_.reset(
          static_cast<float*>(std::aligned_alloc(4096, static_cast<size_t>(capacity_) * sizeof(float))));
      LOCKSTEP_CHECK(data_ != nullptr) << "out of memory for " << capacity_ << " floats";
    }
    return data_.get();
  }

 private:
  std::unique_ptr<float, FreeFloats> data_;
  int64_t capacity_ = 0;
};

/// What a thread keeps while it works: the packed columns of one column of tiles, all of k that it has met
/// yet.
struct PackedColumns {
  Scratch scratch;
  uint64_t product = 0;
  int64_t first_panel = -1;
  int64_t pieces_done = 0;
};

/// Tiles are handed out from as many lanes as there are threads: contiguous runs of tiles, column by column
/// of C. A thread empties its own lane and then helps with the others, so that it packs few columns of B,
/// shares no packed data with another core (whose transfer costs more than packing twice), and no slow core
/// is waited for.
class Lanes {
 public:
  Lanes(int64_t tiles, int threads) : tiles_(tiles), count_(std::clamp(threads, 1, kLanesMax)) {
    for (int lane = 0; lane < count_; ++lane) next_[lane].tile.store(begin(lane), std::memory_order_relaxed);
  }

  /// Calls body(tile) until none is left anywhere.
  template <typename Body>
  void run(int thread, const Body& body) {
    for (int offset = 0; offset < count_; ++offset) {
      const int lane = (thread + offset) % count_;
      for (int64_t tile; (tile = next_[lane].tile.fetch_add(1, std::memory_order_relaxed)) < begin(lane + 1);)
        body(tile);
    }
  }

 private:
  static constexpr int kLanesMax = 64;
  struct alignas(64) Counter {
    std::atomic<int64_t> tile;
  };
  int64_t begin(int lane) const { return tiles_ * lane / count_; }

  int64_t tiles_;
  int count_;
  Counter next_[kLanesMax];
};

/// One product, shared by the team.
class Product {
 public:
  Product(const GemmArgs& args, TileEpilogue epilogue, const GemmKernels& kernels)
      : args_(args), epilogue_(epilogue), kernels_(kernels) {
    static std::atomic<uint64_t> products{0};
    number_ = 1 + products.fetch_add(1, std::memory_order_relaxed);
    // Pieces of k: 256 columns of B by 384 stay within 384 KB, and 384 terms are rounded better than 50304.
    constexpr int64_t kPieceMax = 384;
    piece_ = (ceil_div(args.k, ceil_div(args.k, kPieceMax)) + 3) / 4 * 4;
    pieces_ = ceil_div(args.k, piece_);
    const bool transposed = args.transpose_b == Transpose::kYes;
    // Rows of B that lie close together are read in place, which for as few rows of C as a training step has
    // was as fast as packing or faster. The limit comes from one sweep on Zen 5 (2026-12-01): strides of 1536
    // floats were better packed with 256-bit vectors and in place with 512-bit ones, strides of 3072 packed
    // with both.
    packs_b_ = transposed || args.n % kernels.panel_cols != 0 || args.ldb >= 128 * kernels.lanes;
    // Columns of A whose elements all fall into the same few sets of the cache.
    packs_a_ = args.transpose_a == Transpose::kYes && args.lda % 1024 == 0 && kernels.lanes < 16;
    grid_ = TileGrid::for_native(args.m, args.n, kernels.rows_max, kernels.panel_cols);
  }

  int64_t tile_count() const { return grid_.count(); }

  /// `index` counts down the columns of tiles.
  void multiply_tile(int64_t index) const {
    const Tile tile = grid_.tile_at(index % grid_.row_count, index / grid_.row_count);
    thread_local PackedColumns packed;
    const int64_t first_panel = tile.col / kernels_.panel_cols;
    const int64_t panels = ceil_div(tile.cols, kernels_.panel_cols);
    if (packs_b_ && (packed.product != number_ || packed.first_panel != first_panel)) {
      packed.scratch.floats(panels * kernels_.panel_cols * args_.k);
      packed.product = number_;
      packed.first_panel = first_panel;
      packed.pieces_done = 0;
    }
    // Blocks of rows as equal as can be: 48 rows are 4 x 12 rather than 3 x 14 + 6.
    const int64_t blocks = ceil_div(tile.rows, kernels_.rows_max);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int64_t p = piece * piece_, k = std::min(piece_, args_.k - p);
      float* packed_b = nullptr;
      if (packs_b_) {
        packed_b = packed.scratch.floats(0) + panels * kernels_.panel_cols * p;
        if (piece == packed.pieces_done) {
          pack_columns(p, k, tile, packed_b);
          ++packed.pieces_done;
        }
      }
      int64_t row = tile.row;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t rows = tile.rows / blocks + (block < tile.rows % blocks ? 1 : 0);
        multiply_block(p, k, {row, rows, tile.col, tile.cols}, packed_b);
        row += rows;
      }
    }
    if (epilogue_.run != nullptr) epilogue_.run(epilogue_.context, tile);
  }

 private:
  const float* b_at(int64_t p, int64_t col) const {
    return args_.b + (args_.transpose_b == Transpose::kYes ? col * args_.ldb + p : p * args_.ldb + col);
  }

  void pack_columns(int64_t p, int64_t k, const Tile& tile, float* to) const {
    for (int64_t col = tile.col; col < tile.col + tile.cols; col += kernels_.panel_cols) {
      kernels_.pack_b(b_at(p, col), args_.ldb, args_.transpose_b == Transpose::kYes, k,
                      std::min(kernels_.panel_cols, args_.n - col), to);
      to += kernels_.panel_cols * k;
    }
  }

  /// The rows of one micro kernel by all columns of a tile, for k terms from p on.
  void multiply_block(int64_t p, int64_t k, const Tile& block, const float* packed_b) const {
    MicroArgs micro{};
    micro.k = k;
    const bool by_row = args_.transpose_a == Transpose::kNo;
    micro.a = args_.a + (by_row ? block.row * args_.lda + p : p * args_.lda + block.row);
    micro.a_stride = args_.lda;
    if (packs_a_) {
      thread_local Scratch packed_a;
      float* to = packed_a.floats(k * kernels_.a_pack_stride);
      kernels_.pack_a(micro.a, args_.lda, k, block.rows, args_.m - block.row, to);
      micro.a = to;
      micro.a_stride = kernels_.a_pack_stride;
    }
    const MicroKernel* const* table = by_row ? kernels_.by_row : kernels_.by_column;
    const bool add = args_.beta != 0.0f || p > 0;
    for (int64_t col = block.col; col < block.col + block.cols; col += kernels_.panel_cols) {
      const int64_t cols = std::min(kernels_.panel_cols, args_.n - col),
                    vectors = ceil_div(cols, kernels_.lanes);
      micro.b = packs_b_ ? packed_b : b_at(p, col);
      micro.b_stride = packs_b_ ? vectors * kernels_.lanes : args_.ldb;
      packed_b += packs_b_ ? kernels_.panel_cols * k : 0;
      float* c = args_.c + block.row * args_.ldc + col;
      const MicroKernel multiply = table[vectors - 1][block.rows - 1];
      if (cols == vectors * kernels_.lanes) {
        micro.c = c;
        micro.ldc = args_.ldc;
        micro.add = add;
        multiply(micro);
      } else {
        multiply_edge(multiply, micro, c, block.rows, cols, vectors * kernels_.lanes, add);
      }
    }
  }

  /// A block that is not a whole number of vectors wide goes through a buffer.
  void multiply_edge(MicroKernel multiply, MicroArgs micro, float* c, int64_t rows, int64_t cols,
                     int64_t width, bool add) const {
    alignas(64) float block[kMicroTileMax];
    micro.c = block;
    micro.ldc = width;
    micro.add = false;
    multiply(micro);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        float& to = c[i * args_.ldc + j];
        to = add ? block[i * width + j] + to : block[i * width + j];
      }
    }
  }

  const GemmArgs args_;
  const TileEpilogue epilogue_;
  const GemmKernels& kernels_;
  uint64_t number_ = 0;
  int64_t piece_ = 0, pieces_ = 0;
  bool packs_b_ = false, packs_a_ = false;
  TileGrid grid_{};
};

}  // namespace

bool prefers_native(const GemmArgs& args) {
  const int64_t lanes = gemm_kernels().lanes;
  if (lanes < 8) return false;  // no fused multiply-add
  // Beyond the caches the library's blocking wins (gradients through gpt2's head), except where B is packed
  // once for all rows of C (its logits) with 512-bit vectors.
  constexpr int64_t kElementsMax = int64_t{4} << 20;
  if (args.m * args.k > kElementsMax) return false;
  if (args.k * args.n > kElementsMax || args.m * args.n > kElementsMax) {
    return lanes == 16 && args.transpose_b == Transpose::kYes && args.transpose_a == Transpose::kNo;
  }
  if (lanes == 16) return true;
  // With 256-bit vectors the library's packed kernels win on large products, except where its unpacked ones
  // are chosen and meet strides that collide in the cache.
  constexpr int64_t kSmall = int64_t{1} << 27;
  return args.m * args.n * args.k <= kSmall || args.transpose_a == Transpose::kYes ||
         (args.transpose_b == Transpose::kNo && args.ldb % 512 == 0);
}

void native_gemm(const GemmArgs& args, TileEpilogue epilogue) {
  const Product product(args, epilogue, gemm_kernels());
  Lanes lanes(product.tile_count(), omp_get_max_threads());
#pragma omp parallel if (product.tile_count() > 1)
  lanes.run(omp_get_thread_num(), [&](int64_t tile) { product.multiply_tile(tile); });
}

}  // namespace lockstep::kernels
