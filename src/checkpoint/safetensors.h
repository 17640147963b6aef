// safetensors: an 8-byte little-endian header length, that many bytes of JSON, then raw little-endian
// tensors. Byte-level description: docs/formats/safetensors.md.
//
// Reading validates everything before a tensor is handed out: the header is at most 100 MB and read without
// recursion or a document tree, tensors lie end to end without holes or overlaps, sizes equal shape times
// type, names are unique. Anything else is kData; no bytes can crash or allocate more than the header's size
// times a small factor. Writing produces the bytes that the reference writer (the Rust crate) produces.
// Element types that lockstep has no use for (F64, U8, BOOL, F8…) are refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

enum class ElementType : uint8_t { kF32, kBf16, kF16, kI32, kI64 };

/// "F32", "BF16", "F16", "I32" or "I64", as in the header.
std::string_view element_type_name(ElementType type);
size_t element_bytes(ElementType type);
/// "(65, 128)"; "()" for a scalar.
std::string format_shape(std::span<const int64_t> shape);

struct TensorEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;        ///< empty: a scalar
  std::span<const std::byte> bytes;  ///< in a file that was read: aligned as the file's layout happens to be
};

/// A parsed file; entries point into the mapping, which lives as long as the object and its copies.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(FileSystem& files, const std::string& path);
  /// The same for a mapping that the caller has already verified.
  static Result<SafetensorsFile> from_mapping(std::shared_ptr<MappedFile> mapping, const std::string& path);
  /// For fuzzing and tests: bytes must outlive the object. `path` is for messages.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& path);

  /// In the order of their bytes.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Hint that these bytes, a part of an entry's, have been used (MappedFile::release).
  void release(std::span<const std::byte> used) const;

 private:
  std::shared_ptr<MappedFile> mapping_;
  std::span<const std::byte> bytes_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, size_t, std::less<>> index_;  ///< name -> position in entries_
  std::map<std::string, std::string> metadata_;
};

/// What write_safetensors wrote.
struct WrittenFile {
  uint64_t bytes = 0;
  std::string xxh3_128;  ///< of the whole file, computed on the way
};

/// Writes entries sorted by descending alignment, then name, with "__metadata__": {"format": "pt"}, straight
/// from their memory in pieces. Not atomic by itself; the file is synced and closed when it returns (its name
/// is not: that takes sync_directory). On failure a part of the file may be left behind.
Result<WrittenFile> write_safetensors(FileSystem& files, const std::string& path,
                                      std::vector<TensorEntry> entries);

}  // namespace lockstep
