#include "base/testing/fault_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace lockstep::testing {
namespace {

constexpr std::string_view kIoCause = "Input/output error";
constexpr std::string_view kSpaceCause = "No space left on device";
constexpr std::string_view kAbsentCause = "No such file or directory";

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path + "/") {
    if (c != '/') {
      part += c;
    } else if (!part.empty()) {
      if (part != ".") parts.push_back(part);
      part.clear();
    }
  }
  return parts;
}

class Snapshot final : public MappedFile {
 public:
  explicit Snapshot(std::string content) : content_(std::move(content)) {}
  std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(content_)); }

 private:
  std::string content_;
};

}  // namespace

class FaultFileSystem::File final : public WritableFile {
 public:
  File(FaultFileSystem& files, std::string path, NodePtr node)
      : files_(files), path_(std::move(path)), node_(std::move(node)), power_cycle_(files.power_cycles_) {}

  Status append(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(files_.mutex_);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool tears = files_.fail_at_ == files_.operations_ && files_.fault_ == Fault::kShortWrite;
    LOCKSTEP_TRY(check_power());
    if (Status status = files_.begin(fmt::format("append {} ({} bytes)", path_, bytes.size()), path_, true);
        !status.is_ok()) {
      if (tears) node_->content.append(text.substr(0, text.size() / 2));
      return status;
    }
    node_->content.append(text);
    return Status::ok();
  }
  Status sync() override {
    const std::lock_guard lock(files_.mutex_);
    LOCKSTEP_TRY(check_power());
    LOCKSTEP_TRY(files_.begin("sync " + path_, path_, true));
    node_->synced_content = node_->content;
    return Status::ok();
  }
  Status close() override {
    const std::lock_guard lock(files_.mutex_);
    LOCKSTEP_TRY(check_power());
    return files_.begin("close " + path_, path_);
  }

 private:
  Status check_power() const {
    if (power_cycle_ == files_.power_cycles_) return Status::ok();
    return files_.cannot("write", path_, "opened before the crash");
  }

  FaultFileSystem& files_;
  std::string path_;
  NodePtr node_;
  int64_t power_cycle_;
};

FaultFileSystem::FaultFileSystem() : root_(std::make_shared<Node>()) {
  root_->directory = true;
}
FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::fail_at(int64_t operation, Fault fault, bool keep_failing) {
  const std::lock_guard lock(mutex_);
  fail_at_ = operation;
  fault_ = fault;
  keep_failing_ = keep_failing;
}

void FaultFileSystem::crash_at(int64_t operation) {
  const std::lock_guard lock(mutex_);
  crash_at_ = operation;
}

void FaultFileSystem::clear_faults() {
  const std::lock_guard lock(mutex_);
  fail_at_.reset();
  crash_at_.reset();
}

void FaultFileSystem::restart(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  fail_at_.reset();
  crash_at_.reset();
  ++power_cycles_;
  uint64_t counter = 0;
  forget(*root_, seed, counter);
}

void FaultFileSystem::forget(Node& node, uint64_t seed, uint64_t& counter) {
  const RandomStream random(seed, Purpose::kTest);
  if (node.directory) {
    const uint64_t kept = random.below(counter++, node.unsynced.size() + 1);
    for (uint64_t i = 0; i < kept; ++i) apply(node.synced_names, node.unsynced[i]);
    node.unsynced.clear();
    node.names = node.synced_names;
    for (auto& [name, child] : node.names) forget(*child, seed, counter);
    return;
  }
  const bool grew = node.content.starts_with(node.synced_content);
  if (grew && node.content.size() > node.synced_content.size()) {
    const size_t unsynced = node.content.size() - node.synced_content.size();
    const size_t kept = node.synced_content.size() + random.below(counter++, unsynced + 1);
    std::string survivor = node.content.substr(0, kept);
    // Some file systems write a file's new size before its bytes.
    if (random.below(counter++, 2) == 1) survivor.resize(node.content.size(), '\0');
    node.synced_content = std::move(survivor);
  } else if (!grew && random.below(counter++, 2) == 1) {
    node.synced_content = node.content;  // a truncation, or what was written over it, got through
  }
  node.content = node.synced_content;
}

int64_t FaultFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

std::vector<std::string> FaultFileSystem::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

