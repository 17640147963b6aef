// Register-blocked products and packing for the attention kernels, compiled once per instruction set.
//
// Every matrix product of attention is one micro-kernel, block<M, NV>: M rows times NV vectors of columns,
// summed over `depth` in registers, handed vector by vector to a Finish object that stores, adds, or turns
// scores into probabilities without another trip through memory. The left operand is broadcast element by
// element, row-major or transposed, so only the right one has a layout: rows of contiguous vectors.
// kRows * kColumnVectors accumulators keep both FMA ports busy and fit the register file: the accumulators
// are indexed by constants only (index sequences, no loops), otherwise GCC 12 keeps them in memory.
//
// Where the right operand is a transposed matrix (K^T, V^T) it is packed into panels: panel p holds keys
// [p * kPanel, (p + 1) * kPanel), element (d, key) at p * kPanel * depth + d * kPanel + key % kPanel; keys
// beyond the last are zero.
//
// Triangles: `diagonal` is (first query row - first key) of a tile: row r sees columns <= r + diagonal. Row
// blocks start at multiples of kRows from the tile's first row, and every row of a block is computed (zero
// where masked) up to the last column that the block's last row sees, rounded up to a vector.
#if defined(LOCKSTEP_KERNELS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_ATTENTION_TILE_INL_H_
#undef LOCKSTEP_KERNELS_ATTENTION_TILE_INL_H_
#else
#define LOCKSTEP_KERNELS_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/attention_layout.h"
#include "kernels/simd-inl.h"

// For lambdas that must vanish: target attributes (Highway's advice) and inlining.
#ifndef LOCKSTEP_INLINE_LAMBDA
#define LOCKSTEP_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// 8 x 2 of 32 vector registers, 6 x 2 of 16: both reach 98 to 100 % of the FMA peak on tiles of 64 x 64 x 64
// (Zen 5, GCC 12, December 2026), as do 4 x 4, 6 x 4, 8 x 3 and 12 x 2 where the registers suffice.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
inline constexpr int kRows = 8;
#else
inline constexpr int kRows = 6;
#endif
inline constexpr int kColumnVectors = 2;
inline constexpr int64_t kLanes = HWY_LANES(float);
inline constexpr int64_t kPanel = kColumnVectors * kLanes;

// Forward scores of a tile (32 KiB) and the backward pass's two tiles stay in a 48 KiB L1 with the operands.
inline constexpr AttentionTiling kTiling =
    kRows == 8 ? AttentionTiling{.panel = kPanel, .query_tile = 32, .key_chunk = 256, .square_tile = 64}
               : AttentionTiling{.panel = kPanel, .query_tile = 24, .key_chunk = 288, .square_tile = 48};
static_assert(kTiling.query_tile % kRows == 0 && kTiling.square_tile % kRows == 0);
static_assert(kTiling.key_chunk % kTiling.query_tile == 0 && kForwardPieceRows % kTiling.query_tile == 0);
static_assert(kTiling.key_chunk % kPanel == 0 && kTiling.square_tile % kPanel == 0);
static_assert(kPanel <= kLargestTiling.panel && kTiling.query_tile <= kLargestTiling.query_tile &&
              kTiling.key_chunk <= kLargestTiling.key_chunk &&
              kTiling.square_tile <= kLargestTiling.square_tile);

inline constexpr int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

/// What a finished block does with its sums; (row, column) count from the block's corner.
struct StoreFinish {
  float* c;
  int64_t ldc;
  HWY_INLINE void operator()(int64_t row, int64_t column, FloatVec sum) const {
    hn::StoreU(sum, FloatTag(), c + row * ldc + column);
  }
};

struct AddFinish {
  float* c;
  int64_t ldc;
  HWY_INLINE void operator()(int64_t row, int64_t column, FloatVec sum) const {
    const FloatTag d;
    float* at = c + row * ldc + column;
    hn::StoreU(hn::Add(sum, hn::LoadU(d, at)), d, at);
  }
};

