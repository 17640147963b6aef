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

/// Natural logarithm of x in [2^-53, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) /
/// (m + 1)). The series stops at z^21: below 1e-16 for |z| <= 0.1716.
double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact; m in [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2.0;
    --exponent;
  }
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;
  double sum = 0.0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return exponent * std::numbers::ln2 + 2.0 * z * sum;
}

/// cos and sin of 2 pi turn, turn in [0, 1): the nearest quarter turn, then Taylor series on [-pi/4, pi/4];
/// the first term left out is below 1e-16.
std::array<double, 2> portable_cos_sin(double turn) {
  const int quarter = static_cast<int>(turn * 4.0 + 0.5);
  const double x = 2.0 * std::numbers::pi * (turn - quarter * 0.25), x2 = x * x;
  double cosine = 1.0, sine = 1.0;
  for (int k = 16; k >= 2; k -= 2) {
    cosine = 1.0 - cosine * (x2 / ((k - 1) * k));
    sine = 1.0 - sine * (x2 / (k * (k + 1)));
  }
  sine *= x;
  switch (quarter & 3) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
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

std::array<double, 2> RandomStream::normal_pair(uint64_t index) const {
  const auto w = words(index);
  const double u = 1.0 - to_unit(join(w[0], w[1]));  // (0, 1]: its logarithm is finite
  const double radius = std::sqrt(-2.0 * portable_log(u));
  const auto [cosine, sine] = portable_cos_sin(to_unit(join(w[2], w[3])));
  return {radius * cosine, radius * sine};
}

}  // namespace lockstep