void FaultFileSystem::overwrite(const std::string& path, std::string_view content) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  LOCKSTEP_CHECK(node != nullptr && !node->directory) << path;
  node->content = node->synced_content = std::string(content);
}

std::optional<std::string> FaultFileSystem::content(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (node == nullptr || node->directory) return std::nullopt;
  return node->content;
}

std::vector<std::string> FaultFileSystem::paths() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  const auto walk = [&](const auto& self, const Node& node, const std::string& prefix) -> void {
    for (const auto& [name, child] : node.names) {
      found.push_back(prefix + name);
      self(self, *child, prefix + name + "/");
    }
  };
  walk(walk, *root_, "");
  std::sort(found.begin(), found.end());
  return found;
}

Status FaultFileSystem::cannot(std::string_view attempt, const std::string& path,
                               std::string_view cause) const {
  return Status(Code::kIo, fmt::format("cannot {} {}: {}", attempt, path, cause));
}

/// Counts one operation and says whether it happens.
Status FaultFileSystem::begin(std::string what, const std::string& path, bool needs_space) {
  const int64_t number = operations_++;
  const std::string attempt = what.substr(0, what.find(' '));
  trace_.push_back(std::move(what));
  if (crash_at_ && number >= *crash_at_) return cannot(attempt, path, "the machine is off");
  if (fail_at_ && (number == *fail_at_ || (keep_failing_ && number > *fail_at_ && needs_space)))
    return cannot(attempt, path, fault_ == Fault::kIoError ? kIoCause : kSpaceCause);
  return Status::ok();
}

FaultFileSystem::NodePtr FaultFileSystem::find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& part : split_path(path)) {
    if (!node->directory) return nullptr;
    const auto it = node->names.find(part);
    if (it == node->names.end()) return nullptr;
    node = it->second;
  }
  return node;
}

std::pair<FaultFileSystem::NodePtr, std::string> FaultFileSystem::find_parent(const std::string& path) const {
  const auto parts = split_path(path);
  if (parts.empty()) return {};
  std::string parent;
  for (size_t i = 0; i + 1 < parts.size(); ++i) parent += parts[i] + "/";
  NodePtr node = find(parent);
  if (node == nullptr || !node->directory) return {};
  return {node, parts.back()};
}

void FaultFileSystem::apply(Names& names, const NameChange& change) {
  if (!change.also_removed.empty()) names.erase(change.also_removed);
  if (change.node == nullptr)
    names.erase(change.name);
  else
    names[change.name] = change.node;
}

void FaultFileSystem::change(Node& directory, NameChange change) {
  apply(directory.names, change);
  directory.unsynced.push_back(std::move(change));
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::open_file(const std::string& path, bool empty,
                                                                 const std::string& attempt) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin(attempt + " " + path, path, true));
  const auto [parent, name] = find_parent(path);
  if (parent == nullptr) return cannot(attempt, path, kAbsentCause);
  NodePtr node = find(path);
  if (node != nullptr && node->directory) return cannot(attempt, path, "Is a directory");
  if (node == nullptr) {
    node = std::make_shared<Node>();
    change(*parent, {.name = name, .node = node, .also_removed = {}});
  }
  if (empty) node->content.clear();
  return std::unique_ptr<WritableFile>(std::make_unique<File>(*this, path, node));
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::create(const std::string& path) {
  return open_file(path, true, "create");
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::open_append(const std::string& path) {
  return open_file(path, false, "open");
}

Result<std::unique_ptr<DirectoryLock>> FaultFileSystem::lock_directory(const std::string& path) {
  if (locked_elsewhere_) return Status(Code::kUsage, "cannot lock " + path + ": another process works in it");
  return std::unique_ptr<DirectoryLock>();
}

Result<std::unique_ptr<MappedFile>> FaultFileSystem::map(const std::string& path) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("map " + path, path));
  const NodePtr node = find(path);
  if (node == nullptr) return cannot("open", path, kAbsentCause);
  if (node->directory) return cannot("map", path, "Is a directory");
  return std::unique_ptr<MappedFile>(std::make_unique<Snapshot>(node->content));
}

