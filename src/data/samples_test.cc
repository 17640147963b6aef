#include "data/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"

namespace lockstep {
namespace {

std::vector<int64_t> pass_order(uint64_t seed, int64_t pass, int64_t count) {
  std::vector<int64_t> order;
  for (int64_t position = 0; position < count; ++position)
    order.push_back(shuffled(seed, pass, position, count));
  return order;
}

TEST(Shuffled, EveryPassVisitsEveryBlockOnce) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= 130; ++count) counts.push_back(count);
  for (const int64_t count : {255, 256, 257, 1000, 1023, 1024, 1025, 4095, 4096, 4097, 15685, 65537})
    counts.push_back(count);
  for (const int64_t count : counts)
    for (const int64_t pass : {0, 1, 7}) {
      std::vector<int64_t> order = pass_order(1337, pass, count);
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i) << count << " " << pass;
    }
}

TEST(Shuffled, PassesAndSeedsDiffer) {
  for (const int64_t count : {20, 1000, 4096}) {
    std::set<std::vector<int64_t>> orders;
    for (const uint64_t seed : {1u, 2u, 1337u})
      for (int64_t pass = 0; pass < 20; ++pass) orders.insert(pass_order(seed, pass, count));
    EXPECT_EQ(orders.size(), 60u) << count;
  }
  // Two blocks have two orders, and both must occur.
  std::set<std::vector<int64_t>> orders;
  for (int64_t pass = 0; pass < 64; ++pass) orders.insert(pass_order(1, pass, 2));
  EXPECT_EQ(orders.size(), 2u);
}

// Where block 0 lands over many passes is uniform: chi-square with 99 degrees of freedom has mean 99 and
// standard deviation sqrt(2 * 99) = 14.1; six of those are the limit.
TEST(Shuffled, PositionsAreUniform) {
  constexpr int64_t kCount = 100, kPasses = 20000;
  for (const int64_t position : {0, 57}) {
    std::vector<double> hits(kCount);
    for (int64_t pass = 0; pass < kPasses; ++pass)
      hits[static_cast<size_t>(shuffled(3, pass, position, kCount))] += 1;
    const double expected = double{kPasses} / kCount;
    double chi_square = 0;
    for (const double h : hits) chi_square += (h - expected) * (h - expected) / expected;
    EXPECT_LT(std::abs(chi_square - 99), 6 * std::sqrt(2.0 * 99)) << position;
  }
}

// Neighbours in a pass must not be neighbours in the text more often than by chance: 2 / n of n pairs, so
// Poisson with mean about 2.
TEST(Shuffled, NeighboursAreTornApart) {
  const std::vector<int64_t> order = pass_order(1337, 0, 10000);
  int neighbours = 0;
  for (size_t i = 1; i < order.size(); ++i) neighbours += std::abs(order[i] - order[i - 1]) == 1;
  EXPECT_LT(neighbours, 12);
}

// These numbers are what a checkpoint's step means. If this test fails, the schedule has changed, and no run
// can be repeated or resumed any more: change the code back, not the numbers.
TEST(SampleSchedule, GoldenReplacement) {
  const SampleSchedule schedule(1337, Sampling::kReplacement, 1003854, 256);
  const SampleSchedule other(42, Sampling::kReplacement, 1003854, 64);
  EXPECT_EQ(schedule.start(0, 0, 0), 681160);
  EXPECT_EQ(schedule.start(0, 0, 1), 652778);
  EXPECT_EQ(schedule.start(1, 64, 0), 734631);
  EXPECT_EQ(schedule.start(4999, 319936, 63), 339500);
  EXPECT_EQ(other.start(0, 0, 0), 405794);
  EXPECT_EQ(other.start(int64_t{1} << 40, 0, 7), 117705);
}

TEST(SampleSchedule, GoldenPass) {
  const SampleSchedule schedule(1337, Sampling::kPass, 1003854, 256);
  EXPECT_EQ(schedule.blocks(), 3921);
  EXPECT_EQ(schedule.start(0, 0, 0), 862720);
  EXPECT_EQ(schedule.start(0, 0, 1), 172288);
  EXPECT_EQ(schedule.start(1, 64, 0), 166912);
  EXPECT_EQ(schedule.start(61, 3904, 17), 402944);
  EXPECT_EQ(schedule.start(100, 6400, 63), 711936);
  const SampleSchedule other(42, Sampling::kPass, 1000, 10);
  EXPECT_EQ(other.start(0, 12345, 6), 450);
}

