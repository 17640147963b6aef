#include "base/testing/fault_file_system.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::testing {
namespace {

/// Writes without any sync; fails the test when it cannot.
std::unique_ptr<WritableFile> write(FaultFileSystem& files, const std::string& path, std::string_view text) {
  auto file = files.create(path);
  EXPECT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_TRUE((*file)->append(text).is_ok());
  return std::move(file).value();
}

TEST(FaultFileSystem, BehavesLikeAFileSystem) {
  FaultFileSystem files;
  ASSERT_TRUE(files.create_directories("a/b").is_ok());
  auto file = write(files, "a/b/f", "hello");
  EXPECT_TRUE(file->close().is_ok());
  EXPECT_EQ(files.read("a/b/f", 100).value(), "hello");
  EXPECT_EQ(files.read("./a//b/f", 5).value(), "hello");
  EXPECT_EQ(files.read("a/b/f", 4).status().code(), Code::kData);
  EXPECT_EQ(files.list("a").value(), std::vector<std::string>{"b"});
  EXPECT_TRUE(files.is_directory("a/b"));
  EXPECT_FALSE(files.is_directory("a/b/f"));
  EXPECT_FALSE(files.exists("a/c"));
  EXPECT_EQ(files.file_bytes("a/b/f").value(), 5u);
  ASSERT_TRUE(files.rename("a/b", "a/c").is_ok());
  EXPECT_EQ(files.content("a/c/f"), "hello");
  ASSERT_TRUE(files.truncate("a/c/f", 2).is_ok());
  const auto more = files.open_append("a/c/f");
  ASSERT_TRUE((*more)->append(std::string_view("y")).is_ok());
  EXPECT_EQ(files.content("a/c/f"), "hey");
  EXPECT_EQ(files.map("a/c/f").value()->bytes().size(), 3u);
  ASSERT_TRUE(files.remove_all("a").is_ok());
  EXPECT_TRUE(files.paths().empty());
}

TEST(FaultFileSystem, RefusesWhatARealOneRefuses) {
  FaultFileSystem files;
  ASSERT_TRUE(files.create_directories("d/full").is_ok());
  write(files, "d/full/f", "x");
  ASSERT_TRUE(files.create_directories("e").is_ok());
  EXPECT_FALSE(files.rename("e", "d/full").is_ok());
  EXPECT_FALSE(files.rename("none", "other").is_ok());
  EXPECT_FALSE(files.create("none/f").is_ok());
  EXPECT_FALSE(files.create("d").is_ok());
  EXPECT_FALSE(files.create_directories("d/full/f/g").is_ok());
  EXPECT_FALSE(files.list("d/full/f").is_ok());
  EXPECT_TRUE(files.remove_all("none").is_ok());
}

TEST(FaultFileSystem, FailsExactlyTheChosenOperation) {
  for (int64_t chosen = 0; chosen < 5; ++chosen) {
    FaultFileSystem files;
    files.fail_at(chosen, Fault::kIoError);
    int failures = 0;
    for (int64_t i = 0; i < 5; ++i) {
      const std::string path = fmt::format("d{}", i);
      const Status status = files.create_directories(path);
      EXPECT_EQ(status.is_ok(), i != chosen);
      if (!status.is_ok()) {
        ++failures;
        EXPECT_EQ(status.message(), fmt::format("cannot mkdir {}: Input/output error", path));
        EXPECT_FALSE(files.exists(path));
      }
    }
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(files.operations(), 5);
    EXPECT_EQ(files.trace().size(), 5u);
  }
}

TEST(FaultFileSystem, AFullDiskStaysFullButLetsOneRemove) {
  FaultFileSystem files;
  const auto file = write(files, "f", "x");
  files.fail_at(files.operations(), Fault::kNoSpace, true);
  EXPECT_FALSE(file->append(std::string_view("y")).is_ok());
  EXPECT_FALSE(files.create("g").is_ok());
  EXPECT_FALSE(file->sync().is_ok());
  EXPECT_TRUE(files.remove_all("f").is_ok());
  files.clear_faults();
  EXPECT_TRUE(files.create("g").is_ok());
}

TEST(FaultFileSystem, AShortWriteLeavesAPart) {
  FaultFileSystem files;
  const auto file = write(files, "f", "");
  files.fail_at(files.operations(), Fault::kShortWrite);
  const Status status = file->append(std::string_view("0123456789"));
  EXPECT_EQ(status.message(), "cannot append f: No space left on device");
  EXPECT_EQ(files.content("f"), "01234");
}

TEST(FaultFileSystem, WhatWasSyncedSurvivesAnyCrash) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultFileSystem files;
    ASSERT_TRUE(files.create_directories("d").is_ok());
    const auto file = write(files, "d/f", "synced");
    ASSERT_TRUE(file->sync().is_ok());
    ASSERT_TRUE(files.sync_directory("d").is_ok());
    ASSERT_TRUE(files.sync_directory("").is_ok());
    ASSERT_TRUE(file->append(std::string_view(" and not")).is_ok());
    files.restart(seed);
    EXPECT_EQ(files.content("d/f").value_or("").substr(0, 6), "synced");
    EXPECT_FALSE(file->append(std::string_view("late")).is_ok()) << "a file opened before the crash is dead";
  }
}

