// Dropout keyed by position, not by who computes it: element e of sample slot s at step t and site u is kept
// or dropped by word e % 4 of Philox4x32-10 with key = seed and counter (e / 4, s, t, u) (base/random.h). It
// is dropped when word < floor(p * 2^32); kept elements are scaled by 1 / (1 - p).
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// p == 0 means no dropout: the pointers are then not read.
struct DropoutKey {
  float p = 0.0f;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;                ///< which of the model's dropout places; bit 31 clear
  const uint32_t* slots = nullptr;  ///< (B) the step's sample slot of each batch row
};

/// y = dropout(x) over (B, per_sample) elements; x may equal y. Used forward on values and backward on
/// gradients.
void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y);

namespace reference {
void dropout(const float* x, int64_t batch, int64_t per_sample, const DropoutKey& key, float* y);
}

}  // namespace lockstep::kernels
