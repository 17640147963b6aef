#include "base/cgroup.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

constexpr uint64_t kProcFileBytesMax = uint64_t{1} << 22;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

struct Mount {
  std::string shown;  ///< the part of the hierarchy that is mounted ("/" for all of it)
  std::string point;
};

/// The mount of the hierarchy that holds the controller, from /proc/self/mountinfo.
std::optional<Mount> find_mount(const std::string& mountinfo, int version, std::string_view controller) {
  for (const std::string& line : split(mountinfo, '\n')) {
    // id parent major:minor SHOWN POINT options… - TYPE source SUPER_OPTIONS
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto before = split(std::string_view(line).substr(0, dash), ' ');
    const auto after = split(std::string_view(line).substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool matches = version == 2 ? after[0] == "cgroup2"
                                      : after[0] == "cgroup" && contains(split(after[2], ','), controller);
    if (matches) return Mount{before[3], before[4]};
  }
  return std::nullopt;
}

/// The group's name in the hierarchy, from /proc/self/cgroup.
std::optional<std::string> find_group(const std::string& cgroup, int version, std::string_view controller) {
  for (const std::string& line : split(cgroup, '\n')) {
    // number:controllers:NAME, with "0::NAME" for version 2
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches =
        version == 2 ? line.starts_with("0::") : contains(split(controllers, ','), controller);
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

}  // namespace

std::string under_root(const std::string& root, std::string_view path) {
  std::string joined = root;
  while (!joined.empty() && joined.back() == '/') joined.pop_back();
  if (!path.starts_with('/')) joined += '/';
  return joined.append(path);
}

std::vector<CgroupDirectory> cgroup_directories(FileSystem& files, const std::string& root,
                                                std::string_view controller) {
  std::vector<CgroupDirectory> directories;
  const auto cgroup = files.read(under_root(root, "/proc/self/cgroup"), kProcFileBytesMax);
  const auto mountinfo = files.read(under_root(root, "/proc/self/mountinfo"), kProcFileBytesMax);
  if (!cgroup.is_ok()) return directories;
  for (const int version : {2, 1}) {
    const auto group = find_group(*cgroup, version, controller);
    if (!group) continue;
    const std::string usual_point =
        version == 2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);
    Mount mount{"/", usual_point};
    if (mountinfo.is_ok()) {
      const auto found = find_mount(*mountinfo, version, controller);
      if (!found) continue;
      mount = *found;
    }
    // Name below what is shown; a group outside of it ("/../x", or another container's view) has only the
    // top.
    std::string name = *group;
    if (mount.shown != "/")
      name = name.starts_with(mount.shown + "/") ? name.substr(mount.shown.size()) : std::string("/");
    const std::string top = under_root(root, mount.point);
    std::string inner = name == "/" || name.find("/..") != std::string::npos ? "" : name;
    while (!inner.empty()) {
      if (files.is_directory(top + inner)) directories.push_back({top + inner, version});
      inner.resize(inner.find_last_of('/'));
    }
    directories.push_back({top, version});
  }
  return directories;
}

}  // namespace lockstep
