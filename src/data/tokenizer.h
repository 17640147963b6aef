// The character tokenizer: sorted unique code points to ids. For tinyshakespeare: 65 ids, "\n" = 0 … "z"
// = 64.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep {

class CharTokenizer {
 public:
  /// From any valid UTF-8; kData when it is broken (names the byte offset), empty, or has over 65,536
  /// characters kinds.
  static Result<CharTokenizer> from_text(std::string_view text);
  /// From a table id -> code point (meta.json, meta.pkl). kData on duplicates or an empty table.
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
  std::map<char32_t, uint16_t> ids_;
};

}  // namespace lockstep
