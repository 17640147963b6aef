// A file system in memory that fails where a test wants it to, and forgets at a crash what was not synced.
//
// Everything exists twice: as programs see it, and as the disk would show it after a power cut. Appended
// bytes reach the disk by WritableFile::sync(); names (created, renamed, removed) by sync_directory() of the
// directory that holds them. Nothing reaches it otherwise, so code that forgets one sync is found. At a crash
// each directory keeps a random number of its oldest unsynced name changes, and each file none, some or all
// of the bytes appended since its last sync, at times with a torn tail of zeros: all by the seed given.
//
// Operations are counted from 0 by one counter, those of open files included; exists() and is_directory()
// cannot fail and do not count. Paths are taken literally ("a/b", no "..", "." is the root of relative
// paths). Any thread may call; one lock guards everything.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace lockstep::testing {

enum class Fault : uint8_t {
  kIoError,    ///< the operation does nothing and returns "Input/output error"
  kNoSpace,    ///< the operation does nothing and returns "No space left on device"
  kShortWrite  ///< an append takes a part of the bytes, then "No space left on device"; others as kNoSpace
};

class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem();
  ~FaultFileSystem() override;

  /// Makes operation number `operation` fail; with keep_failing all later ones that need space (create,
  /// append, sync, create_directories) as well, as on a disk that stays full.
  void fail_at(int64_t operation, Fault fault, bool keep_failing = false);
  /// From operation number `operation` on the machine is off: nothing happens, everything fails.
  void crash_at(int64_t operation);
  /// Power comes back: what was not synced is gone as far as `seed` says; open files stay dead, faults are
  /// cleared. Also usable without crash_at.
  void restart(uint64_t seed);
  /// Clears faults without losing anything.
  void clear_faults();

  /// Lets lock_directory find another holder.
  void set_locked_elsewhere(bool locked) { locked_elsewhere_ = locked; }

  /// Operations so far = the number of the next one.
  int64_t operations() const;
  /// What the operations were, for messages: "append out/x (12 bytes)".
  std::vector<std::string> trace() const;

  /// Replaces a file's content on the disk behind everybody's back (bit rot).
  void overwrite(const std::string& path, std::string_view content);
  /// Content as programs see it; nothing when there is no such file. Does not count.
  std::optional<std::string> content(const std::string& path) const;
  /// All paths as programs see them, sorted. Does not count.
  std::vector<std::string> paths() const;

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> open_append(const std::string& path) override;
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override;
  Result<std::string> read(const std::string& path, uint64_t bytes_max) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_all(const std::string& path) override;
  Status create_directories(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Status truncate(const std::string& path, uint64_t bytes) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  Result<uint64_t> file_bytes(const std::string& path) override;
  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override;

 private:
  class File;
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  /// One change of a directory's names. A rename within it changes two at once.
  struct NameChange {
    std::string name;
    NodePtr node;  ///< null: removed
    std::string also_removed;
  };
  /// A file or a directory; which one never changes.
  struct Node {
    bool directory = false;
    std::string content, synced_content;
    Names names, synced_names;
    std::vector<NameChange> unsynced;
  };

  Status begin(std::string what, const std::string& path, bool needs_space = false);
  Status cannot(std::string_view attempt, const std::string& path, std::string_view cause) const;
  NodePtr find(const std::string& path) const;
  /// The directory that holds path's last name, and that name.
  std::pair<NodePtr, std::string> find_parent(const std::string& path) const;
  static void change(Node& directory, NameChange change);
  static void apply(Names& names, const NameChange& change);
  void forget(Node& node, uint64_t seed, uint64_t& counter);
  Result<std::unique_ptr<WritableFile>> open_file(const std::string& path, bool empty,
                                                  const std::string& attempt);

  mutable std::mutex mutex_;
  NodePtr root_;
  int64_t operations_ = 0;
  int64_t power_cycles_ = 0;  ///< files opened before the last restart are dead
  std::optional<int64_t> fail_at_, crash_at_;
  Fault fault_ = Fault::kIoError;
  bool keep_failing_ = false;
  bool locked_elsewhere_ = false;
  std::vector<std::string> trace_;
};

}  // namespace lockstep::testing
