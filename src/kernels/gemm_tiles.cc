#include "kernels/gemm_tiles.h"

#include <numeric>

namespace lockstep::kernels {
namespace {

// Halves the longer side until there are enough tiles for several threads to share evenly, but never below
// what one thread can compute without packing for longer than it multiplies.
TileGrid cut(int64_t m, int64_t n, int64_t rows, int64_t cols) {
  constexpr int64_t kWantedTiles = 8;
  constexpr int64_t kLeastSide = 64;
  rows = std::min(rows, m);
  cols = std::min(cols, n);
  while (ceil_div(m, rows) * ceil_div(n, cols) < kWantedTiles) {
    int64_t& side = rows >= cols ? rows : cols;
    if (side <= kLeastSide) break;
    side = std::max(kLeastSide, ceil_div(side, 2));
  }
  return {m, n, rows, cols, ceil_div(m, rows), ceil_div(n, cols)};
}

}  // namespace

// 16 or more tiles, their number a multiple of 8 before rounding (so that 2, 4 and 8 equal cores finish
// together), at most 8 blocks of rows and 256 columns, and whole blocks, as a block of 12 rows reads as much
// of B as one of 14. Chosen from a sweep of nine settings on two Zen 5 cores (2026-12-01) whose clock drifted
// by 2 to 3 per cent, so neighbouring settings are not told apart.
TileGrid TileGrid::for_native(int64_t m, int64_t n, int64_t rows_max, int64_t panel_cols) {
  constexpr int64_t kWantedTiles = 16, kEven = 8, kBlocksMax = 8, kColsMax = 256;
  const int64_t panels = ceil_div(n, panel_cols), blocks = ceil_div(m, rows_max);
  int64_t col_tiles = ceil_div(panels, kColsMax / panel_cols);
  // Two blocks by two panels is the least that amortises a hand-out.
  while (col_tiles * std::max<int64_t>(1, blocks / 2) < kWantedTiles && panels / (2 * col_tiles) >= 2)
    col_tiles *= 2;
  const int64_t row_tiles_max = std::max<int64_t>(1, blocks / 2);
  int64_t row_tiles = std::max(ceil_div(blocks, kBlocksMax), ceil_div(kWantedTiles, col_tiles));
  const int64_t multiple = kEven / std::gcd(kEven, col_tiles);
  row_tiles = ceil_div(row_tiles, multiple) * multiple;
  if (row_tiles > row_tiles_max)
    row_tiles = std::max(row_tiles_max / multiple * multiple, std::min<int64_t>(row_tiles_max, multiple));
  const int64_t rows = ceil_div(ceil_div(m, row_tiles), rows_max) * rows_max;
  const int64_t cols = ceil_div(panels, col_tiles) * panel_cols;
  return {m, n, rows, cols, ceil_div(m, rows), ceil_div(n, cols)};
}

TileGrid TileGrid::for_library(int64_t m, int64_t n) {
  return cut(m, n, 192, 384);
}

}  // namespace lockstep::kernels
