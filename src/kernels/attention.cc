#include "kernels/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention_layout.h"

namespace lockstep::kernels {
namespace {

int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace

ForwardSlices::ForwardSlices(const AttentionShape& shape, const AttentionTiling& tiling,
                             WorkspaceCarver& carver) {
  const int64_t width = padded_head(shape.D);
  key_panels = carver.take(round_up(shape.T, tiling.panel) * shape.D);
  values = carver.take(shape.T * width);
  queries = carver.take(tiling.query_tile * width);
  sums = carver.take(tiling.query_tile * width);
  scores = carver.take(tiling.query_tile * tiling.key_chunk);
  keep = carver.take(tiling.key_chunk);
  maxima = carver.take(tiling.query_tile);
  totals = carver.take(tiling.query_tile);
}

BackwardSlices::BackwardSlices(const AttentionShape& shape, const AttentionTiling& tiling,
                               WorkspaceCarver& carver) {
  const int64_t width = padded_head(shape.D);
  const int64_t square = tiling.square_tile * tiling.square_tile;
  key_panels = carver.take(round_up(shape.T, tiling.panel) * shape.D);
  value_panels = carver.take(round_up(shape.T, tiling.panel) * shape.D);
  keys = carver.take(shape.T * width);
  queries = carver.take(shape.T * width);
  douts = carver.take(shape.T * width);
  gradients = width == shape.D ? nullptr : carver.take(shape.T * 3 * width);
  probabilities = carver.take(square);
  dscores = carver.take(square);
  keep = carver.take(square);
  delta = carver.take(shape.T);
}

int64_t attention_thread_workspace(const AttentionShape& shape) {
  WorkspaceCarver forward(nullptr), backward(nullptr);
  ForwardSlices(shape, kLargestTiling, forward);
  BackwardSlices(shape, kLargestTiling, backward);
  return std::max(forward.used(), backward.used());
}

float* thread_workspace(const AttentionShape& shape, float* workspace) {
  constexpr uintptr_t kLineBytes = WorkspaceCarver::kLine * sizeof(float);
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(workspace) % kLineBytes;
  if (misaligned != 0) workspace += (kLineBytes - misaligned) / sizeof(float);
  return workspace + attention_thread_workspace(shape) * omp_get_thread_num();
}

int64_t attention_workspace(const AttentionShape& shape, int threads) {
  // One line more, because the caller's array may start anywhere.
  return attention_thread_workspace(shape) * threads + WorkspaceCarver::kLine;
}

}  // namespace lockstep::kernels
