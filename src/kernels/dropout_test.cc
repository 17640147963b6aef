#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/testing/for_each_isa.h"
#include "kernels/testing/guarded_buffer.h"

namespace lockstep::kernels {
namespace {

using testing::GuardedBuffer;

DropoutKey make_key(float p, const std::vector<uint32_t>& slots) {
  return {.p = p, .seed = 0x123456789ABCDEFull, .step = 77, .site = 5, .slots = slots.data()};
}

TEST(Dropout, EqualsTheScalarReferenceBitForBit) {
  const std::vector<uint32_t> slots{3, 0xFFFFFFFFu, 8};
  testing::for_each_isa([&](const std::string&) {
    for (const int64_t n : {1, 3, 4, 5, 31, 32, 33, 127, 128, 4097, 9001}) {
      GuardedBuffer<float> x(3 * n), y(3 * n);
      testing::fill_normal(x, static_cast<uint32_t>(n));
      std::vector<float> expected(static_cast<size_t>(3 * n));
      for (const float p : {0.1f, 0.5f, 0.999999f}) {
        const auto key = make_key(p, slots);
        reference::dropout(x.data(), 3, n, key, expected.data());
        testing::for_each_thread_count([&](int) {
          dropout(x.data(), 3, n, key, y.data());
          ASSERT_TRUE(testing::same_bits(y.data(), expected.data(), 3 * n)) << "n=" << n << " p=" << p;
        });
      }
    }
  });
}

TEST(Dropout, WorksInPlace) {
  const std::vector<uint32_t> slots{1, 2};
  const auto key = make_key(0.3f, slots);
  testing::for_each_isa([&](const std::string&) {
    std::vector<float> x(2 * 1003), expected(x.size());
    testing::fill_normal(x, 4);
    reference::dropout(x.data(), 2, 1003, key, expected.data());
    dropout(x.data(), 2, 1003, key, x.data());
    ASSERT_TRUE(testing::same_bits(x.data(), expected.data(), 2006));
  });
}

TEST(Dropout, ZeroProbabilityCopiesAndReadsNoSlots) {
  const DropoutKey key;
  std::vector<float> x(5000), y(5000);
  testing::fill_normal(x, 1);
  dropout(x.data(), 1, 5000, key, y.data());
  EXPECT_TRUE(testing::same_bits(x.data(), y.data(), 5000));
}

TEST(Dropout, KeepsTheExpectedShareAndScalesIt) {
  const std::vector<uint32_t> slots{9};
  const int64_t n = 1 << 18;
  std::vector<float> x(static_cast<size_t>(n), 1.0f), y(x.size());
  const float p = 0.2f;
  dropout(x.data(), 1, n, make_key(p, slots), y.data());
  int64_t kept = 0;
  for (const float value : y) {
    ASSERT_TRUE(value == 0.0f || value == 1.0f / (1.0f - p)) << value;
    kept += value != 0.0f;
  }
  // Binomial: five standard deviations.
  const double deviation = std::sqrt(static_cast<double>(n) * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(n) * (1 - p), 5 * deviation);
}

TEST(Dropout, MasksDifferByStepSiteSlotAndSeed) {
  const std::vector<uint32_t> slots{9}, other_slots{10};
  const int64_t n = 256;
  std::vector<float> x(static_cast<size_t>(n), 1.0f), base(x.size()), y(x.size());
  const auto key = make_key(0.5f, slots);
  dropout(x.data(), 1, n, key, base.data());
  auto changed = [&](DropoutKey other) {
    dropout(x.data(), 1, n, other, y.data());
    return y != base;
  };
  auto other = key;
  EXPECT_FALSE(changed(other));
  other.step++;
  EXPECT_TRUE(changed(other));
  other = key;
  other.site++;
  EXPECT_TRUE(changed(other));
  other = key;
  other.seed += uint64_t{1} << 32;
  EXPECT_TRUE(changed(other));
  other = key;
  other.slots = other_slots.data();
  EXPECT_TRUE(changed(other));
}

TEST(Dropout, NaNIsNeverHidden) {
  const std::vector<uint32_t> slots{1};
  testing::for_each_isa([&](const std::string&) {
    std::vector<float> x(64, std::numeric_limits<float>::quiet_NaN()), y(64);
    dropout(x.data(), 1, 64, make_key(0.5f, slots), y.data());
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
  });
}

}  // namespace
}  // namespace lockstep::kernels
