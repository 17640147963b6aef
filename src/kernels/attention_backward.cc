#include <algorithm>
#include <cmath>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
// clang-format off
#include "hwy/foreach_target.h"
#include "kernels/attention_tile-inl.h"
#include "kernels/dropout-inl.h"
// clang-format on
#include "kernels/attention_layout.h"
#include "kernels/parallel.h"

#ifndef LOCKSTEP_KERNELS_ATTENTION_BACKWARD_ONCE_
#define LOCKSTEP_KERNELS_ATTENTION_BACKWARD_ONCE_
namespace lockstep::kernels {
/// One head; the pointers stand at its first element of row 0.
struct BackwardHead {
  AttentionShape shape;
  const float* q;    // row stride 3C
  const float* out;  // row stride C
  const float* lse;  // (T)
  const float* dout;
  float* dq;
  const DropoutStream* dropout;  // null without
  uint64_t dropout_element;      // of the head's probability (0, 0)
};
}  // namespace lockstep::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

/// Scores become probabilities: exp(score - lse), zero where row r's columns end: at first_masked + r.
template <bool kMasked>
struct ProbabilityFinish {
  float* p;
  const float* lse;
  int64_t first_masked;
  HWY_INLINE void operator()(int64_t row, int64_t column, FloatVec score) const {
    const FloatTag d;
    auto p_row = exp_up_to_88(d, hn::Sub(score, hn::Set(d, lse[row])));
    if constexpr (kMasked) {
      const int64_t seen = std::clamp<int64_t>(first_masked + row - column, 0, kLanes);
      p_row = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(seen)), p_row);
    }
    hn::StoreU(p_row, d, p + row * kTiling.square_tile + column);
  }
};

/// dout * value becomes the gradient of the scores: p * (dp - delta).
struct ScoreGradientFinish {
  float* ds;
  const float* p;
  const float* delta;
  HWY_INLINE void operator()(int64_t row, int64_t column, FloatVec dp) const {
    const FloatTag d;
    const int64_t at = row * kTiling.square_tile + column;
    hn::StoreU(hn::Mul(hn::LoadU(d, p + at), hn::Sub(dp, hn::Set(d, delta[row]))), d, ds + at);
  }
};

/// The same through dropout; p is replaced by what the values were multiplied with.
struct DroppedScoreGradientFinish {
  float* ds;
  float* p;
  const float* keep;
  const float* delta;
  HWY_INLINE void operator()(int64_t row, int64_t column, FloatVec dp) const {
    const FloatTag d;
    const int64_t at = row * kTiling.square_tile + column;
    const auto probability = hn::LoadU(d, p + at), multiplier = hn::LoadU(d, keep + at);
    const auto centred = hn::Sub(hn::Mul(dp, multiplier), hn::Set(d, delta[row]));
    hn::StoreU(hn::Mul(probability, centred), d, ds + at);
    hn::StoreU(hn::Mul(probability, multiplier), d, p + at);
  }
};

/// Where a tile lies: queries [first_row, + rows), keys [first_key, + columns).
struct SquareTile {
  int64_t first_row, rows, first_key, columns;
  int64_t diagonal() const { return first_row - first_key; }
};

