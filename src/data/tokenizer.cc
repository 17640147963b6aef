#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/utf8.h"

namespace lockstep {
namespace {

constexpr size_t kCodePoints = 0x110000;

bool is_character(char32_t code) {
  return code < kCodePoints && !(code >= 0xD800 && code <= 0xDFFF);
}

}  // namespace

Result<CharTokenizer> CharTokenizer::from_text(std::string_view text) {
  if (text.empty())
    return Status(Code::kData, "cannot make a vocabulary: the text is empty")
        .with_hint("give a text with something in it");
  std::vector<bool> seen(128);  // grows to the largest code point there is
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    if (step.bytes == 0) return utf8_error(text, offset);
    if (step.code_point >= seen.size()) seen.resize(size_t{step.code_point} + 1);
    seen[step.code_point] = true;
    offset += step.bytes;
  }
  std::vector<char32_t> code_points;
  for (size_t code = 0; code < seen.size(); ++code)
    if (seen[code]) code_points.push_back(static_cast<char32_t>(code));
  return from_code_points(std::move(code_points));
}

Result<CharTokenizer> CharTokenizer::from_code_points(std::vector<char32_t> code_points) {
  if (code_points.empty())
    return Status(Code::kData, "cannot make a vocabulary: its table of characters is empty");
  if (static_cast<int64_t>(code_points.size()) > kVocabSizeMax)
    return Status(Code::kData, fmt::format("cannot make a vocabulary of {} distinct characters: ids are 16 "
                                           "bits wide, so there can be at most {}",
                                           code_points.size(), kVocabSizeMax))
        .with_hint("this does not look like text of one language; give a smaller or cleaner text");
  CharTokenizer tokenizer;
  tokenizer.id_plus_one_.resize(
      std::min<size_t>(kCodePoints, size_t{*std::max_element(code_points.begin(), code_points.end())} + 1));
  for (size_t id = 0; id < code_points.size(); ++id) {
    const char32_t code = code_points[id];
    if (!is_character(code))
      return Status(Code::kData, fmt::format("cannot make a vocabulary: id {} stands for U+{:04X}, which is "
                                             "no character",
                                             id, static_cast<uint32_t>(code)));
    uint16_t& slot = tokenizer.id_plus_one_[code];
    if (slot != 0)
      return Status(Code::kData, fmt::format("cannot make a vocabulary: ids {} and {} both stand for {}",
                                             slot - 1, id, describe_character(code)));
    slot = static_cast<uint16_t>(id + 1);
  }
  tokenizer.code_points_ = std::move(code_points);
  return tokenizer;
}

Result<std::vector<uint16_t>> CharTokenizer::encode(std::string_view text) const {
  // Each character has one byte that is no continuation byte, so this is how many ids there will be.
  const auto continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; };
  const auto characters =
      text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continuation));
  std::vector<uint16_t> ids(characters);
  size_t count = 0;
  for (size_t offset = 0; offset < text.size(); ++count) {
    const Utf8Step step = utf8_step(text, offset);
    if (step.bytes == 0) return utf8_error(text, offset);
    const uint16_t id_plus_one = step.code_point < id_plus_one_.size() ? id_plus_one_[step.code_point] : 0;
    if (id_plus_one == 0)
      return Status(Code::kData,
                    fmt::format("cannot encode the text: character {} (byte offset {}) is {}, which is not "
                                "among the vocabulary's {} characters",
                                count + 1, offset, describe_character(step.code_point), vocab_size()))
          .with_hint("leave it out, or train on a text that contains it");
    ids[count] = static_cast<uint16_t>(id_plus_one - 1);
    offset += step.bytes;
  }
  return ids;
}

std::string CharTokenizer::decode(const std::vector<uint16_t>& ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const uint16_t id : ids) append_utf8(id < code_points_.size() ? code_points_[id] : 0xFFFD, text);
  return text;
}

std::string CharTokenizer::decode_one(uint16_t id) const {
  return decode({id});
}

}  // namespace lockstep
