#include "base/random.h"

#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

uint64_t join(uint32_t low, uint32_t high) {
  return uint64_t{low} | (uint64_t{high} << 32);
}

double to_unit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace

double RandomStream::uniform(uint64_t index) const {
  const auto w = words(index);
  return to_unit(join(w[0], w[1]));
}

uint64_t RandomStream::below(uint64_t index, uint64_t bound) const {
  const auto w = words(index);
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(join(w[0], w[1])) * bound) >> 64);
}

double RandomStream::normal(uint64_t index) const {
  const auto w = words(index);
  const double u = 1.0 - to_unit(join(w[0], w[1]));  // (0, 1]: its logarithm is finite
  const double v = to_unit(join(w[2], w[3]));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace lockstep