TEST(FaultFileSystem, WhatWasNotSyncedIsLostInEveryWay) {
  std::set<std::string> contents;
  int name_lost = 0, old_name = 0, new_name = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FaultFileSystem files;
    const auto file = write(files, "f", "0123456789");
    ASSERT_TRUE(files.sync_directory("").is_ok());
    write(files, "lost", "x");
    ASSERT_TRUE(files.rename("f", "g").is_ok());
    files.restart(seed);
    name_lost += files.exists("lost") ? 0 : 1;
    old_name += files.exists("f") ? 1 : 0;
    new_name += files.exists("g") ? 1 : 0;
    EXPECT_NE(files.exists("f"), files.exists("g")) << "a rename is atomic";
    contents.insert(files.content(files.exists("f") ? "f" : "g").value_or("none"));
  }
  EXPECT_GT(name_lost, 0);
  EXPECT_GT(old_name, 0);
  EXPECT_GT(new_name, 0);
  EXPECT_TRUE(contents.contains(""));
  EXPECT_TRUE(contents.contains("0123456789"));
  EXPECT_GT(contents.size(), 8u) << "torn in many places, with and without zeros";
}

TEST(FaultFileSystem, SameSeedSameLoss) {
  const auto run = [](uint64_t seed) {
    FaultFileSystem files;
    for (int i = 0; i < 5; ++i) write(files, fmt::format("f{}", i), fmt::format("content {}", i));
    files.restart(seed);
    std::string all;
    for (const std::string& path : files.paths()) all += path + "=" + files.content(path).value_or("") + ";";
    return all;
  };
  EXPECT_EQ(run(7), run(7));
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 20; ++seed) outcomes.insert(run(seed));
  EXPECT_GT(outcomes.size(), 5u);
}

TEST(FaultFileSystem, NothingHappensWhileTheMachineIsOff) {
  FaultFileSystem files;
  const auto file = write(files, "f", "x");
  files.crash_at(files.operations());
  EXPECT_FALSE(file->append(std::string_view("y")).is_ok());
  EXPECT_FALSE(files.create_directories("d").is_ok());
  EXPECT_FALSE(files.remove_all("f").is_ok());
  EXPECT_FALSE(files.read("f", 10).is_ok());
  EXPECT_EQ(files.content("f"), "x");
  files.restart(0);
  EXPECT_TRUE(files.create_directories("d").is_ok());
}

TEST(FaultFileSystem, OverwriteSurvivesAsBitRotDoes) {
  FaultFileSystem files;
  const auto file = write(files, "f", "good");
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(files.sync_directory("").is_ok());
  files.overwrite("f", "evil");
  files.restart(1);
  EXPECT_EQ(files.content("f"), "evil");
}

}  // namespace
}  // namespace lockstep::testing
