#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

const std::vector<std::string> kFlags{"--learning-rate", "--batch-size", "--n-layer", "--n-head", "--seed"};

TEST(NearestName, FindsTyposOfEveryKind) {
  EXPECT_EQ(nearest_name("--learning-rte", kFlags), "--learning-rate");    // left out
  EXPECT_EQ(nearest_name("--learning-raate", kFlags), "--learning-rate");  // one too many
  EXPECT_EQ(nearest_name("--baatch-sise", kFlags), "--batch-size");        // two at once
  EXPECT_EQ(nearest_name("--sede", kFlags), "--seed");                     // swapped
  EXPECT_EQ(nearest_name("--Batch_Size", kFlags), "--batch-size");         // spelling of another tool
}

TEST(NearestName, SwappedNeighboursCostOne) {
  const std::vector<std::string> candidates{"ab", "xyz"};
  EXPECT_EQ(nearest_name("ba", candidates), "ab");
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("--frobnicate", kFlags), "");
  EXPECT_EQ(nearest_name("x", std::vector<std::string>{}), "");
  EXPECT_EQ(nearest_name("", kFlags), "");
}

TEST(NearestName, TheFirstOfEquallyNearWins) {
  const std::vector<std::string> candidates{"cat", "bat"};
  EXPECT_EQ(nearest_name("rat", candidates), "cat");
}

TEST(NearestName, ExactNameBeatsNearOnes) {
  EXPECT_EQ(nearest_name("--n-head", kFlags), "--n-head");
}

}  // namespace
}  // namespace lockstep
