#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/attention_tile-inl.h"
#include "kernels/dropout-inl.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on
#include "kernels/attention_layout.h"
#include "kernels/parallel.h"

#ifndef LOCKSTEP_KERNELS_ATTENTION_FORWARD_ONCE_
#define LOCKSTEP_KERNELS_ATTENTION_FORWARD_ONCE_
namespace lockstep::kernels {
/// Queries [first_row, end_row) of one head; q, out point at the head's first element of row 0.
struct ForwardPiece {
  AttentionShape shape;
  const float* q;
  float* out;  // row stride C
  float* lse;  // (T)
  int64_t first_row, end_row;
  const DropoutStream* dropout;  // null without
  uint64_t dropout_element;      // of the head's probability (0, 0)
};
}  // namespace lockstep::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

/// The scores of one query against keys [first_key, first_key + seen) become exponentials relative to the
/// largest score so far; total and maximum are updated. Zeros follow up to `limit`. Returns the factor by
/// which what was summed before this chunk must be multiplied.
HWY_INLINE float exponentiate_row(const ForwardPiece& piece, int64_t row, int64_t first_key, int64_t seen,
                                  int64_t limit, float* HWY_RESTRICT scores, float* HWY_RESTRICT keep,
                                  float* maximum, float* total) {
  const FloatTag d;
  const int64_t whole = seen / kLanes * kLanes;
  const auto in_tail = hn::FirstN(d, static_cast<size_t>(seen - whole));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = lowest;
  for (int64_t j = 0; j < whole; j += kLanes) largest = hn::Max(largest, hn::LoadU(d, scores + j));
  if (whole < seen) {
    largest = hn::Max(largest, hn::IfThenElse(in_tail, hn::LoadU(d, scores + whole), lowest));
  }
  float largest_before = 0.0f;
  if (first_key > 0) {
    largest_before = *maximum;
    largest = hn::Max(largest, hn::Set(d, largest_before));
  }
  largest = hn::MaxOfLanes(d, largest);

  auto sum = hn::Zero(d);
  int64_t j = 0;
  for (; j < whole; j += kLanes) {
    const auto p = exp_up_to_88(d, hn::Sub(hn::LoadU(d, scores + j), largest));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + j);
  }
  if (j < seen) {
    const auto x = hn::Sub(hn::LoadU(d, scores + j), largest);
    const auto p = hn::IfThenElseZero(in_tail, exp_up_to_88(d, x));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + j);
    j += kLanes;
  }
  for (; j < limit; j += kLanes) hn::StoreU(hn::Zero(d), d, scores + j);

  if (piece.dropout != nullptr) {
    // Multipliers of whole vectors: those behind the last key meet zeros.
    dropout_multipliers(d, *piece.dropout,
                        piece.dropout_element + static_cast<uint64_t>(row * piece.shape.T + first_key),
                        round_up(seen, kLanes), keep);
    for (j = 0; j < seen; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), hn::LoadU(d, keep + j)), d, scores + j);
    }
  }
  *maximum = hn::GetLane(largest);
  const float row_total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (first_key == 0) {
    *total = row_total;
    return 1.0f;
  }
  const float rescale = hn::GetLane(exp_up_to_88(d, hn::Sub(hn::Set(d, largest_before), largest)));
  *total = *total * rescale + row_total;
  return rescale;
}

