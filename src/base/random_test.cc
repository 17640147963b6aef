#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  // The three vectors that the authors' library publishes for philox4x32-10: zeros, ones, digits of pi.
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, {~0u, ~0u, ~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822u, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, CounterLayoutIsTheDocumentedOne) {
  // Made by an independent implementation: key = seed, counter = (index low, high, stream, 2^31 | purpose).
  // A change here changes every run that anybody has ever seeded.
  EXPECT_EQ(RandomStream(42, Purpose::kInit, 7).words(3),
            (Words{0xfa7ccadf, 0x06e7c8f7, 0x8bae4ce4, 0x97fe9e39}));
  EXPECT_EQ(RandomStream(12345678901234567u, Purpose::kTest, 9).words((uint64_t{7} << 32) | 5),
            (Words{0x30077432, 0x6fbf6b8c, 0x89c81592, 0xfd9e40e1}));
}

TEST(RandomStream, SeedPurposeStreamAndIndexAllMatter) {
  std::set<Words> seen;
  for (const uint64_t seed : {0u, 1u})
    for (const Purpose purpose : {Purpose::kInit, Purpose::kSamples})
      for (const uint32_t stream : {0u, 1u})
        for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
          seen.insert(RandomStream(seed, purpose, stream).words(index));
  EXPECT_EQ(seen.size(), 2u * 2 * 2 * 3);
}

constexpr int kCount = 200000;

TEST(RandomStream, UniformFillsTheUnitIntervalEvenly) {
  const RandomStream random(3, Purpose::kTest);
  constexpr int kBins = 64;
  std::vector<int> bins(kBins);
  double sum = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double u = random.uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * kBins)];
    sum += u;
  }
  // Five standard deviations: of the mean sqrt(1/12/n); of chi-square with k - 1 degrees sqrt(2 (k - 1)).
  EXPECT_NEAR(sum / kCount, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kCount));
  double chi_square = 0.0;
  const double expected = static_cast<double>(kCount) / kBins;
  for (const int bin : bins) chi_square += (bin - expected) * (bin - expected) / expected;
  EXPECT_NEAR(chi_square, kBins - 1, 5.0 * std::sqrt(2.0 * (kBins - 1)));
}

TEST(RandomStream, NormalHasTheMomentsOfTheNormal) {
  const RandomStream random(4, Purpose::kTest);
  double sum1 = 0.0, sum2 = 0.0, sum3 = 0.0, sum4 = 0.0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sum1 += x;
    sum2 += x * x;
    sum3 += x * x * x;
    sum4 += x * x * x * x;
    beyond_two += std::abs(x) > 2.0 ? 1 : 0;
  }
  // Variances of x, x^2, x^3, x^4 are 1, 2, 15, 96; five standard deviations of each mean.
  const double root = std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(sum1 / kCount, 0.0, 5.0 * 1.0 / root);
  EXPECT_NEAR(sum2 / kCount, 1.0, 5.0 * std::sqrt(2.0) / root);
  EXPECT_NEAR(sum3 / kCount, 0.0, 5.0 * std::sqrt(15.0) / root);
  EXPECT_NEAR(sum4 / kCount, 3.0, 5.0 * std::sqrt(96.0) / root);
  const double p = std::erfc(2.0 / std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, p, 5.0 * std::sqrt(p * (1.0 - p)) / root);
}

TEST(RandomStream, NeighboursAreUncorrelated) {
  const RandomStream random(5, Purpose::kTest);
  double product = 0.0;
  for (int i = 0; i < kCount; ++i)
    product += random.normal(static_cast<uint64_t>(i)) * random.normal(static_cast<uint64_t>(i) + 1);
  EXPECT_NEAR(product / kCount, 0.0, 5.0 / std::sqrt(static_cast<double>(kCount)));
}

TEST(RandomStream, BelowIsUniformAndStaysBelow) {
  const RandomStream random(6, Purpose::kTest);
  for (const uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{10}}) {
    std::map<uint64_t, int> counts;
    for (int i = 0; i < kCount; ++i) ++counts[random.below(static_cast<uint64_t>(i), bound)];
    EXPECT_EQ(counts.size(), bound);
    EXPECT_EQ(counts.rbegin()->first, bound - 1);
    const double p = 1.0 / static_cast<double>(bound);
    for (const auto& [value, count] : counts)
      EXPECT_NEAR(static_cast<double>(count) / kCount, p, 5.0 * std::sqrt(p * (1.0 - p) / kCount) + 1e-12)
          << value << " of " << bound;
  }
}

TEST(RandomStream, BelowReachesAllOf64Bits) {
  const RandomStream random(7, Purpose::kTest);
  const uint64_t bound = ~uint64_t{0};
  uint64_t low = bound, high = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t value = random.below(i, bound);
    ASSERT_LT(value, bound);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // 1000 draws miss the lowest or highest 2 % with probability 0.98^1000 = 2e-9.
  EXPECT_LT(low, bound / 50);
  EXPECT_GT(high, bound - bound / 50);
}

}  // namespace
}  // namespace lockstep
