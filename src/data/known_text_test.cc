#include "data/known_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "base/hash.h"
#include "data/testing/scratch.h"

namespace lockstep {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

constexpr std::string_view kContent = "All the world is a text, and all the letters merely tokens.\n";

class FakeDownloader final : public Downloader {
 public:
  Result<std::string> fetch(const std::string& url, uint64_t bytes_max,
                            const DownloadProgress& progress) override {
    ++calls;
    last_url = url;
    last_bytes_max = bytes_max;
    if (progress) progress(answer.size(), answer.size());
    if (fails) return Status(Code::kIo, "cannot download: no route to host");
    return answer;
  }

  std::string answer = std::string(kContent);
  bool fails = false;
  int calls = 0;
  std::string last_url;
  uint64_t last_bytes_max = 0;
};

class KnownTextTest : public ::testing::Test {
 protected:
  KnownTextTest() {
    if (const char* value = std::getenv("LOCKSTEP_DATA")) old_environment_ = value;
    ::unsetenv("LOCKSTEP_DATA");
    known_ = {
        "bard", {"bard.txt", "input.txt"}, kContent.size(), sha256_hex(kContent), "https://example.org/bard"};
    options_.cache_directory = folder_.path("home/.cache/lockstep");
    options_.downloader = &downloader_;
  }
  ~KnownTextTest() override {
    if (old_environment_)
      ::setenv("LOCKSTEP_DATA", old_environment_->c_str(), 1);
    else
      ::unsetenv("LOCKSTEP_DATA");
  }

  Result<TextBytes> find() { return find_known_text(real_file_system(), known_, options_); }
  void expect_found(int downloads) {
    const Result<TextBytes> found = find();
    ASSERT_TRUE(found.is_ok()) << found.status().message();
    EXPECT_EQ(found->text, kContent);
    EXPECT_EQ(downloader_.calls, downloads);
  }

  ScratchFolder folder_;
  FakeDownloader downloader_;
  DataOptions options_;
  KnownText known_;
  std::optional<std::string> old_environment_;
};

TEST_F(KnownTextTest, FoundByHashUnderAnyName) {
  options_.search_path = {folder_.path("absent"), folder_.path("a")};
  folder_.write("a/aaa.txt", std::string(kContent.size(), 'x'));  // the right size, another text
  folder_.write("a/whatever", kContent);
  expect_found(0);
}

TEST_F(KnownTextTest, AWrongFileOfTheUsualNameDoesNotHideTheRightOne) {
  options_.search_path = {folder_.path("a")};
  folder_.write("a/bard.txt", "short");
  folder_.write("a/input.txt", std::string(kContent.size(), 'x'));
  folder_.write("a/zzz", kContent);
  expect_found(0);
}

TEST_F(KnownTextTest, FoundThroughTheEnvironment) {
  folder_.write("env/input.txt", kContent);
  ::setenv("LOCKSTEP_DATA", folder_.path("env").c_str(), 1);
  expect_found(0);
}

TEST_F(KnownTextTest, PipesAndFoldersAreNotOpened) {
  options_.search_path = {folder_.path("a")};
  std::filesystem::create_directories(folder_.path("a/bard.txt"));
  ASSERT_EQ(::mkfifo(folder_.path("a/pipe").c_str(), 0600), 0);
  expect_found(1);
}

TEST_F(KnownTextTest, DownloadedOnceThenFromTheCache) {
  uint64_t reported = 0;
  options_.download_progress = [&](uint64_t bytes, uint64_t) { reported = bytes; };
  expect_found(1);
  EXPECT_EQ(downloader_.last_url, "https://example.org/bard");
  EXPECT_EQ(downloader_.last_bytes_max, kContent.size());
  EXPECT_EQ(reported, kContent.size());
  EXPECT_EQ(testing::read_file(options_.cache_directory + "/bard.txt"), kContent);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.cache_directory), {}), 1)
      << "left-overs";
  downloader_.fails = true;
  expect_found(1);
}

TEST_F(KnownTextTest, ACacheThatCannotBeWrittenOnlyWarns) {
  options_.cache_directory = folder_.write("file", "not a folder") + "/cache";
  expect_found(1);
  expect_found(2);
}

TEST_F(KnownTextTest, AWrongDownloadIsNeverKept) {
  for (const std::string& answer :
       {std::string(), std::string(kContent.size(), 'x'), std::string("<html>")}) {
    downloader_.answer = answer;
    expect_error(
        find().status(), Code::kData,
        {"gave " + std::to_string(answer.size()) + " bytes", sha256_hex(answer), "which is not the text"});
    EXPECT_FALSE(std::filesystem::exists(options_.cache_directory));
  }
}

TEST_F(KnownTextTest, TheErrorSaysWhereItLookedAndWhereToPutTheFile) {
  options_.search_path = {folder_.path("absent"), folder_.path("a"), folder_.path("b"), folder_.path("c")};
  folder_.write("a/one", "1");
  folder_.write("a/two", "2");
  folder_.write("b/bard.txt", "short");
  folder_.write("c/bard.txt", std::string(kContent.size(), 'x'));
  downloader_.fails = true;
  expect_error(
      find().status(), Code::kData,
      {"cannot find the text \"bard\" (" + std::to_string(kContent.size()) + " bytes, SHA-256 " +
           known_.sha256,
       folder_.path("absent") + ": no such folder", folder_.path("a") + ": none of its 2 files is it",
       folder_.path("b/bard.txt") + ": has 5 bytes", folder_.path("c/bard.txt") + ": has SHA-256",
       options_.cache_directory + ": no such folder", "no route to host", "get https://example.org/bard",
       "put it into " + options_.cache_directory + "/bard.txt", "--data-path"});
  options_.allow_download = false;
  const int calls = downloader_.calls;
  expect_error(find().status(), Code::kData, {"downloading is switched off"});
  EXPECT_EQ(downloader_.calls, calls);
}

TEST(Tinyshakespeare, IsFoundInTheDataFolder) {
  if (std::getenv("LOCKSTEP_DATA") == nullptr)
    GTEST_SKIP() << "set LOCKSTEP_DATA to a folder that holds tinyshakespeare.txt to run this test";
  FakeDownloader downloader;
  DataOptions options;
  options.downloader = &downloader;
  options.cache_directory = "/nonexistent";
  const Result<TextBytes> found = find_known_text(real_file_system(), tinyshakespeare(), options);
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_EQ(found->text.size(), 1115394u);
  EXPECT_EQ(found->text.substr(0, 14), "First Citizen:");
  EXPECT_EQ(downloader.calls, 0);
}

}  // namespace
}  // namespace lockstep
