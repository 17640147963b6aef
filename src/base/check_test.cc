#include "base/check.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Check, PassesWithoutLookingAtTheMessage) {
  int looked = 0;
  const auto look = [&] { return ++looked; };
  LOCKSTEP_CHECK(true) << look();
  LOCKSTEP_CHECK_EQ(2, 2) << look();
  EXPECT_EQ(looked, 0);
}

TEST(Check, IsOneStatementInAnIf) {
  bool other = false;
  if (false)
    LOCKSTEP_CHECK(false) << "not reached";
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(CheckDeathTest, NamesPlaceConditionAndValues) {
  const int rows = -3;
  EXPECT_DEATH(LOCKSTEP_CHECK(rows > 0) << "rows=" << rows,
               "lockstep: internal error: .*check_test\\.cc:[0-9]+: CHECK\\(rows > 0\\) failed rows=-3");
  EXPECT_DEATH(LOCKSTEP_CHECK(false), "hint: this is a bug in lockstep; please report it");
}

TEST(CheckDeathTest, ComparisonsPrintBothSides) {
  EXPECT_DEATH(LOCKSTEP_CHECK_EQ(2, 3) << "tail", "2 != 3 +tail");
  EXPECT_DEATH(LOCKSTEP_CHECK_GE(2, 3), "2 < 3");
  EXPECT_DEATH(LOCKSTEP_CHECK_GT(3, 3), "3 <= 3");
  EXPECT_DEATH(LOCKSTEP_CHECK_LE(4, 3), "4 > 3");
  EXPECT_DEATH(LOCKSTEP_CHECK_LT(3, 3), "3 >= 3");
}

}  // namespace
}  // namespace lockstep
