#include "kernels/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

namespace lockstep::kernels {
namespace {

using testing::GuardedBuffer;

float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

TEST(Bf16, RoundsToNearestEven) {
  // Against the definition: of the two neighbours take the closer, on a tie the one with an even last bit.
  for (uint32_t upper = 0; upper < 0x7F80; upper += 7) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const float x = from_bits((upper << 16) | lower);
      uint32_t expected = upper;
      if (lower > 0x8000u || (lower == 0x8000u && upper % 2 == 1)) expected = upper + 1;
      EXPECT_EQ(to_bf16(x), expected) << std::hex << upper << " " << lower;
      EXPECT_EQ(to_bf16(-x), expected | 0x8000u) << std::hex << upper << " " << lower;
    }
  }
}

TEST(Bf16, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = static_cast<uint16_t>(bits);
    const bool is_nan = (bits & 0x7FFF) > 0x7F80;
    EXPECT_EQ(to_bf16(from_bf16(x)), is_nan ? bits | 0x40 : bits);
    EXPECT_EQ(std::isnan(from_bf16(x)), is_nan);
  }
}

TEST(Bf16, OverflowBecomesInfinityAndNaNStays) {
  EXPECT_EQ(to_bf16(3.4028235e38f), 0x7F80);
  EXPECT_EQ(to_bf16(from_bits(0x7F800001u)), 0x7FC0);  // its payload would have been cut off to infinity
  EXPECT_EQ(to_bf16(from_bits(0xFFFFFFFFu)), 0xFFFF);
  EXPECT_EQ(to_bf16(-INFINITY), 0xFF80);
}

TEST(Bf16, VectorsEqualTheScalarOnEveryInstructionSet) {
  // All exponents and signs, borders of rounding and of the special values.
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40503) {
    values.push_back(from_bits(static_cast<uint32_t>(bits)));
    values.push_back(from_bits((static_cast<uint32_t>(bits) & 0xFFFF0000u) | 0x8000u));
  }
  for (const uint32_t bits : {0x7F7FFFFFu, 0x7F800000u, 0x7F800001u, 0xFF800000u, 0xFFFFFFFFu, 0x80000001u}) {
    values.push_back(from_bits(bits));
  }
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{16}, int64_t{33}, int64_t(values.size())}) {
      GuardedBuffer<float> x(n), back(n);
      GuardedBuffer<uint16_t> y(n), row(n);
      x.copy_from(values.data() + (static_cast<int64_t>(values.size()) - n));
      testing::for_each_thread_count([&](int) {
        convert_to_bf16(x.data(), n, y.data());
        convert_from_bf16(y.data(), n, back.data());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(y[i], to_bf16(x[i])) << i;
          ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{y[i]} << 16) << i;
        }
      });
      convert_to_bf16_row(x.data(), n, row.data());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(row[i], y[i]) << i;
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
