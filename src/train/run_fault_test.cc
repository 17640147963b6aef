// A whole run while the file system fails at every operation in turn, and while the machine crashes at every
// one: what had been saved is still there, and going on from it gives the bits of the undisturbed run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "train/testing/small_run.h"

namespace lockstep {
namespace {

using lockstep::testing::Fault;
using lockstep::testing::Machine;
using lockstep::testing::resumed_run;
using lockstep::testing::small_run;
using lockstep::testing::undisturbed;

constexpr int64_t kSteps = lockstep::testing::kSmallRunSteps;

class RunFaultTest : public ::testing::Test {
  lockstep::testing::QuietLog quiet_;  // damaged checkpoints are announced: not here
};

/// Whatever happened: go on, or start again where nothing had been saved, and end with the same bits.
void expect_recovers(Machine& machine, const std::string& what) {
  const bool fresh = !find_latest_valid_checkpoint(machine.files, "out").is_ok();
  if (fresh) {
    ASSERT_TRUE(machine.files.remove_all("out").is_ok());
  }
  const auto summary = machine.run(fresh ? small_run() : resumed_run());
  ASSERT_TRUE(summary.is_ok()) << what << ": " << summary.status().message();
  EXPECT_EQ(undisturbed().tensors(kSteps), machine.tensors(kSteps)) << what;
}

/// The step of the newest checkpoint whose save was over before operation n of the undisturbed run; -1: none.
int64_t saved_before(const std::vector<std::string>& trace, int64_t n) {
  int64_t step = -1, renamed = -1;
  for (int64_t i = 0; i < n; ++i) {
    const std::string& operation = trace[static_cast<size_t>(i)];
    long parsed = 0;
    if (std::sscanf(operation.c_str(), "rename out/checkpoints/%ld.tmp to", &parsed) == 1) renamed = parsed;
    if (operation == "syncdir out/checkpoints" && renamed > step) step = renamed;
  }
  return step;
}

void expect_saved(Machine& machine, int64_t saved, const std::string& what) {
  if (saved < 0) return;
  const auto newest = find_latest_valid_checkpoint(machine.files, "out");
  ASSERT_TRUE(newest.is_ok()) << what;
  EXPECT_GE(newest->step, saved) << what;
}

TEST_F(RunFaultTest, TheTraceShowsTheSaves) {
  const auto trace = undisturbed().files.trace();
  EXPECT_EQ(saved_before(trace, static_cast<int64_t>(trace.size())), kSteps);
  EXPECT_EQ(saved_before(trace, 0), -1);
}

TEST_F(RunFaultTest, AnyFailingOperationLosesNothingThatWasSaved) {
  const std::vector<std::string> trace = undisturbed().files.trace();
  const int64_t begin = Machine().files.operations();
  int64_t failed = 0;
  for (int64_t n = begin; n < static_cast<int64_t>(trace.size()); ++n) {
    const bool full_disk = n % 2 == 0;
    Machine machine;
    machine.files.fail_at(n, full_disk ? Fault::kNoSpace : Fault::kIoError, full_disk);
    const auto result = machine.run(small_run());
    machine.files.clear_faults();
    const std::string what = fmt::format("operation {}: {}", n, trace[static_cast<size_t>(n)]);
    if (!result.is_ok()) {
      ++failed;
      EXPECT_EQ(result.status().code(), Code::kIo) << what << ": " << result.status().message();
    }
    expect_saved(machine, saved_before(trace, n), what);
    expect_recovers(machine, what);
    if (HasFatalFailure()) return;
  }
  std::printf("%ld operations, %ld of their failures ended the run\n",
              static_cast<long>(static_cast<int64_t>(trace.size()) - begin), static_cast<long>(failed));
  EXPECT_GT(failed, 20);
}

TEST_F(RunFaultTest, AnyCrashLosesNothingThatWasSaved) {
  const std::vector<std::string> trace = undisturbed().files.trace();
  for (int64_t n = Machine().files.operations(); n < static_cast<int64_t>(trace.size()); ++n) {
    Machine machine;
    machine.files.crash_at(n);
    static_cast<void>(machine.run(small_run()));
    machine.files.restart(static_cast<uint64_t>(n));
    const std::string what = fmt::format("crash at operation {}: {}", n, trace[static_cast<size_t>(n)]);
    expect_saved(machine, saved_before(trace, n), what);
    expect_recovers(machine, what);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep
