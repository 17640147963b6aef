#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

namespace lockstep {
namespace {

TEST(Status, OkHoldsNothingAndTakesNoContext) {
  const Status status = Status::ok().with_context("cannot read x").with_hint("look");
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.hint(), "");
}

TEST(Status, ContextsChainFromOutermostToCause) {
  const Status status =
      Status(Code::kIo, "No such file").with_context("cannot open x").with_context("cannot resume");
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "cannot resume: cannot open x: No such file");
}

TEST(Status, TheDeepestHintWins) {
  const Status status = Status(Code::kIo, "full").with_hint("free space").with_hint("try again");
  EXPECT_EQ(status.hint(), "free space");
}

TEST(Status, CodesAreTheExitCodesOfTheDocuments) {
  EXPECT_EQ(static_cast<int>(Code::kUsage), 2);
  EXPECT_EQ(static_cast<int>(Code::kData), 3);
  EXPECT_EQ(static_cast<int>(Code::kTooFew), 4);
  EXPECT_EQ(static_cast<int>(Code::kNonFinite), 5);
  EXPECT_EQ(static_cast<int>(Code::kPeer), 6);
  EXPECT_EQ(static_cast<int>(Code::kReplica), 7);
  EXPECT_EQ(static_cast<int>(Code::kIo), 8);
  EXPECT_EQ(static_cast<int>(Code::kInternal), 70);
  EXPECT_EQ(static_cast<int>(Code::kInterrupted), 130);
}

Result<int> half(int value) {
  if (value % 2 != 0) return Status(Code::kUsage, "odd");
  return value / 2;
}

Result<int> quarter(int value) {
  LOCKSTEP_ASSIGN(const int halved, half(value));
  LOCKSTEP_ASSIGN(const int quartered, half(halved));
  return quartered;
}

Status must_halve(int value) {
  LOCKSTEP_TRY(half(value).status());
  return Status::ok();
}

TEST(Result, CarriesAValueOrTheReason) {
  EXPECT_EQ(half(6).value(), 3);
  EXPECT_TRUE(half(6).status().is_ok());
  EXPECT_FALSE(half(5).is_ok());
  EXPECT_EQ(half(5).status().message(), "odd");
}

TEST(Result, MacrosReturnTheFirstFailure) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
  EXPECT_EQ(quarter(5).status().code(), Code::kUsage);
  EXPECT_TRUE(must_halve(2).is_ok());
  EXPECT_FALSE(must_halve(3).is_ok());
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
  static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
}

TEST(ResultDeathTest, MisuseAborts) {
  EXPECT_DEATH(static_cast<void>(half(5).value()), "CHECK\\(is_ok\\(\\)\\) failed odd");
  EXPECT_DEATH(static_cast<void>(Result<int>(Status::ok())), "Result made from an ok Status");
}

}  // namespace
}  // namespace lockstep