/// Probabilities and score gradients of one tile.
HWY_NOINLINE void differentiate_tile(const BackwardHead& head, const BackwardSlices& slices,
                                     const SquareTile& tile) {
  const int64_t depth = head.shape.D, width = round_up(depth, kLanes), stride = kTiling.square_tile;
  const float* queries = slices.queries + tile.first_row * width;
  const float* key_panels = slices.key_panels + tile.first_key * depth;
  const float* lse = head.lse + tile.first_row;
  for_score_blocks(tile.rows, tile.columns, tile.diagonal(),
                   [&](auto m, int64_t row, int64_t column, int64_t seen, bool masked)
                       LOCKSTEP_INLINE_LAMBDA {
                         const float* a = queries + row * width;
                         const float* b = key_panels + column * depth;
                         float* p = slices.probabilities + row * stride + column;
                         if (masked) {
                           block_of_columns<m(), false>(
                               seen, depth, a, width, b, kPanel,
                               ProbabilityFinish<true>{p, lse + row, row + tile.diagonal() + 1 - column});
                         } else {
                           block_of_columns<m(), false>(seen, depth, a, width, b, kPanel,
                                                        ProbabilityFinish<false>{p, lse + row, 0});
                         }
                       });
  if (head.dropout != nullptr) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      const int64_t element = (tile.first_row + row) * head.shape.T + tile.first_key;
      dropout_multipliers(FloatTag(), *head.dropout, head.dropout_element + static_cast<uint64_t>(element),
                          round_up(tile.columns, kLanes), slices.keep + row * stride);
    }
  }
  const float* douts = slices.douts + tile.first_row * width;
  const float* value_panels = slices.value_panels + tile.first_key * depth;
  const float* delta = slices.delta + tile.first_row;
  for_score_blocks(tile.rows, tile.columns, tile.diagonal(),
                   [&](auto m, int64_t row, int64_t column, int64_t seen, bool) LOCKSTEP_INLINE_LAMBDA {
                     const float* a = douts + row * width;
                     const float* b = value_panels + column * depth;
                     const int64_t at = row * stride + column;
                     float *p = slices.probabilities + at, *ds = slices.dscores + at;
                     if (head.dropout == nullptr) {
                       block_of_columns<m(), false>(seen, depth, a, width, b, kPanel,
                                                    ScoreGradientFinish{ds, p, delta + row});
                     } else {
                       block_of_columns<m(), false>(
                           seen, depth, a, width, b, kPanel,
                           DroppedScoreGradientFinish{ds, p, slices.keep + at, delta + row});
                     }
                   });
}

/// Where the gradients are summed: whole vectors are written, so straight to dqkv only if D needs no padding.
struct GradientRows {
  float* dq;
  int64_t part;    // from dq to dk, from dk to dv
  int64_t stride;  // of a row
};

/// Adds what one tile gives to the gradients of its values, keys and queries. Along a row of tiles the first
/// writes dq; down a column of tiles the first, on the diagonal, writes dk and dv.
HWY_NOINLINE void accumulate_tile(const BackwardHead& head, const BackwardSlices& slices,
                                  const SquareTile& tile, const GradientRows& gradients) {
  const int64_t width = round_up(head.shape.D, kLanes), tile_stride = kTiling.square_tile;
  const float* queries = slices.queries + tile.first_row * width;
  const float* douts = slices.douts + tile.first_row * width;
  const float* keys = slices.keys + tile.first_key * width;
  const int64_t diagonal = tile.diagonal(), stride = gradients.stride;
  float* dq = gradients.dq + tile.first_row * stride;
  float* dk = gradients.dq + tile.first_key * stride + gradients.part;
  float* dv = dk + gradients.part;
  if (diagonal == 0) {
    accumulate_columns<StoreFinish>(tile.columns, width, tile.rows, diagonal, slices.probabilities,
                                    tile_stride, douts, width, dv, stride);
    accumulate_columns<StoreFinish>(tile.columns, width, tile.rows, diagonal, slices.dscores, tile_stride,
                                    queries, width, dk, stride);
  } else {
    accumulate_columns<AddFinish>(tile.columns, width, tile.rows, diagonal, slices.probabilities, tile_stride,
                                  douts, width, dv, stride);
    accumulate_columns<AddFinish>(tile.columns, width, tile.rows, diagonal, slices.dscores, tile_stride,
                                  queries, width, dk, stride);
  }
  if (tile.first_key == 0) {
    accumulate_rows<StoreFinish>(tile.rows, width, tile.columns, diagonal, slices.dscores, tile_stride, keys,
                                 width, dq, stride);
  } else {
    accumulate_rows<AddFinish>(tile.rows, width, tile.columns, diagonal, slices.dscores, tile_stride, keys,
                               width, dq, stride);
  }
}