Result<std::string> FaultFileSystem::read(const std::string& path, uint64_t bytes_max) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("read " + path, path));
  const NodePtr node = find(path);
  if (node == nullptr) return cannot("open", path, kAbsentCause);
  if (node->directory) return cannot("read", path, "Is a directory");
  if (node->content.size() > bytes_max)
    return Status(Code::kData, fmt::format("cannot read {}: larger than {} bytes", path, bytes_max));
  return node->content;
}

Status FaultFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin(fmt::format("rename {} to {}", from, to), from));
  const auto [from_parent, from_name] = find_parent(from);
  const auto [to_parent, to_name] = find_parent(to);
  const NodePtr node = find(from), target = find(to);
  if (node == nullptr || to_parent == nullptr) return cannot("rename " + from + " to", to, kAbsentCause);
  if (target != nullptr && node->directory && (!target->directory || !target->names.empty()))
    return cannot("rename " + from + " to", to,
                  target->directory ? "Directory not empty" : "Not a directory");
  if (target != nullptr && !node->directory && target->directory)
    return cannot("rename " + from + " to", to, "Is a directory");
  LOCKSTEP_CHECK(from_parent == to_parent)
      << "a rename between directories is not modelled: " << from << ' ' << to;
  if (from_name != to_name) change(*to_parent, {.name = to_name, .node = node, .also_removed = from_name});
  return Status::ok();
}

Status FaultFileSystem::remove_all(const std::string& path) {
  const std::lock_guard lock(mutex_);
  Status status = begin("remove " + path, path);
  const auto [parent, name] = find_parent(path);
  const NodePtr node = find(path);
  if (node == nullptr || parent == nullptr) return status;
  const bool off = crash_at_ && operations_ > *crash_at_;
  if (!status.is_ok() && (off || !node->directory)) return status;
  // Children first, like the real one; a failing removal stops half way.
  size_t left = node->names.size();
  const size_t spared = status.is_ok() ? 0 : (left + 1) / 2;
  const auto remove_names = [](const auto& self, Node& directory, size_t keep) -> void {
    while (directory.names.size() > keep) {
      const auto [child_name, child] = *directory.names.begin();
      if (child->directory) self(self, *child, 0);
      change(directory, {.name = child_name, .node = nullptr, .also_removed = {}});
    }
  };
  remove_names(remove_names, *node, spared);
  if (status.is_ok()) change(*parent, {.name = name, .node = nullptr, .also_removed = {}});
  return status;
}

Status FaultFileSystem::create_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("mkdir " + path, path, true));
  NodePtr node = root_;
  for (const std::string& part : split_path(path)) {
    if (!node->directory) return cannot("create directory", path, "Not a directory");
    auto it = node->names.find(part);
    if (it == node->names.end()) {
      auto made = std::make_shared<Node>();
      made->directory = true;
      change(*node, {.name = part, .node = made, .also_removed = {}});
      it = node->names.find(part);
    }
    node = it->second;
  }
  return node->directory ? Status::ok() : cannot("create directory", path, "Not a directory");
}

Status FaultFileSystem::sync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("syncdir " + path, path, true));
  const NodePtr node = find(path);
  if (node == nullptr || !node->directory) return cannot("sync", path, kAbsentCause);
  node->synced_names = node->names;
  node->unsynced.clear();
  return Status::ok();
}

Status FaultFileSystem::truncate(const std::string& path, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin(fmt::format("truncate {} to {}", path, bytes), path));
  const NodePtr node = find(path);
  if (node == nullptr || node->directory) return cannot("truncate", path, kAbsentCause);
  node->content.resize(bytes, '\0');
  return Status::ok();
}

Result<std::vector<std::string>> FaultFileSystem::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("list " + path, path));
  const NodePtr node = find(path);
  if (node == nullptr || !node->directory) return cannot("list", path, kAbsentCause);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->names) names.push_back(name);
  return names;
}

bool FaultFileSystem::exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return find(path) != nullptr;
}

bool FaultFileSystem::is_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  return node != nullptr && node->directory;
}

Result<uint64_t> FaultFileSystem::file_bytes(const std::string& path) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_TRY(begin("stat " + path, path));
  const NodePtr node = find(path);
  if (node == nullptr || node->directory) return cannot("inspect", path, kAbsentCause);
  return static_cast<uint64_t>(node->content.size());
}

}  // namespace lockstep::testing