/// One block of c = A * B over `depth`: A broadcast (element (m, k) at m * lda + k, or k * lda + m when
/// transposed), B in rows of kNV vectors.
template <int kM, int kNV, bool kTransposedA, class Finish>
HWY_NOINLINE void block(int64_t depth, const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT b,
                        int64_t ldb, const Finish& finish) {
  const FloatTag d;
  FloatVec sums[kM * kNV];
  const auto clear = [&]<size_t... I>(std::index_sequence<I...>)
                         LOCKSTEP_INLINE_LAMBDA { ((sums[I] = hn::Zero(d)), ...); };
  const auto add_row = [&]<size_t... N>(int64_t m, int64_t k, FloatVec* row, const FloatVec* columns,
                                        std::index_sequence<N...>) LOCKSTEP_INLINE_LAMBDA {
    const FloatVec left = hn::Set(d, kTransposedA ? a[k * lda + m] : a[m * lda + k]);
    ((row[N] = hn::MulAdd(left, columns[N], row[N])), ...);
  };
  const auto add_rows = [&]<size_t... M>(int64_t k, const FloatVec* columns, std::index_sequence<M...>)
                            LOCKSTEP_INLINE_LAMBDA {
                              (add_row(M, k, sums + M * kNV, columns, std::make_index_sequence<kNV>{}), ...);
                            };
  const auto finish_all = [&]<size_t... I>(std::index_sequence<I...>) LOCKSTEP_INLINE_LAMBDA {
    (finish(static_cast<int64_t>(I / kNV), static_cast<int64_t>(I % kNV) * kLanes, sums[I]), ...);
  };

  clear(std::make_index_sequence<kM * kNV>{});
  for (int64_t k = 0; k < depth; ++k) {
    FloatVec columns[kNV];
    columns[0] = hn::LoadU(d, b + k * ldb);
    if constexpr (kNV > 1) columns[1] = hn::LoadU(d, b + k * ldb + kLanes);
    static_assert(kNV <= 2);
    add_rows(k, columns, std::make_index_sequence<kM>{});
  }
  finish_all(std::make_index_sequence<kM * kNV>{});
}

/// fn(integral_constant M, first row) over blocks that cover `rows`: kRows each, then 4, 2, 1.
template <class Fn>
HWY_INLINE void for_row_blocks(int64_t rows, const Fn& fn) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) fn(std::integral_constant<int, kRows>(), row);
  if (row + 4 <= rows) {
    fn(std::integral_constant<int, 4>(), row);
    row += 4;
  }
  if (row + 2 <= rows) {
    fn(std::integral_constant<int, 2>(), row);
    row += 2;
  }
  if (row < rows) fn(std::integral_constant<int, 1>(), row);
}

/// block() with one or two vectors of columns, whichever `columns` (>= 1) needs.
template <int kM, bool kTransposedA, class Finish>
HWY_INLINE void block_of_columns(int64_t columns, int64_t depth, const float* a, int64_t lda, const float* b,
                                 int64_t ldb, const Finish& finish) {
  if (columns > kLanes) {
    block<kM, 2, kTransposedA>(depth, a, lda, b, ldb, finish);
  } else {
    block<kM, 1, kTransposedA>(depth, a, lda, b, ldb, finish);
  }
}

/// The blocks of a tile of scores (rows, columns) that the diagonal does not mask wholly:
/// emit(integral_constant M, row, column, seen, masked), where `seen` columns are wanted and `masked` says
/// that some of the block's columns are masked for some of its rows.
template <class Emit>
HWY_INLINE void for_score_blocks(int64_t rows, int64_t columns, int64_t diagonal, const Emit& emit) {
  for (int64_t column = 0; column < columns; column += kPanel) {
    for_row_blocks(rows, [&](auto m, int64_t row) LOCKSTEP_INLINE_LAMBDA {
      const int64_t seen = std::min(columns, row + m + diagonal) - column;
      if (seen <= 0) return;
      const int64_t width = seen > kLanes ? kPanel : kLanes;
      emit(m, row, column, seen, /*masked=*/column + width > row + diagonal + 1);
    });
  }
}

/// c (rows, width) = or += p (rows, depth) * b (depth, width): row r uses depth <= r + diagonal + 1 rounded
/// up to its block. width is a multiple of kLanes.
template <class Finish>
HWY_INLINE void accumulate_rows(int64_t rows, int64_t width, int64_t depth, int64_t diagonal, const float* p,
                                int64_t ldp, const float* b, int64_t ldb, float* c, int64_t ldc) {
  for (int64_t column = 0; column < width; column += kPanel) {
    for_row_blocks(rows, [&](auto m, int64_t row) LOCKSTEP_INLINE_LAMBDA {
      block_of_columns<m(), false>(width - column, std::min(depth, row + m + diagonal), p + row * ldp, ldp,
                                   b + column, ldb, Finish{c + row * ldc + column, ldc});
    });
  }
}

