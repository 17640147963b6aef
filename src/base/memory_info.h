// How much memory there is to take, and how much this process has taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_system.h"

namespace lockstep {

struct MemoryInfo {
  std::optional<uint64_t> total_bytes;      ///< of the machine
  std::optional<uint64_t> available_bytes;  ///< without swapping, within the control groups' limits
  std::optional<uint64_t> limit_bytes;      ///< least limit of the control group and its parents
};

/// MemAvailable of /proc/meminfo and, for the control group and each parent with a limit, limit - usage +
/// page cache that can be dropped: the least of them. Nothing here fails; unknown fields are empty.
MemoryInfo read_memory_info(FileSystem& files, const std::string& root = "/");

/// Resident memory of this process now (0 where the system does not say) and its highest so far (ru_maxrss).
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

}  // namespace lockstep
