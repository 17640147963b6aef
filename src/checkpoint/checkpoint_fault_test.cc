// Saving while the file system fails at every operation in turn, and while the machine crashes at every one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/log.h"
#include "checkpoint/testing/sample_checkpoint.h"

namespace lockstep {
namespace {

using testing::expect_whole;
using testing::Fault;
using testing::FaultFileSystem;
using testing::find_quietly;
using testing::save;
using testing::Tensors;

/// Thousands of warnings are expected here.
class CheckpointFaults : public ::testing::Test {
 protected:
  CheckpointFaults() { set_log_level(LogLevel::kError); }
  ~CheckpointFaults() override { set_log_level(LogLevel::kInfo); }
};

/// A file system with good checkpoints of steps 10 and 20 and something to remove; the next save is step 30.
void prepare(FaultFileSystem& files) {
  ASSERT_TRUE(save(files, 10).is_ok());
  ASSERT_TRUE(save(files, 20).is_ok());
  ASSERT_TRUE(files.create_directories("out/checkpoints/25.tmp").is_ok());
  ASSERT_TRUE(files.create("out/checkpoints/25.tmp/model.safetensors").is_ok());
}

int64_t operations_of_a_save() {
  FaultFileSystem files;
  prepare(files);
  const int64_t begin = files.operations();
  EXPECT_TRUE(save(files, 30).is_ok());
  return files.operations() - begin;
}

TEST_F(CheckpointFaults, AnyFailingOperationLeavesTheEarlierOneWhole) {
  const int64_t count = operations_of_a_save();
  ASSERT_GT(count, 25);
  int failed = 0, saved = 0;
  for (int64_t n = 0; n < count; ++n)
    for (const Fault fault : {Fault::kIoError, Fault::kNoSpace, Fault::kShortWrite})
      for (const bool keep_failing : {false, true}) {
        FaultFileSystem files;
        prepare(files);
        const int64_t begin = files.operations();
        files.fail_at(begin + n, fault, keep_failing);
        const Status status = save(files, 30);
        files.clear_faults();
        const std::string what = files.trace()[static_cast<size_t>(begin + n)];
        status.is_ok() ? ++saved : ++failed;
        if (!status.is_ok()) {
          EXPECT_EQ(status.code(), Code::kIo) << what;
          EXPECT_TRUE(status.message().starts_with("cannot save the checkpoint of step 30: cannot "))
              << status.message();
        }
        const auto found = find_quietly(files);
        ASSERT_TRUE(found.is_ok()) << what << ": " << found.status().message();
        EXPECT_GE(found->step, status.is_ok() ? 30 : 20) << what;
        expect_whole(files, *found);
        // And the next attempt succeeds and cleans up.
        const Status again = save(files, 30);
        ASSERT_TRUE(again.is_ok()) << what << ": " << again.message();
        expect_whole(files, {"out/checkpoints/30", 30});
        for (const std::string& path : files.paths())
          EXPECT_EQ(path.find(".tmp"), std::string::npos) << what << path;
      }
  EXPECT_GT(failed, 80);
  EXPECT_GT(saved, 0) << "failing to remove an old one is no failure";
}

TEST_F(CheckpointFaults, AFailedSaveGivesTheSpaceBack) {
  // On a disk that is full, what was half written is removed.
  const int64_t count = operations_of_a_save();
  for (int64_t n = 0; n < count; ++n) {
    FaultFileSystem files;
    prepare(files);
    files.fail_at(files.operations() + n, Fault::kNoSpace, true);
    if (save(files, 30).is_ok()) continue;
    EXPECT_FALSE(files.exists("out/checkpoints/30.tmp")) << n;
  }
}

TEST_F(CheckpointFaults, ACrashAtAnyMomentLeavesOneNotOlderThanTheLastAcknowledged) {
  const int64_t count = operations_of_a_save();
  std::set<int64_t> found_steps;
  for (int64_t n = 0; n <= count; ++n)
    for (uint64_t seed = 0; seed < 12; ++seed) {
      FaultFileSystem files;
      prepare(files);
      files.crash_at(files.operations() + n);
      const bool acknowledged = save(files, 30).is_ok();
      files.restart(seed);
      const auto found = find_quietly(files);
      const std::string what = fmt::format("crash before operation {} seed {}", n, seed);
      ASSERT_TRUE(found.is_ok()) << what << ": " << found.status().message();
      EXPECT_GE(found->step, acknowledged ? 30 : 20) << what;
      expect_whole(files, *found);
      found_steps.insert(found->step);
      // The run goes on from there and saves again.
      ASSERT_TRUE(save(files, 30).is_ok()) << what;
      files.restart(seed + 1);
      expect_whole(files, {"out/checkpoints/30", 30});
    }
  EXPECT_EQ(found_steps, (std::set<int64_t>{20, 30}));
}

TEST_F(CheckpointFaults, ACrashDuringTheFirstSaveEverLeavesNothingHalf) {
  int64_t count = 0;
  {
    FaultFileSystem files;
    ASSERT_TRUE(save(files, 1).is_ok());
    count = files.operations();
  }
  for (int64_t n = 0; n <= count; ++n)
    for (uint64_t seed = 0; seed < 12; ++seed) {
      FaultFileSystem files;
      files.crash_at(n);
      const bool acknowledged = save(files, 1).is_ok();
      files.restart(seed);
      const auto found = find_quietly(files);
      EXPECT_TRUE(found.is_ok() || !acknowledged) << n << ' ' << seed;
      if (found.is_ok()) expect_whole(files, *found);
    }
}

TEST_F(CheckpointFaults, ReplacingABrokenOneIsAsSafe) {
  int64_t begin = 0, count = 0;
  const auto break_last = [](FaultFileSystem& files) {
    prepare(files);
    files.overwrite("out/checkpoints/20/model.safetensors", "rotten");
  };
  {
    FaultFileSystem files;
    break_last(files);
    begin = files.operations();
    ASSERT_TRUE(save(files, 20).is_ok());
    count = files.operations() - begin;
  }
  for (int64_t n = 0; n <= count; ++n)
    for (uint64_t seed = 0; seed < 6; ++seed) {
      FaultFileSystem files;
      break_last(files);
      files.crash_at(begin + n);
      const bool acknowledged = save(files, 20).is_ok();
      files.restart(seed);
      const auto found = find_quietly(files);
      ASSERT_TRUE(found.is_ok()) << n << ' ' << seed;
      EXPECT_GE(found->step, acknowledged ? 20 : 10) << n << ' ' << seed;
      expect_whole(files, *found);
    }
}

TEST_F(CheckpointFaults, AnyFailingOperationOfALoadChangesNothing) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  const int64_t begin = files.operations();
  Tensors target(99);
  ASSERT_TRUE(load_checkpoint(files, "out/checkpoints/4", target.content).is_ok());
  const int64_t count = files.operations() - begin;
  ASSERT_GE(count, 3);
  for (int64_t n = 0; n < count; ++n) {
    Tensors fresh(99);
    files.fail_at(files.operations() + n, Fault::kIoError);
    const Status status = load_checkpoint(files, "out/checkpoints/4", fresh.content);
    EXPECT_EQ(status.code(), Code::kIo) << n;
    EXPECT_EQ(fresh.all(), Tensors(99).all()) << n;
  }
}

}  // namespace
}  // namespace lockstep