/// c (columns, width) = or += p^T (columns, rows) * b (rows, width), skipping what the diagonal masks.
template <class Finish>
HWY_INLINE void accumulate_columns(int64_t columns, int64_t width, int64_t rows, int64_t diagonal,
                                   const float* p, int64_t ldp, const float* b, int64_t ldb, float* c,
                                   int64_t ldc) {
  for (int64_t column = 0; column < width; column += kPanel) {
    for_row_blocks(columns, [&](auto m, int64_t key) LOCKSTEP_INLINE_LAMBDA {
      const int64_t first = std::max<int64_t>(0, key - diagonal);
      block_of_columns<m(), true>(width - column, rows - first, p + first * ldp + key, ldp,
                                  b + first * ldb + column, ldb, Finish{c + key * ldc + column, ldc});
    });
  }
}

/// to (rows, padded) = scale * from (rows, count), zero in [count, padded); padded a multiple of kLanes.
HWY_INLINE void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t count, float scale,
                          float* to, int64_t padded) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  for (int64_t row = 0; row < rows; ++row, from += stride, to += padded) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(factor, hn::LoadU(d, from + i)), d, to + i);
    if (i < count) hn::StoreU(hn::Mul(factor, load_partial(d, from + i, count - i)), d, to + i);
  }
}

/// to (rows, count) at `stride` = scale * from (rows, padded).
HWY_INLINE void unpack_rows(const float* from, int64_t padded, int64_t rows, int64_t count, float scale,
                            float* to, int64_t stride) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  for (int64_t row = 0; row < rows; ++row, from += padded, to += stride) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(factor, hn::LoadU(d, from + i)), d, to + i);
    if (i < count) store_partial(hn::Mul(factor, hn::LoadU(d, from + i)), d, to + i, count - i);
  }
}

#if HWY_TARGET != HWY_SCALAR
/// Vector whose 128-bit block b is the four floats at p + b * stride.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* p, int64_t stride) {
  constexpr int64_t kBlocks = sizeof(hn::Vec<D>) / 16;
  if constexpr (kBlocks <= 1) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, p + kBlocks / 2 * stride, stride), load_blocks(half, p, stride));
  }
}
#endif

/// Packs matrix (keys, depth) at `stride` into transposed panels (see the top of this file).
HWY_INLINE void pack_panels(const float* from, int64_t stride, int64_t keys, int64_t depth, float* to) {
  const int64_t padded = round_up(keys, kPanel);
  for (int64_t key = 0; key < padded; key += kLanes) {
    float* panel = to + key / kPanel * kPanel * depth + key % kPanel;
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const FloatTag d;
    // 4 x 4 transposes in every 128-bit block at once: block b of vector c holds key + 4 b + c.
    if (key + kLanes <= keys) {
      for (; i + 4 <= depth; i += 4) {
        const float* at = from + key * stride + i;
        const auto v0 = load_blocks(d, at, 4 * stride), v1 = load_blocks(d, at + stride, 4 * stride);
        const auto v2 = load_blocks(d, at + 2 * stride, 4 * stride);
        const auto v3 = load_blocks(d, at + 3 * stride, 4 * stride);
        const auto low02 = hn::InterleaveLower(d, v0, v2), low13 = hn::InterleaveLower(d, v1, v3);
        const auto high02 = hn::InterleaveUpper(d, v0, v2), high13 = hn::InterleaveUpper(d, v1, v3);
        hn::StoreU(hn::InterleaveLower(d, low02, low13), d, panel + i * kPanel);
        hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, panel + (i + 1) * kPanel);
        hn::StoreU(hn::InterleaveLower(d, high02, high13), d, panel + (i + 2) * kPanel);
        hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, panel + (i + 3) * kPanel);
      }
    }
#endif
    for (; i < depth; ++i) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        panel[i * kPanel + lane] = key + lane < keys ? from[(key + lane) * stride + i] : 0.0f;
      }
    }
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