/// Scores, exponentials and probability * value sums of one tile against one chunk of keys.
HWY_NOINLINE void attend_chunk(const ForwardPiece& piece, const ForwardSlices& slices, int64_t first_row,
                               int64_t rows, int64_t first_key) {
  const int64_t depth = piece.shape.D, width = round_up(depth, kLanes);
  const int64_t diagonal = first_row - first_key;
  const int64_t columns = std::min(kTiling.key_chunk, rows + diagonal);
  const int64_t stride = kTiling.key_chunk;
  const float* panels = slices.key_panels + first_key * depth;
  for_score_blocks(rows, columns, diagonal,
                   [&](auto m, int64_t row, int64_t column, int64_t seen, bool) LOCKSTEP_INLINE_LAMBDA {
                     block_of_columns<m(), false>(seen, depth, slices.queries + row * width, width,
                                                  panels + column * depth, kPanel,
                                                  StoreFinish{slices.scores + row * stride + column, stride});
                   });
  for_row_blocks(rows, [&](auto m, int64_t block_row) LOCKSTEP_INLINE_LAMBDA {
    const int64_t limit = std::min(columns, block_row + m + diagonal);
    for (int64_t row = block_row; row < block_row + m; ++row) {
      const float rescale = exponentiate_row(
          piece, first_row + row, first_key, std::min(columns, row + diagonal + 1), limit,
          slices.scores + row * stride, slices.keep, slices.maxima + row, slices.totals + row);
      if (first_key > 0 && rescale != 1.0f) {
        const FloatTag d;
        float* sums = slices.sums + row * width;
        for (int64_t i = 0; i < width; i += kLanes) {
          hn::StoreU(hn::Mul(hn::Set(d, rescale), hn::LoadU(d, sums + i)), d, sums + i);
        }
      }
    }
  });
  const float* values = slices.values + first_key * width;
  if (first_key == 0) {
    accumulate_rows<StoreFinish>(rows, width, columns, diagonal, slices.scores, stride, values, width,
                                 slices.sums, width);
  } else {
    accumulate_rows<AddFinish>(rows, width, columns, diagonal, slices.scores, stride, values, width,
                               slices.sums, width);
  }
}

void attend(const ForwardPiece& piece, float* workspace) {
  const FloatTag d;
  const int64_t depth = piece.shape.D, width = round_up(depth, kLanes);
  const int64_t channels = piece.shape.H * depth, stride = 3 * channels;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(depth)));
  WorkspaceCarver carver(workspace);
  const ForwardSlices slices(piece.shape, kTiling, carver);
  pack_panels(piece.q + channels, stride, piece.end_row, depth, slices.key_panels);
  pack_rows(piece.q + 2 * channels, stride, piece.end_row, depth, 1.0f, slices.values, width);
  for (int64_t first_row = piece.first_row; first_row < piece.end_row; first_row += kTiling.query_tile) {
    const int64_t rows = std::min(kTiling.query_tile, piece.end_row - first_row);
    pack_rows(piece.q + first_row * stride, stride, rows, depth, scale, slices.queries, width);
    for (int64_t first_key = 0; first_key < first_row + rows; first_key += kTiling.key_chunk) {
      attend_chunk(piece, slices, first_row, rows, first_key);
    }
    for (int64_t row = 0; row < rows; ++row) {
      unpack_rows(slices.sums + row * width, width, 1, depth, 1.0f / slices.totals[row],
                  piece.out + (first_row + row) * channels, channels);
    }
    for (int64_t row = 0; row < rows; row += kLanes) {
      const auto lse =
          hn::Add(hn::LoadU(d, slices.maxima + row), hn::Log(d, hn::LoadU(d, slices.totals + row)));
      if (row + kLanes <= rows) {
        hn::StoreU(lse, d, piece.lse + first_row + row);
      } else {
        store_partial(lse, d, piece.lse + first_row + row, rows - row);
      }
    }
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(attend);

void causal_attention_forward(const AttentionShape& shape, const float* qkv, const DropoutKey& key,
                              float* out, float* lse, float* workspace) {
  const int64_t channels = shape.H * shape.D;
  const int64_t heads = shape.B * shape.H, parts = piece_count(shape.T, kForwardPieceRows);
  const auto run = HWY_DYNAMIC_DISPATCH(attend);
  parallel_pieces(heads * parts, [&](int64_t piece) {
    // The last rows see the most keys: the longest pieces go first.
    const int64_t part = parts - 1 - piece / heads;
    const int64_t b = piece % heads / shape.H, h = piece % shape.H;
    DropoutStream stream;
    if (key.p != 0.0f) stream = make_dropout_stream(key, b);
    run({.shape = shape,
         .q = qkv + b * shape.T * 3 * channels + h * shape.D,
         .out = out + b * shape.T * channels + h * shape.D,
         .lse = lse + (b * shape.H + h) * shape.T,
         .first_row = part * kForwardPieceRows,
         .end_row = std::min(shape.T, (part + 1) * kForwardPieceRows),
         .dropout = key.p != 0.0f ? &stream : nullptr,
         .dropout_element = static_cast<uint64_t>(h * shape.T * shape.T)},
        thread_workspace(shape, workspace));
  });
}

}  // namespace lockstep::kernels
#endif
