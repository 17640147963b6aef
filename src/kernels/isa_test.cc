#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "kernels/testing/for_each_isa.h"

namespace lockstep::kernels {
namespace {

// Said once per test program, where nobody has to look for it: which compiled code was not tested here.
class UntestedIsas : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto missing = unavailable_isas();
    if (missing.empty()) return;
    std::string names;
    for (const auto& name : missing) names += (names.empty() ? "" : ", ") + name;
    std::printf("isa not run here: %s\n", names.c_str());
  }
};
const auto* const kUntested = ::testing::AddGlobalTestEnvironment(new UntestedIsas);

TEST(Isa, BestIsUsedFirst) {
  ASSERT_NE(kUntested, nullptr);
  const auto isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(current_isa(), isas.front());
}

TEST(Isa, ForcingReachesEveryAvailableOne) {
  int visited = 0;
  testing::for_each_isa([&](const std::string&) { ++visited; });
  EXPECT_EQ(static_cast<size_t>(visited), available_isas().size());
  EXPECT_EQ(current_isa(), available_isas().front());
}

TEST(Isa, ForcingDoesNotChangeWhatIsAvailable) {
  const auto before = available_isas();
  ASSERT_TRUE(force_isa(before.back()));
  EXPECT_EQ(available_isas(), before);
  ASSERT_TRUE(force_isa(""));
}

TEST(Isa, UnknownAndUnavailableNamesAreRefused) {
  EXPECT_FALSE(force_isa("AVX9"));
  for (const auto& name : unavailable_isas()) EXPECT_FALSE(force_isa(name));
  EXPECT_EQ(current_isa(), available_isas().front());
}

TEST(Isa, AvailableAndUnavailableAreDisjoint) {
  const auto available = available_isas();
  for (const auto& name : unavailable_isas()) {
    EXPECT_EQ(std::count(available.begin(), available.end(), name), 0) << name;
  }
}

}  // namespace
}  // namespace lockstep::kernels
