#include "base/memory_info.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/cgroup.h"

namespace lockstep {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1} << 20;

/// The number that follows `key` at the begin of a line (an empty key: at the begin of the text).
std::optional<uint64_t> number_after(const std::string& text, std::string_view key) {
  for (size_t begin = 0; begin <= text.size();) {
    std::string_view line = std::string_view(text).substr(begin, text.find('\n', begin) - begin);
    begin += line.size() + 1;
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc()) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> read_number(FileSystem& files, const std::string& path, std::string_view key = "") {
  const auto text = files.read(path, kFileBytesMax);
  if (!text.is_ok()) return std::nullopt;
  return number_after(*text, key);
}

void lower(std::optional<uint64_t>& least, uint64_t value) {
  least = std::min(value, least.value_or(value));
}

}  // namespace

MemoryInfo read_memory_info(FileSystem& files, const std::string& root) {
  MemoryInfo info;
  const std::string meminfo = under_root(root, "/proc/meminfo");
  if (const auto kib = read_number(files, meminfo, "MemTotal:")) info.total_bytes = *kib * 1024;
  if (const auto kib = read_number(files, meminfo, "MemAvailable:")) info.available_bytes = *kib * 1024;
  for (const CgroupDirectory& group : cgroup_directories(files, root, "memory")) {
    const bool v2 = group.version == 2;
    const auto limit = read_number(files, group.path + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    // Version 1 writes "none" as the largest multiple of a page: more than the machine has.
    if (!limit || (info.total_bytes && *limit >= *info.total_bytes)) continue;
    lower(info.limit_bytes, *limit);
    const auto usage = read_number(files, group.path + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    const auto cache =
        read_number(files, group.path + "/memory.stat", v2 ? "inactive_file " : "total_inactive_file ");
    const uint64_t used = usage.value_or(0) - std::min(usage.value_or(0), cache.value_or(0));
    lower(info.available_bytes, *limit - std::min(*limit, used));
  }
  return info;
}

uint64_t resident_bytes() {
  const auto text = real_file_system().read("/proc/self/statm", kFileBytesMax);  // pages: total resident …
  if (!text.is_ok()) return 0;
  const size_t space = text->find(' ');
  if (space == std::string::npos) return 0;
  const auto pages = number_after(text->substr(space + 1), "");
  return pages.value_or(0) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace lockstep
