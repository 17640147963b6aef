// How a product is cut into tiles of C: a pure function of the shape, so that results do not depend on the
// number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"

namespace lockstep::kernels {

/// Tiles of tile_rows x tile_cols, cut off at the borders of C, numbered row by row.
struct TileGrid {
  int64_t m, n;
  int64_t tile_rows, tile_cols;
  int64_t row_count, col_count;

  int64_t count() const { return row_count * col_count; }
  Tile tile(int64_t index) const {
    const int64_t row = index / col_count * tile_rows, col = index % col_count * tile_cols;
    return {row, std::min(tile_rows, m - row), col, std::min(tile_cols, n - col)};
  }

  /// For our own kernels: tiles of whole panels.
  static TileGrid for_native(int64_t m, int64_t n, int64_t rows_max, int64_t panel_cols);
  static TileGrid for_fp32(int64_t m, int64_t n, int64_t k);
  static TileGrid for_bf16(int64_t m, int64_t n, int64_t k);
};

}  // namespace lockstep::kernels
