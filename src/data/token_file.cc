#include "data/token_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are read and written in place");

constexpr uint32_t kWideTokenMagic = 20240801;  // llm.c's files for Llama 3: 32-bit tokens, version 7

uint32_t word_at(std::span<const std::byte> bytes, size_t index) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + 4 * index, 4);
  return word;
}

Status wrong(std::string reason, std::string hint) {
  return Status(Code::kData, std::move(reason)).with_hint(std::move(hint));
}

constexpr std::string_view kWriteAgain = "the file is cut short or damaged: write or copy it again";

std::span<const uint16_t> ids_in(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(std::bit_cast<uintptr_t>(bytes.data()) % alignof(uint16_t) == 0);
  return {static_cast<const uint16_t*>(static_cast<const void*>(bytes.data())), bytes.size() / 2};
}

Result<std::span<const uint16_t>> parse_headed(std::span<const std::byte> bytes) {
  if (bytes.size() < kTokenHeaderBytes)
    return wrong(fmt::format("a token file with a header of {} bytes, but it is {} bytes long",
                             kTokenHeaderBytes, bytes.size()),
                 std::string(kWriteAgain));
  if (const uint32_t version = word_at(bytes, 1); version != 1)
    return wrong(
        fmt::format("a token file of version {}; version 1 (16-bit tokens) is what is read", version),
        "write it again with a vocabulary of at most 65,536 tokens");
  const uint32_t count = word_at(bytes, 2);
  const uint64_t expected = kTokenHeaderBytes + 2 * uint64_t{count};
  if (bytes.size() != expected)
    return wrong(
        fmt::format("the header counts {} tokens, which makes a file of {} bytes, but it is {} bytes "
                    "long",
                    count, expected, bytes.size()),
        std::string(kWriteAgain));
  if (count == 0) return wrong("the file holds no tokens", "write it again from a text that is not empty");
  return ids_in(bytes.subspan(kTokenHeaderBytes));
}

Status write_ids(WritableFile& file, TokenFormat format, std::span<const uint16_t> ids) {
  if (format == TokenFormat::kHeaded) {
    std::array<uint32_t, kTokenHeaderBytes / 4> header{};
    header[0] = kTokenMagic;
    header[1] = 1;
    header[2] = static_cast<uint32_t>(ids.size());
    LOCKSTEP_TRY(file.append(std::as_bytes(std::span(header))));
  }
  LOCKSTEP_TRY(file.append(std::as_bytes(ids)));
  LOCKSTEP_TRY(file.sync());
  return file.close();
}

}  // namespace

TokenFormat token_format(std::span<const std::byte> bytes) {
  const bool headed =
      bytes.size() >= 4 && (word_at(bytes, 0) == kTokenMagic || word_at(bytes, 0) == kWideTokenMagic);
  return headed ? TokenFormat::kHeaded : TokenFormat::kPlain;
}

Result<std::span<const uint16_t>> parse_token_file(std::span<const std::byte> bytes) {
  if (bytes.empty()) return wrong("the file is empty", "write it again from a text that is not empty");
  if (bytes.size() >= 4 && word_at(bytes, 0) == kWideTokenMagic)
    return wrong(fmt::format("a token file with magic {} (32-bit tokens); 16-bit tokens are what is read",
                             kWideTokenMagic),
                 "write it again with a vocabulary of at most 65,536 tokens");
  if (token_format(bytes) == TokenFormat::kHeaded) return parse_headed(bytes);
  if (bytes.size() % 2 != 0)
    return wrong(fmt::format("{} bytes are no whole number of 16-bit tokens", bytes.size()),
                 std::string(kWriteAgain));
  return ids_in(bytes);
}

Result<TokenFile> open_token_file(FileSystem& files, const std::string& path) {
  LOCKSTEP_ASSIGN(std::unique_ptr<MappedFile> mapping, files.map(path));
  TokenFile file;
  file.mapping = std::move(mapping);
  file.format = token_format(file.mapping->bytes());
  Result<std::span<const uint16_t>> ids = parse_token_file(file.mapping->bytes());
  if (!ids.is_ok()) return std::move(ids).status().with_context("cannot read tokens from " + path);
  file.ids = ids.value();
  return file;
}

Status write_token_file(FileSystem& files, const std::string& path, TokenFormat format,
                        std::span<const uint16_t> ids) {
  if (format == TokenFormat::kHeaded && ids.size() > INT32_MAX)
    return wrong(fmt::format("cannot write {} tokens to {}: llm.c's header counts up to {}", ids.size(), path,
                             INT32_MAX),
                 "use nanoGPT's format, which has no header, or several files");
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  LOCKSTEP_ASSIGN(std::unique_ptr<WritableFile> file, files.create(temporary));
  Status status = write_ids(*file, format, ids);
  if (status.is_ok()) status = files.rename(temporary, path);
  if (!status.is_ok()) {
    (void)files.remove_all(temporary);  // the first error is the one to tell
    return status;
  }
  const size_t slash = path.find_last_of('/');
  return files.sync_directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
}

TokenSummary summarize_tokens(std::span<const uint16_t> ids) {
  constexpr size_t kPiece = size_t{1} << 16;  // 128 KB: still in the cache for the second reader
  Sha256 hash;
  TokenSummary summary;
  for (size_t begin = 0; begin < ids.size(); begin += kPiece) {
    const auto piece = ids.subspan(begin, std::min(kPiece, ids.size() - begin));
    hash.update(std::as_bytes(piece));
    for (const uint16_t id : piece) summary.max_id = std::max(summary.max_id, id);
  }
  summary.sha256 = hash.finish_hex();
  return summary;
}

}  // namespace lockstep