TEST(SampleSchedule, ReplacementIsRandomStreamBelow) {
  const SampleSchedule schedule(9, Sampling::kReplacement, 1000, 64);
  for (int64_t step = 0; step < 50; ++step)
    for (int64_t slot = 0; slot < 20; ++slot)
      EXPECT_EQ(schedule.start(step, 12345, slot),
                static_cast<int64_t>(RandomStream(9, Purpose::kSamples, static_cast<uint32_t>(slot))
                                         .below(static_cast<uint64_t>(step), 1000 - 64)));
}

TEST(SampleSchedule, ReplacementCoversTheWholeRange) {
  const SampleSchedule schedule(5, Sampling::kReplacement, 40, 8);
  std::map<int64_t, int> hits;
  for (int64_t step = 0; step < 400; ++step)
    for (int64_t slot = 0; slot < 10; ++slot) ++hits[schedule.start(step, 0, slot)];
  EXPECT_EQ(hits.begin()->first, 0);
  EXPECT_EQ(hits.rbegin()->first, 31);  // the row 31..38 and its target 39, the last token
  EXPECT_EQ(hits.size(), 32u);
}

TEST(SampleSchedule, PassRowsDoNotOverlapAndStayInside) {
  for (const int64_t tokens : {65, 66, 128, 129, 1000, 10001}) {
    constexpr int64_t kBlockSize = 64;
    const SampleSchedule schedule(3, Sampling::kPass, tokens, kBlockSize);
    std::set<int64_t> starts;
    for (int64_t sample = 0; sample < schedule.blocks(); ++sample) {
      const int64_t start = schedule.start(0, sample, 0);
      EXPECT_EQ(start % kBlockSize, 0);
      EXPECT_LE(start + kBlockSize, tokens - 1);
      starts.insert(start);
    }
    EXPECT_EQ(static_cast<int64_t>(starts.size()), schedule.blocks()) << tokens;
  }
}

// The global sample decides in pass mode, however steps cut the samples up.
TEST(SampleSchedule, PassDependsOnTheGlobalSampleAlone) {
  const SampleSchedule schedule(3, Sampling::kPass, 10001, 64);
  for (int64_t sample = 0; sample < 500; ++sample) {
    const int64_t expected = schedule.start(0, sample, 0);
    EXPECT_EQ(schedule.start(sample / 12, sample / 12 * 12, sample % 12), expected);
    EXPECT_EQ(schedule.start(sample / 7, sample / 7 * 7, sample % 7), expected);
  }
}

TEST(SampleSchedule, Passes) {
  EXPECT_DOUBLE_EQ(SampleSchedule(1, Sampling::kPass, 641, 64).passes(25), 2.5);
  EXPECT_DOUBLE_EQ(SampleSchedule(1, Sampling::kReplacement, 640, 64).passes(25), 2.5);
}

TEST(CopyRow, TargetsAreShiftedByOne) {
  std::vector<uint16_t> ids(20);
  std::iota(ids.begin(), ids.end(), static_cast<uint16_t>(65516));
  int32_t x[5], y[5];
  copy_row(ids, 14, 5, x, y);
  EXPECT_EQ(std::vector<int32_t>(x, x + 5), (std::vector<int32_t>{65530, 65531, 65532, 65533, 65534}));
  EXPECT_EQ(std::vector<int32_t>(y, y + 5), (std::vector<int32_t>{65531, 65532, 65533, 65534, 65535}));
}

TEST(CopyRowDeathTest, RefusesRowsThatEndOutside) {
  const std::vector<uint16_t> ids(20);
  int32_t x[5], y[5];
  EXPECT_DEATH(copy_row(ids, 15, 5, x, y), "start=15");
  EXPECT_DEATH(copy_row(ids, -1, 5, x, y), "start=-1");
}

}  // namespace
}  // namespace lockstep
