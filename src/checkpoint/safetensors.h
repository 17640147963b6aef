// safetensors: an 8-byte little-endian header length, that many bytes of JSON, then raw little-endian
// tensors. Reading validates everything before any memory is taken: header at most 100 MB, no holes, overlaps
// or duplicate keys, sizes equal to shape times type. Byte-level description: docs/formats/safetensors.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

enum class ElementType : uint8_t { kF32, kBf16, kF16, kI32, kI64 };

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;
};

/// A parsed file; entries point into the mapping.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(FileSystem& files, const std::string& path);
  /// For fuzzing and tests: bytes must outlive the object.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& path);

  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::shared_ptr<MappedFile> mapping_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Writes entries sorted by descending alignment, then name, with "__metadata__": {"format": "pt"}; returns
/// the file's SHA-256. Not atomic by itself; syncs before it returns.
Result<std::string> write_safetensors(FileSystem& files, const std::string& path,
                                      std::vector<TensorEntry> entries);

}  // namespace lockstep
