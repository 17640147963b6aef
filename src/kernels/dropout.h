// Dropout keyed by position, not by who computes it: element e of sample slot s at step t and site u is kept
// or dropped by word e % 4 of Philox4x32-10 with key = seed and counter (e / 4, s, t, u) (base/random.h). It
// is dropped when word < floor(p * 2^32); kept elements are scaled by 1 / (1 - p).
//
// Every kernel with dropout multiplies by dropout_multiplier: so a dropped NaN or infinity is NaN, not
// hidden, and a dropped negative number is -0. Kernels take the multipliers in vectors from dropout-inl.h,
// with the same bits.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace lockstep::kernels {

/// p == 0 means no dropout: the pointers are then not read.
struct DropoutKey {
  float p = 0.0f;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;                ///< which of the model's dropout places; bit 31 clear
  const uint32_t* slots = nullptr;  ///< (B) the step's sample slot of each batch row
};

/// The dropout of one sample at one place.
struct DropoutStream {
  uint64_t seed = 0;
  uint32_t slot = 0, step = 0, site = 0;
  uint32_t threshold = 0;  ///< floor(p * 2^32): smaller words are dropped
  float scale = 1.0f;      ///< 1 / (1 - p)
};

/// 0 < key.p < 1; batch_row < B.
inline DropoutStream make_dropout_stream(const DropoutKey& key, int64_t batch_row) {
  // p is a float below 1: the product is exact in double and fits.
  const auto threshold = static_cast<uint32_t>(static_cast<double>(key.p) * 4294967296.0);
  return {key.seed, key.slots[batch_row], key.step, key.site, threshold, 1.0f / (1.0f - key.p)};
}

/// What element `element` (below 2^34) of the sample is multiplied by: 0 or scale.
inline float dropout_multiplier(const DropoutStream& stream, uint64_t element) {
  const auto words =
      philox(stream.seed, {static_cast<uint32_t>(element / 4), stream.slot, stream.step, stream.site});
  return words[element % 4] < stream.threshold ? 0.0f : stream.scale;
}

/// y = dropout(x) over (B, per_sample) elements; x may equal y. Used forward on values and backward on
/// gradients.
void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y);

namespace reference {
void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y);
}

}  // namespace lockstep::kernels
