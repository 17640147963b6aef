#include "data/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "data/testing/scratch.h"

namespace lockstep {
namespace {

// An independent statement of what is legal: encode every code point, and compare sets of byte strings.
TEST(Utf8, EveryCodePointAndNothingElseUpToThreeBytes) {
  std::vector<bool> legal3(size_t{1} << 24);
  for (char32_t code = 0; code < 0x10000; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(code, text);
    const Utf8Step step = utf8_step(text, 0);
    ASSERT_EQ(step.code_point, code);
    ASSERT_EQ(step.bytes, text.size());
    if (text.size() == 3)
      legal3[static_cast<size_t>(static_cast<unsigned char>(text[0])) << 16 |
             static_cast<size_t>(static_cast<unsigned char>(text[1])) << 8 |
             static_cast<unsigned char>(text[2])] = true;
  }
  for (uint32_t packed = 0xE00000; packed < 0xF00000; ++packed) {
    const std::string text = {static_cast<char>(packed >> 16), static_cast<char>(packed >> 8),
                              static_cast<char>(packed)};
    ASSERT_EQ(utf8_step(text, 0).bytes == 3, legal3[packed]) << std::hex << packed;
  }
}

TEST(Utf8, FourBytesRoundTrip) {
  for (char32_t code = 0x10000; code <= 0x10FFFF; ++code) {
    std::string text;
    append_utf8(code, text);
    const Utf8Step step = utf8_step(text, 0);
    ASSERT_EQ(step.bytes, 4u);
    ASSERT_EQ(step.code_point, code);
  }
}

TEST(Utf8, WhatHasNoUtf8BecomesTheReplacementCharacter) {
  for (const char32_t code : {char32_t{0xD800}, char32_t{0xDFFF}, char32_t{0x110000}}) {
    std::string text;
    append_utf8(code, text);
    EXPECT_EQ(text, "\xEF\xBF\xBD");
  }
}

TEST(Utf8, ErrorsNameOffsetLineAndReason) {
  struct Case {
    std::string bytes;
    std::string reason;
  };
  const Case cases[] = {{"\x80", "a continuation byte without a leading byte"},
                        {"\xC0\x80", "an overlong form of an ASCII character"},
                        {"\xC1\xBF", "an overlong form of an ASCII character"},
                        {"\xE0\x80\x80", "an overlong form of 3 bytes"},
                        {"\xE0\x9F\xBF", "an overlong form of 3 bytes"},
                        {"\xF0\x8F\xBF\xBF", "an overlong form of 4 bytes"},
                        {"\xED\xA0\x80", "a surrogate"},
                        {"\xED\xBF\xBF", "a surrogate"},
                        {"\xF4\x90\x80\x80", "a code point above U+10FFFF"},
                        {"\xF5\x80\x80\x80", "a byte that never occurs in UTF-8"},
                        {"\xFF", "a byte that never occurs in UTF-8"},
                        {"\xC3", "2 bytes that is cut short by the end"},
                        {"\xE4\xBD", "3 bytes that is cut short by the end"},
                        {"\xF0\x9F\x8C", "4 bytes that is cut short by the end"},
                        {"\xC3(", "2 bytes whose byte 2 is 0x28"},
                        {"\xF0\x9F\x8C(", "4 bytes whose byte 4 is 0x28"}};
  for (const Case& c : cases) {
    testing::expect_error(count_characters("one\ntwo\n\xC3\xA9" + c.bytes).status(), Code::kData,
                          {"byte offset 10", "line 3", c.reason, "iconv"});
  }
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(*count_characters(""), 0);
  EXPECT_EQ(*count_characters("\xEF\xBB\xBF"
                              "a\r\n\xF0\x9F\x8C\x8D"),
            5);  // a byte order mark counts
}

TEST(Utf8, DescribesCharacters) {
  EXPECT_EQ(describe_character('a'), "'a' (U+0061)");
  EXPECT_EQ(describe_character('\n'), "U+000A");
  EXPECT_EQ(describe_character(0x1F30D), "'\xF0\x9F\x8C\x8D' (U+1F30D)");
}

}  // namespace
}  // namespace lockstep
