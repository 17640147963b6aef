#include "data/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

std::string reason_of(std::string_view text, size_t offset) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(offset);
  if (first >= 0x80 && first < 0xC0) return "a continuation byte without a leading byte";
  if (first == 0xC0 || first == 0xC1) return "an overlong form of an ASCII character";
  if (first >= 0xF5) return "a byte that never occurs in UTF-8";
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (offset + i == text.size())
      return fmt::format("a character of {} bytes that is cut short by the end of the text", length);
    if ((at(offset + i) & 0xC0u) != 0x80u)
      return fmt::format("a character of {} bytes whose byte {} is 0x{:02x}", length, i + 1, at(offset + i));
  }
  if (first == 0xED) return "a surrogate (U+D800 to U+DFFF)";
  if (first == 0xF4) return "a code point above U+10FFFF";
  return fmt::format("an overlong form of {} bytes", length);
}

}  // namespace

Result<int64_t> count_characters(std::string_view text) {
  int64_t count = 0;
  for (size_t offset = 0; offset < text.size(); ++count) {
    const Utf8Step step = utf8_step(text, offset);
    if (step.bytes == 0) return utf8_error(text, offset);
    offset += step.bytes;
  }
  return count;
}

Status utf8_error(std::string_view text, size_t offset) {
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(offset), '\n');
  Status status(Code::kData,
                fmt::format("not valid UTF-8 at byte offset {} (line {}): byte 0x{:02x} begins {}", offset,
                            line, static_cast<unsigned char>(text[offset]), reason_of(text, offset)));
  return std::move(status).with_hint(
      "convert the text, for example `iconv -f LATIN1 -t UTF-8 OLD > NEW` if it is in Latin-1");
}

void append_utf8(char32_t code_point, std::string& text) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  uint32_t code = code_point;
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0u | (code >> 6));
    put(0x80u | (code & 0x3Fu));
  } else if (code < 0x10000) {
    put(0xE0u | (code >> 12));
    put(0x80u | ((code >> 6) & 0x3Fu));
    put(0x80u | (code & 0x3Fu));
  } else {
    put(0xF0u | (code >> 18));
    put(0x80u | ((code >> 12) & 0x3Fu));
    put(0x80u | ((code >> 6) & 0x3Fu));
    put(0x80u | (code & 0x3Fu));
  }
}

std::string describe_character(char32_t code_point) {
  const auto code = static_cast<uint32_t>(code_point);
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  if (control) return fmt::format("U+{:04X}", code);
  std::string shown;
  append_utf8(code_point, shown);
  return fmt::format("'{}' (U+{:04X})", shown, code);
}

}  // namespace lockstep
