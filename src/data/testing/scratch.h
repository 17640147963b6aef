// For the tests of this module: scratch folders, files, and what an error must say.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"

namespace lockstep::testing {

/// A folder of this test's own, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep_data_XXXXXX").string();
    const char* made = ::mkdtemp(pattern.data());
    if (made == nullptr) ADD_FAILURE() << "cannot make a scratch folder";
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }
  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// The error has this code and every one of these pieces, in its message or its hint.
inline void expect_error(const Status& status, Code code, std::initializer_list<std::string_view> pieces) {
  ASSERT_FALSE(status.is_ok());
  EXPECT_EQ(status.code(), code) << status.message();
  const std::string all = status.message() + "\n  hint: " + status.hint();
  for (const std::string_view piece : pieces)
    EXPECT_NE(all.find(piece), std::string::npos) << "\"" << piece << "\" is not in: " << all;
}

}  // namespace lockstep::testing
