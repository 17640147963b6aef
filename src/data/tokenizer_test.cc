#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"
#include "data/testing/scratch.h"
#include "data/utf8.h"

namespace lockstep {
namespace {

using testing::expect_error;

TEST(CharTokenizer, IdsAreTheRanksOfTheCodePoints) {
  const CharTokenizer tokenizer = *CharTokenizer::from_text("b\xC3\xA9\na a");
  EXPECT_EQ(tokenizer.code_points(), (std::vector<char32_t>{'\n', ' ', 'a', 'b', 0xE9}));
  EXPECT_EQ(*tokenizer.encode("ab \xC3\xA9"), (std::vector<uint16_t>{2, 3, 1, 4}));
  EXPECT_EQ(tokenizer.decode({4, 0, 3}), "\xC3\xA9\nb");
  EXPECT_EQ(tokenizer.decode_one(2), "a");
  EXPECT_TRUE(tokenizer.encode("")->empty());
}

TEST(CharTokenizer, IdsOutOfRangeBecomeTheReplacementCharacter) {
  const CharTokenizer tokenizer = *CharTokenizer::from_text("ab");
  EXPECT_EQ(tokenizer.decode({0, 2, 65535, 1}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(CharTokenizer, RandomTextsComeBack) {
  const RandomStream random(1, Purpose::kTest);
  std::set<int64_t> sizes;
  for (uint64_t round = 0; round < 50; ++round) {
    std::string text;
    for (uint64_t i = 0; i < 300; ++i) {
      // Code points of every length, with a bias to repeat.
      const uint64_t range = uint64_t{1} << (7 + random.below(1000 * round + 2 * i, 14));
      append_utf8(static_cast<char32_t>(random.below(1000 * round + 2 * i + 1, range)), text);
    }
    const CharTokenizer tokenizer = *CharTokenizer::from_text(text);
    const auto ids = *tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    EXPECT_EQ(static_cast<int64_t>(ids.size()), *count_characters(text));
    const CharTokenizer again = *CharTokenizer::from_code_points(tokenizer.code_points());
    EXPECT_EQ(*again.encode(text), ids);
    sizes.insert(tokenizer.vocab_size());
  }
  EXPECT_GT(sizes.size(), 5u);
}

TEST(CharTokenizer, AByteOrderMarkAndCarriageReturnsAreKept) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a\r\n";
  const CharTokenizer tokenizer = *CharTokenizer::from_text(text);
  EXPECT_EQ(tokenizer.vocab_size(), 4);
  EXPECT_EQ(tokenizer.decode(*tokenizer.encode(text)), text);
}

TEST(CharTokenizer, TablesNeedNotBeSorted) {
  const CharTokenizer tokenizer = *CharTokenizer::from_code_points({'z', 'a', 0x10FFFF});
  EXPECT_EQ(*tokenizer.encode("az"), (std::vector<uint16_t>{1, 0}));
}

TEST(CharTokenizer, TheLargestVocabulary) {
  std::vector<char32_t> table;
  for (char32_t code = 0x10000; table.size() < 65535; ++code) table.push_back(code);
  const CharTokenizer tokenizer = *CharTokenizer::from_code_points(table);
  std::string last;
  append_utf8(table.back(), last);
  EXPECT_EQ(tokenizer.encode(last)->at(0), 65534);
  table.push_back('a');
  expect_error(CharTokenizer::from_code_points(table).status(), Code::kData,
               {"65536 distinct characters", "at most 65535", "smaller or cleaner"});
}

TEST(CharTokenizer, Errors) {
  expect_error(CharTokenizer::from_text("").status(), Code::kData, {"the text is empty", "give a text"});
  expect_error(CharTokenizer::from_text("ab\xFF").status(), Code::kData, {"byte offset 2", "0xff"});
  expect_error(CharTokenizer::from_code_points({}).status(), Code::kData, {"table of characters is empty"});
  expect_error(CharTokenizer::from_code_points({'a', 'b', 'a'}).status(), Code::kData,
               {"ids 0 and 2", "'a' (U+0061)"});
  expect_error(CharTokenizer::from_code_points({'a', 0xD800}).status(), Code::kData, {"id 1", "U+D800"});
  expect_error(CharTokenizer::from_code_points({0xFFFFFFFF}).status(), Code::kData, {"id 0", "U+FFFFFFFF"});
  const CharTokenizer tokenizer = *CharTokenizer::from_text("ab\xC3\xA9");
  expect_error(tokenizer
                   .encode("a\xC3\xA9"
                           "c")
                   .status(),
               Code::kData, {"character 3", "byte offset 3", "'c' (U+0063)", "3 characters", "leave it out"});
  expect_error(tokenizer.encode("a\xF0\x9F\x8C\x8D").status(), Code::kData, {"character 2", "U+1F30D"});
  expect_error(tokenizer.encode("a\xC3").status(), Code::kData, {"not valid UTF-8 at byte offset 1"});
  expect_error(tokenizer.encode("a\x80\x80\x80").status(), Code::kData, {"byte offset 1"});
}

}  // namespace
}  // namespace lockstep
