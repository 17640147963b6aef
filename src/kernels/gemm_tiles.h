// How a product is cut into tiles of C: a pure function of the shape, so that results do not depend on the
// number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"

namespace lockstep::kernels {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Tiles of tile_rows x tile_cols, cut off at the borders of C. Numbered along the shorter side of C first,
/// so that tiles computed one after the other share the larger operand's part.
struct TileGrid {
  int64_t m, n;
  int64_t tile_rows, tile_cols;
  int64_t row_count, col_count;

  Tile tile_at(int64_t grid_row, int64_t grid_col) const {
    const int64_t row = grid_row * tile_rows, col = grid_col * tile_cols;
    return {row, std::min(tile_rows, m - row), col, std::min(tile_cols, n - col)};
  }
  int64_t count() const { return row_count * col_count; }
  Tile tile(int64_t index) const {
    return m >= n ? tile_at(index / col_count, index % col_count)
                  : tile_at(index % row_count, index / row_count);
  }

  /// For our own kernels: tiles of whole panels.
  static TileGrid for_native(int64_t m, int64_t n, int64_t rows_max, int64_t panel_cols);
  /// For products of the library, one thread a tile.
  static TileGrid for_library(int64_t m, int64_t n);
};

}  // namespace lockstep::kernels
