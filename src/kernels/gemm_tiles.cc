#include "kernels/gemm_tiles.h"

namespace lockstep::kernels {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

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

TileGrid TileGrid::for_fp32(int64_t m, int64_t n, int64_t /*k*/) {
  return cut(m, n, 192, 384);
}

TileGrid TileGrid::for_bf16(int64_t m, int64_t n, int64_t /*k*/) {
  return cut(m, n, 192, 384);
}

}  // namespace lockstep::kernels
