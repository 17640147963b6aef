// Strict UTF-8 (RFC 3629, table 3-7 of the Unicode standard): overlong forms, surrogates, code points above
// U+10FFFF, stray continuation bytes and sequences cut short are errors; nothing is replaced or skipped. A
// byte order mark is a character like any other, and line ends stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

/// One character and how many bytes it takes; bytes = 0: the text is broken here.
struct Utf8Step {
  char32_t code_point = 0;
  size_t bytes = 0;
};

/// The character at `offset`, which must be below text.size().
inline Utf8Step utf8_step(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[offset + i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() - offset < length) return {};
  char32_t code = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return {};
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

/// The number of characters; kData naming the byte offset, the line and the reason when the text is broken.
Result<int64_t> count_characters(std::string_view text);

/// Why the bytes at `offset`, where utf8_step failed, are no character; kData.
Status utf8_error(std::string_view text, size_t offset);

/// Appends the character. Code points that have no UTF-8 (surrogates, above U+10FFFF) become U+FFFD.
void append_utf8(char32_t code_point, std::string& text);

/// For messages: 'a' (U+0061), or U+000A alone when it cannot be shown.
std::string describe_character(char32_t code_point);

}  // namespace lockstep
