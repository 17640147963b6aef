#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr LearningRateSchedule kChar{
    .learning_rate = 1e-3, .min_lr = 1e-4, .warmup_iters = 100, .lr_decay_iters = 2000, .decay = true};

TEST(Schedule, WarmsUpDecaysAndStaysAtTheMinimum) {
  EXPECT_DOUBLE_EQ(kChar.at(0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(kChar.at(99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(kChar.at(100), 1e-3);
  EXPECT_DOUBLE_EQ(kChar.at(1050), 1e-4 + 0.5 * 9e-4);  // half way: cos(pi / 2) = 0
  EXPECT_DOUBLE_EQ(kChar.at(2000), 1e-4);
  EXPECT_DOUBLE_EQ(kChar.at(2001), 1e-4);
  for (int64_t it = 101; it <= 2000; ++it) ASSERT_LT(kChar.at(it), kChar.at(it - 1)) << it;
}

TEST(Schedule, WithoutDecayItIsConstant) {
  LearningRateSchedule constant = kChar;
  constant.decay = false;
  EXPECT_EQ(constant.at(0), 1e-3);
  EXPECT_EQ(constant.at(5000), 1e-3);
}

TEST(Schedule, DecayThatEndsWithinTheWarmUpIsFinite) {
  LearningRateSchedule odd = kChar;
  odd.lr_decay_iters = odd.warmup_iters = 10;
  EXPECT_EQ(odd.at(10), odd.min_lr);
  odd.warmup_iters = 0;
  EXPECT_EQ(odd.at(0), 1e-3);
}

}  // namespace
}  // namespace lockstep
