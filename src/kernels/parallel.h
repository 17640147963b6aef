// The one way kernels share work: pieces cut by shape, handed out dynamically to the calling thread's OpenMP
// team. A piece writes only what is its own, so results do not depend on who computes it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::kernels {

/// Bytes a piece should touch: large against the hand-out (a few hundred ns), small against a core's L2.
inline constexpr int64_t kPieceBytes = 48 * 1024;

/// Rows per piece so that a piece touches about kPieceBytes; at least 1. A function of the shape only.
inline int64_t rows_per_piece(int64_t bytes_per_row) {
  return std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, bytes_per_row));
}

inline int64_t piece_count(int64_t items, int64_t items_per_piece) {
  return (items + items_per_piece - 1) / items_per_piece;
}

/// body(piece) for every piece in [0, pieces). One piece runs on the calling thread, without a parallel
/// region.
template <typename Body>
void parallel_pieces(int64_t pieces, const Body& body) {
  if (pieces <= 1) {
    if (pieces == 1) body(int64_t{0});
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (int64_t piece = 0; piece < pieces; ++piece) body(piece);
}

/// body(begin, end) over [0, items) in pieces of items_per_piece.
template <typename Body>
void parallel_ranges(int64_t items, int64_t items_per_piece, const Body& body) {
  parallel_pieces(piece_count(items, items_per_piece), [&](int64_t piece) {
    const int64_t begin = piece * items_per_piece;
    body(begin, std::min(items, begin + items_per_piece));
  });
}

}  // namespace lockstep::kernels
