#include "base/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing/fault_file_system.h"

namespace lockstep {
namespace {

/// A directory of its own for each test, in the system's place for temporary files.
class RealFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "lockstep-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(files_.remove_all(root_).is_ok()); }

  std::string path(const std::string& name) const { return root_ + "/" + name; }
  void write(const std::string& name, std::string_view content) {
    auto file = files_.create(path(name));
    ASSERT_TRUE(file.is_ok()) << file.status().message();
    ASSERT_TRUE((*file)->append(content).is_ok());
    ASSERT_TRUE((*file)->sync().is_ok());
    ASSERT_TRUE((*file)->close().is_ok());
  }

  FileSystem& files_ = real_file_system();
  std::string root_;
};

TEST_F(RealFileSystemTest, WritesReadsMapsAndContinues) {
  write("a", "hello");
  EXPECT_EQ(files_.read(path("a")).value(), "hello");
  EXPECT_EQ(files_.file_bytes(path("a")).value(), 5u);
  auto more = files_.open_append(path("a"));
  ASSERT_TRUE(more.is_ok());
  ASSERT_TRUE((*more)->append(std::string_view(" world")).is_ok());
  ASSERT_TRUE((*more)->close().is_ok());
  const auto mapping = files_.map(path("a"));
  ASSERT_TRUE(mapping.is_ok());
  const auto bytes = (*mapping)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "hello world");
  write("a", "anew");
  EXPECT_EQ(files_.read(path("a")).value(), "anew");
}

TEST_F(RealFileSystemTest, RefusesToMapWhatIsNoRegularFileAndDoesNotWait) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& special : {path("pipe"), std::string("/dev/zero")}) {
    const auto mapping = files_.map(special);
    ASSERT_FALSE(mapping.is_ok()) << special;
    EXPECT_EQ(mapping.status().code(), Code::kData);
    EXPECT_NE(mapping.status().message().find(special + ": it is a pipe"), std::string::npos);
  }
}

TEST_F(RealFileSystemTest, DirectoryHasOneLockHolderAtATime) {
  auto first = files_.lock_directory(root_);
  ASSERT_TRUE(first.is_ok()) << first.status().message();
  ASSERT_NE(*first, nullptr);
  const auto second = files_.lock_directory(root_);
  ASSERT_FALSE(second.is_ok());
  EXPECT_EQ(second.status().code(), Code::kUsage);
  first.value().reset();
  EXPECT_TRUE(files_.lock_directory(root_).is_ok());
  EXPECT_EQ(files_.lock_directory(path("absent")).status().code(), Code::kIo);
}

TEST_F(RealFileSystemTest, MapsAnEmptyFile) {
  write("empty", "");
  const auto mapping = files_.map(path("empty"));
  ASSERT_TRUE(mapping.is_ok()) << mapping.status().message();
  EXPECT_TRUE((*mapping)->bytes().empty());
}

TEST_F(RealFileSystemTest, ReleasedBytesStayReadable) {
  const std::string content(100000, 'x');
  write("big", content);
  const auto mapping = files_.map(path("big"));
  ASSERT_TRUE(mapping.is_ok());
  const auto bytes = (*mapping)->bytes();
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 100000}, {1, 2}, {5000, 99999}, {7, 7}}) {
    (*mapping)->release(begin, end);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), content);
  }
}

TEST_F(RealFileSystemTest, ErrorsNameThePathAndTheReason) {
  for (const Status& status :
       {files_.read(path("none")).status(), files_.map(path("none")).status(),
        files_.file_bytes(path("none")).status(), files_.list(path("none")).status(),
        files_.truncate(path("none"), 0), files_.sync_directory(path("none")),
        files_.create(path("none/x")).status(), files_.rename(path("none"), path("y"))}) {
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_NE(status.message().find(path("none")), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("No such file or directory"), std::string::npos) << status.message();
  }
}

TEST_F(RealFileSystemTest, DirectoriesAreNoFiles) {
  for (const Status& status :
       {files_.read(root_).status(), files_.map(root_).status(), files_.create(root_).status()}) {
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_NE(status.message().find("Is a directory"), std::string::npos) << status.message();
  }
}

TEST_F(RealFileSystemTest, AFileInTheWayOfADirectoryIsNamed) {
  write("file", "x");
  const Status status = files_.create_directories(path("file/inner"));
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("Not a directory"), std::string::npos) << status.message();
}

TEST_F(RealFileSystemTest, AFullDiskHasAHint) {
  if (!files_.exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  auto file = files_.open_append("/dev/full");
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  const Status status = (*file)->append(std::string_view("x"));
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "cannot write /dev/full: No space left on device");
  EXPECT_NE(status.hint().find("--out-dir"), std::string::npos);
}