/// Packs a head's operands, queries and keys scaled (the panels are not); delta = row sums of dout * out,
/// which equal the row sums of probability * its gradient, dropout included.
HWY_NOINLINE void pack_head(const BackwardHead& head, const BackwardSlices& slices, float scale) {
  const FloatTag d;
  const int64_t T = head.shape.T, depth = head.shape.D, width = round_up(depth, kLanes);
  const int64_t channels = head.shape.H * depth, stride = 3 * channels;
  const float *k = head.q + channels, *v = head.q + 2 * channels;
  pack_panels(k, stride, T, depth, slices.key_panels);
  pack_panels(v, stride, T, depth, slices.value_panels);
  pack_rows(head.q, stride, T, depth, scale, slices.queries, width);
  pack_rows(k, stride, T, depth, scale, slices.keys, width);
  pack_rows(head.dout, channels, T, depth, 1.0f, slices.douts, width);
  for (int64_t row = 0; row < T; ++row) {
    const float* out = head.out + row * channels;
    const float* dout = slices.douts + row * width;
    auto sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + kLanes <= depth; i += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, out + i), hn::LoadU(d, dout + i), sum);
    }
    if (i < depth) sum = hn::MulAdd(load_partial(d, out + i, depth - i), hn::LoadU(d, dout + i), sum);
    slices.delta[row] = reduce_sum(d, sum);
  }
}

void differentiate_head(const BackwardHead& head, float* workspace) {
  const int64_t T = head.shape.T, depth = head.shape.D;
  const int64_t channels = head.shape.H * depth, stride = 3 * channels;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(depth)));
  WorkspaceCarver carver(workspace);
  const BackwardSlices slices(head.shape, kTiling, carver);
  const bool direct = slices.gradients == nullptr;
  const int64_t padded = padded_head(depth);
  const auto gradients =
      direct ? GradientRows{head.dq, channels, stride} : GradientRows{slices.gradients, padded, 3 * padded};
  pack_head(head, slices, scale);
  for (int64_t first_row = 0; first_row < T; first_row += kTiling.square_tile) {
    const int64_t rows = std::min(kTiling.square_tile, T - first_row);
    for (int64_t first_key = 0; first_key <= first_row; first_key += kTiling.square_tile) {
      const int64_t columns = first_key == first_row ? rows : kTiling.square_tile;
      const SquareTile tile{first_row, rows, first_key, columns};
      differentiate_tile(head, slices, tile);
      accumulate_tile(head, slices, tile, gradients);
    }
  }
  if (direct) return;
  for (int64_t part = 0; part < 3; ++part) {
    unpack_rows(slices.gradients + part * padded, 3 * padded, T, depth, 1.0f, head.dq + part * channels,
                stride);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {
HWY_EXPORT(differentiate_head);

void causal_attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                               const float* lse, const float* dout, const DropoutKey& key, float* dqkv,
                               float* workspace) {
  const int64_t channels = shape.H * shape.D;
  const auto run = HWY_DYNAMIC_DISPATCH(differentiate_head);
  parallel_pieces(shape.B * shape.H, [&](int64_t piece) {
    const int64_t b = piece / shape.H, h = piece % shape.H;
    const int64_t row = b * shape.T * channels + h * shape.D;
    const int64_t row3 = b * shape.T * 3 * channels + h * shape.D;
    DropoutStream stream;
    if (key.p != 0.0f) stream = make_dropout_stream(key, b);
    run({.shape = shape,
         .q = qkv + row3,
         .out = out + row,
         .lse = lse + piece * shape.T,
         .dout = dout + row,
         .dq = dqkv + row3,
         .dropout = key.p != 0.0f ? &stream : nullptr,
         .dropout_element = static_cast<uint64_t>(h * shape.T * shape.T)},
        thread_workspace(shape, workspace));
  });
}

}  // namespace lockstep::kernels
#endif
