// What stands beside train.bin and val.bin: our meta.json, or nanoGPT's meta.pkl (docs/formats/tokens.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/status.h"
#include "data/tokenizer.h"

namespace lockstep {

inline constexpr uint64_t kMetaBytesMax = uint64_t{1} << 24;

struct Meta {
  int64_t vocab_size = 0;                    ///< 1 to 65,536; may be more than the tokenizer's (padding)
  std::optional<CharTokenizer> tokenizer;    ///< absent when the table is, or has more than characters in it
  int64_t train_tokens = 0, val_tokens = 0;  ///< 0: not told
  std::string train_sha256, val_sha256;      ///< empty: not told
};

/// meta.json if it is there, else meta.pkl, else nothing. kData naming the file and what is wrong in it.
Result<std::optional<Meta>> read_meta(FileSystem& files, const std::string& directory);

Result<Meta> parse_meta_json(std::string_view text);
std::string meta_json(const Meta& meta);

}  // namespace lockstep
