#include "data/builtin_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/hash.h"
#include "data/testing/scratch.h"

namespace lockstep {
namespace {

// If this fails, somebody froze another text and forgot a file, or the asset was damaged.
TEST(BuiltinText, IsTheFrozenOne) {
  std::istringstream recorded(testing::read_file(LOCKSTEP_SOURCE_DIR "/src/data/builtin_text.sha256"));
  std::string sha256;
  size_t bytes = 0;
  recorded >> sha256 >> bytes;
  const std::string text = builtin_text();
  EXPECT_EQ(text.size(), bytes);
  EXPECT_EQ(sha256_hex(text), sha256);
  EXPECT_EQ(builtin_text(), text);
}

TEST(BuiltinText, IsPlainAscii) {
  const std::string text = builtin_text();
  EXPECT_TRUE(
      std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

}  // namespace
}  // namespace lockstep