TEST_F(RealFileSystemTest, AForbiddenPlaceHasAHint) {
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  ASSERT_EQ(::chmod(root_.c_str(), 0555), 0);
  // Root may do anything.
  if (self == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const Status status = files_.create(path("a")).status();
  if (self == 0) {
    ASSERT_EQ(::seteuid(self), 0);
  }
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  EXPECT_EQ(status.message(), "cannot create " + path("a") + ": Permission denied");
  EXPECT_EQ(status.hint(), "check who owns it, or choose another place");
}

TEST_F(RealFileSystemTest, ReadRefusesWhatIsLargerThanAllowed) {
  write("a", "12345");
  EXPECT_EQ(files_.read(path("a"), 5).value(), "12345");
  const auto refused = files_.read(path("a"), 4);
  EXPECT_EQ(refused.status().code(), Code::kData);
  EXPECT_EQ(refused.status().message(), "cannot read " + path("a") + ": larger than 4 bytes");
}

TEST_F(RealFileSystemTest, ListsRenamesTruncatesRemoves) {
  ASSERT_TRUE(files_.create_directories(path("d/e")).is_ok());
  ASSERT_TRUE(files_.create_directories(path("d/e")).is_ok());  // again: fine
  write("d/z", "zzz");
  write("d/a", "aaa");
  EXPECT_EQ(files_.list(path("d")).value(), (std::vector<std::string>{"a", "e", "z"}));
  EXPECT_TRUE(files_.is_directory(path("d/e")));
  EXPECT_FALSE(files_.is_directory(path("d/a")));
  ASSERT_TRUE(files_.truncate(path("d/a"), 1).is_ok());
  EXPECT_EQ(files_.read(path("d/a")).value(), "a");
  ASSERT_TRUE(files_.rename(path("d/a"), path("d/z")).is_ok());
  EXPECT_EQ(files_.read(path("d/z")).value(), "a");
  EXPECT_TRUE(files_.sync_directory(path("d")).is_ok());
  ASSERT_TRUE(files_.remove_all(path("d")).is_ok());
  EXPECT_FALSE(files_.exists(path("d")));
  EXPECT_TRUE(files_.remove_all(path("d")).is_ok());  // absent: fine
}

TEST_F(RealFileSystemTest, AtomicWriteLeavesOnlyTheFile) {
  ASSERT_TRUE(write_file_atomically(files_, path("a"), "one").is_ok());
  ASSERT_TRUE(write_file_atomically(files_, path("a"), "two").is_ok());
  EXPECT_EQ(files_.list(root_).value(), std::vector<std::string>{"a"});
  EXPECT_EQ(files_.read(path("a")).value(), "two");
}

TEST(ParentDirectory, OfEveryKindOfPath) {
  EXPECT_EQ(parent_directory("a"), ".");
  EXPECT_EQ(parent_directory("a/b"), "a");
  EXPECT_EQ(parent_directory("a/b/"), "a");
  EXPECT_EQ(parent_directory("/a"), "/");
  EXPECT_EQ(parent_directory("/a/b"), "/a");
}

TEST(WriteFileAtomically, AtEveryFailureAndCrashTheOldContentOrTheNew) {
  using testing::Fault;
  using testing::FaultFileSystem;
  const std::string old_content = "the old content", new_content = "something new and longer";
  int64_t operations = 0;
  {
    FaultFileSystem files;
    ASSERT_TRUE(write_file_atomically(files, "f", old_content).is_ok());
    operations = files.operations();
  }
  ASSERT_GE(operations, 6);
  for (int64_t n = 0; n < operations; ++n) {
    for (const Fault fault : {Fault::kIoError, Fault::kNoSpace, Fault::kShortWrite}) {
      FaultFileSystem files;
      ASSERT_TRUE(write_file_atomically(files, "f", old_content).is_ok());
      files.fail_at(operations + n, fault);
      const Status status = write_file_atomically(files, "f", new_content);
      EXPECT_FALSE(status.is_ok()) << "operation " << n;
      const std::string content = files.content("f").value_or("");
      EXPECT_TRUE(content == old_content || content == new_content) << content;
      EXPECT_EQ(files.paths(), std::vector<std::string>{"f"}) << "operation " << n;
    }
    for (uint64_t seed = 0; seed < 20; ++seed) {
      FaultFileSystem files;
      ASSERT_TRUE(write_file_atomically(files, "f", old_content).is_ok());
      files.crash_at(operations + n);
      EXPECT_FALSE(write_file_atomically(files, "f", new_content).is_ok());
      files.restart(seed);
      const std::string content = files.content("f").value_or("");
      EXPECT_TRUE(content == old_content || content == new_content) << content << " seed " << seed;
    }
  }
  // Once it has returned, the new content stays.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FaultFileSystem files;
    ASSERT_TRUE(write_file_atomically(files, "f", old_content).is_ok());
    ASSERT_TRUE(write_file_atomically(files, "f", new_content).is_ok());
    files.restart(seed);
    EXPECT_EQ(files.content("f"), new_content);
  }
}

TEST(CreateDirectoriesDurably, SurvivesACrashWhereThePlainOneDoesNot) {
  int plain_lost = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    testing::FaultFileSystem files;
    ASSERT_TRUE(create_directories_durably(files, "a/b/c").is_ok());
    ASSERT_TRUE(files.create_directories("x/y").is_ok());
    files.restart(seed);
    EXPECT_TRUE(files.is_directory("a/b/c"));
    plain_lost += files.is_directory("x/y") ? 0 : 1;
  }
  EXPECT_GT(plain_lost, 0);
}

}  // namespace
}  // namespace lockstep
