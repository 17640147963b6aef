// Where the limits of this process's control groups stand: the directories of its own group and of all its
// parents, for one controller, in version 2 (one tree) and version 1 (a tree per controller). A limit of any
// of them holds, so readers take the least.
//
// Inside a container the names in /proc/self/cgroup may start above what is mounted ("0::/" or "/docker/id"
// with only that part mounted); the part of the name that the mount shows is used, and the mount's top
// otherwise. Nothing here fails: what cannot be read is left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace lockstep {

struct CgroupDirectory {
  std::string path;
  int version = 2;
};

/// Directories whose limit files hold for this process, innermost first. controller: "cpu" or "memory".
/// root: "/" in earnest; in tests the directory that holds proc/ and sys/.
std::vector<CgroupDirectory> cgroup_directories(FileSystem& files, const std::string& root,
                                                std::string_view controller);

/// root + path with exactly one '/' between.
std::string under_root(const std::string& root, std::string_view path);

}  // namespace lockstep
