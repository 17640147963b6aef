// Token files: 16-bit ids of one split, little-endian, in one of two formats (docs/formats/tokens.md):
//   nanoGPT  nothing but ids
//   llm.c    a header of 256 int32: 20240520, 1, number of ids, zeros; then the ids
// The first four bytes decide. A file is mapped, never copied; its size must be right to the byte.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

enum class TokenFormat : uint8_t { kPlain, kHeaded };

inline constexpr uint32_t kTokenMagic = 20240520;
inline constexpr size_t kTokenHeaderBytes = 1024;

/// Checks the bytes of a token file and returns the ids in them; `bytes` must start at an even address. kData
/// when the file is empty, has an odd size, a size that its header contradicts, or 32-bit tokens.
Result<std::span<const uint16_t>> parse_token_file(std::span<const std::byte> bytes);
/// What parse_token_file goes by.
TokenFormat token_format(std::span<const std::byte> bytes);

struct TokenFile {
  std::shared_ptr<MappedFile> mapping;  ///< keeps ids alive
  TokenFormat format = TokenFormat::kPlain;
  std::span<const uint16_t> ids;
};

/// parse_token_file on a mapped file; the message names the path.
Result<TokenFile> open_token_file(FileSystem& files, const std::string& path);

/// Writes a temporary file beside `path`, syncs it, renames it: a reader that has the old content mapped
/// keeps it. kData when kHeaded cannot count the ids (2^31 or more).
Status write_token_file(FileSystem& files, const std::string& path, TokenFormat format,
                        std::span<const uint16_t> ids);

/// One walk over the ids: SHA-256 of their bytes (of the file, if that is nanoGPT's) and the largest.
struct TokenSummary {
  std::string sha256;
  uint16_t max_id = 0;
};
TokenSummary summarize_tokens(std::span<const uint16_t> ids);

}  // namespace lockstep
