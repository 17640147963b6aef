// The seam to the file system. Production code reaches files only through a FileSystem&, so that tests can
// fail the N-th operation, fill the disk, or lose what was not synced (base/testing/fault_file_system.h).
//
// Every operation returns a Status whose message names the path and the system's reason. Methods may be
// called from any thread; one WritableFile belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep {

/// An open file being written. Destroying it without close() closes it and ignores errors.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// fsync: the content survives a crash of the machine (the name needs sync_directory as well).
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

/// A whole file mapped read-only; the bytes live as long as the object.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  /// Hint: bytes [begin, end) will not be read again soon. They stay valid; the process merely stops keeping
  /// their pages, so that reading a large file front to back needs little resident memory.
  virtual void release(size_t begin, size_t end) const {
    static_cast<void>(begin);
    static_cast<void>(end);
  }
};

/// Held while the object lives, and given back by the system however the process ends.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Creates or truncates.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  /// Creates or continues at the end.
  virtual Result<std::unique_ptr<WritableFile>> open_append(const std::string& path) = 0;
  /// Regular files only: a pipe or a device is kData, and never waits for a writer.
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  /// Whole content; `bytes_max` guards against absurd files (kData when larger).
  virtual Result<std::string> read(const std::string& path, uint64_t bytes_max = uint64_t{1} << 30) = 0;
  /// Atomic replacement of a file or of an empty name by a directory.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, or a directory with all it holds. Ok when absent.
  virtual Status remove_all(const std::string& path) = 0;
  virtual Status create_directories(const std::string& path) = 0;
  /// fsync of a directory: names created or renamed in it survive a crash.
  virtual Status sync_directory(const std::string& path) = 0;
  /// Cuts a file to `bytes`.
  virtual Status truncate(const std::string& path, uint64_t bytes) = 0;
  /// Names (no paths) in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  virtual Result<uint64_t> file_bytes(const std::string& path) = 0;
  /// At most one holder per directory on this machine; kUsage while there is another. Where the file system
  /// cannot lock, the result is null and nothing is guarded.
  virtual Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path);
};

/// The operating system's file system; one for the process.
FileSystem& real_file_system();

/// create_directories whose names survive a crash: every directory that was missing is synced into its
/// parent.
Status create_directories_durably(FileSystem& files, const std::string& path);

/// The directory that holds `path`: "." for a bare name, "/" for a name in the root.
std::string parent_directory(std::string_view path);

/// Writes `path` so that a reader sees the old content or the new, never a part: temporary name beside it,
/// sync, rename, sync of the directory.
Status write_file_atomically(FileSystem& files, const std::string& path, std::string_view content);

}  // namespace lockstep
