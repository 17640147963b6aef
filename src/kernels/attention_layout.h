// How the attention kernels cut a head into tiles, and how they lay out a thread's workspace (internal).
// One description serves for counting (null base) and for carving, so the two cannot disagree.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace lockstep::kernels {

/// Tile sizes of one instruction set; all are multiples of the micro-kernel's rows and panel.
struct AttentionTiling {
  int64_t panel;        ///< keys per panel, two vectors
  int64_t query_tile;   ///< forward: query rows per tile of scores
  int64_t key_chunk;    ///< forward: keys whose scores are held at once; a multiple of query_tile
  int64_t square_tile;  ///< backward: queries and keys per tile
};

/// At least what any instruction set uses: the workspace does not depend on the one in force.
inline constexpr AttentionTiling kLargestTiling = {
    .panel = 32, .query_tile = 48, .key_chunk = 288, .square_tile = 96};

/// Forward: queries that one piece of work handles, so that long sequences of few heads still spread. The
/// piece packs the keys again, which costs a few per cent. A multiple of every query_tile.
inline constexpr int64_t kForwardPieceRows = 384;

/// Hands out slices of one array, each on a cache line; counts only when the base is null.
class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(float* base) : base_(base) {}
  float* take(int64_t count) {
    float* slice = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (count + kLine - 1) / kLine * kLine;
    return slice;
  }
  int64_t used() const { return used_; }

  static constexpr int64_t kLine = 16;  ///< floats per cache line and per widest vector

 private:
  float* base_;
  int64_t used_ = 0;
};

/// Head size with zeros up to the widest vector.
inline int64_t padded_head(int64_t head_size) {
  return (head_size + WorkspaceCarver::kLine - 1) / WorkspaceCarver::kLine * WorkspaceCarver::kLine;
}

/// Floats of workspace per thread.
int64_t attention_thread_workspace(const AttentionShape& shape);

/// The slice of `workspace` that belongs to the calling thread, on a cache line.
float* thread_workspace(const AttentionShape& shape, float* workspace);

struct ForwardSlices {
  ForwardSlices(const AttentionShape& shape, const AttentionTiling& tiling, WorkspaceCarver& carver);
  float* key_panels;  // (T / panel, D, panel)
  float* values;      // (T, padded D)
  float* queries;     // (query_tile, padded D), scaled
  float* sums;        // (query_tile, padded D) of probability * value
  float* scores;      // (query_tile, key_chunk)
  float* keep;        // (key_chunk) dropout multipliers of one row
  float* maxima;      // (query_tile) of the scores
  float* totals;      // (query_tile) of the exponentials
};

struct BackwardSlices {
  BackwardSlices(const AttentionShape& shape, const AttentionTiling& tiling, WorkspaceCarver& carver);
  float *key_panels, *value_panels;  // (T / panel, D, panel)
  float *keys, *queries, *douts;     // (T, padded D); queries and keys scaled
  float* gradients;                  // (T, 3, padded D), or null where D needs no padding
  float *probabilities, *dscores;    // (square_tile, square_tile)
  float* keep;                       // (square_tile, square_tile) dropout multipliers
  float* delta;                      // (T) row sums of dout * out
};

}  // namespace lockstep::kernels
