// The character tokenizer: the sorted distinct code points of a text, numbered from 0. For tinyshakespeare
// 65 ids, "\n" = 0 … "z" = 64.
//
// Both directions are tables: code point of an id, and id + 1 of a code point (0: not in the vocabulary;
// that is why there are at most 65,535 ids). Immutable after creation; any thread may use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep {

class CharTokenizer {
 public:
  static constexpr int64_t kVocabSizeMax = 65535;

  /// From any valid UTF-8; kData when it is broken (names the byte offset), empty, or has over kVocabSizeMax
  /// distinct characters.
  static Result<CharTokenizer> from_text(std::string_view text);
  /// From a table id -> code point (meta.json, meta.pkl). kData on duplicates, on what is no character, or
  /// when the table is empty or too long.
  static Result<CharTokenizer> from_code_points(std::vector<char32_t> code_points);

  int64_t vocab_size() const { return static_cast<int64_t>(code_points_.size()); }
  const std::vector<char32_t>& code_points() const { return code_points_; }

  /// kData naming the first character that the vocabulary lacks, with its position.
  Result<std::vector<uint16_t>> encode(std::string_view text) const;
  /// Ids out of range become U+FFFD.
  std::string decode(const std::vector<uint16_t>& ids) const;
  std::string decode_one(uint16_t id) const;

 private:
  std::vector<char32_t> code_points_;
  std::vector<uint16_t> id_plus_one_;  ///< by code point, up to the largest one
};

}  // namespace lockstep
