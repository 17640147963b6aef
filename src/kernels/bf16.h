// bfloat16 as uint16_t: the upper half of an fp32. Rounding is to nearest, ties to even, in our own code, on
// every instruction set the same bits; NaN stays NaN (quiet bit set), infinities stay.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::kernels {

inline uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float from_bf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16);
}

/// y[i] = to_bf16(x[i]), in parallel.
void convert_to_bf16(const float* x, int64_t n, uint16_t* y);
void convert_from_bf16(const uint16_t* x, int64_t n, float* y);
/// The same on one thread, for use inside a tile or a row loop.
void convert_to_bf16_row(const float* x, int64_t n, uint16_t* y);

}  // namespace lockstep::kernels
