// Which CPUs this process may use, and how many threads to compute with.
//
// Physical cores count, not their hardware threads: two threads that share a core's vector units make a GEMM
// slower. An efficiency core counts like a performance core (work is handed out dynamically). The count is
// limited by the affinity mask (taskset, Slurm, a cpuset), and by the CPU-time quota of the control group and
// its parents (containers): more threads than the quota pays for would be stopped together at every period's
// end. Everything is read below a root directory, so that tests fake machines; what cannot be read falls back
// to the number of allowed CPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

struct CpuTopology {
  int logical = 1;        ///< CPUs (hardware threads) that are online and allowed
  int physical = 1;       ///< cores that these belong to, 1 <= physical <= logical
  int quota_cpus = 0;     ///< CPU-time quota in CPUs, rounded up; 0: none
  std::vector<int> cpus;  ///< the allowed CPUs' numbers, ascending
  std::string model_name;

  /// min(physical, quota), at least 1.
  int default_threads() const;
  /// "6 physical cores (12 hardware threads), limited to 2 by the container's CPU quota".
  std::string explain() const;
};

/// affinity: the CPUs this process may run on; empty asks the system.
CpuTopology read_cpu_topology(FileSystem& files, const std::string& root = "/",
                              std::vector<int> affinity = {});

/// How many threads to use, and why.
struct ThreadChoice {
  int threads = 1;
  std::string reason;   ///< "--threads", "OMP_NUM_THREADS" or CpuTopology::explain()
  std::string warning;  ///< not empty: to be shown
};

/// Most threads that --threads and OMP_NUM_THREADS may ask for.
inline constexpr int kThreadsMax = 1024;

/// --threads wins over OMP_NUM_THREADS (its first number, as in "4,2"), which wins over default_threads().
/// kUsage when `flag` is outside [1, kThreadsMax]; a wrong omp_num_threads (null: not set) is ignored with a
/// warning. More threads than allowed CPUs are granted with a warning.
Result<ThreadChoice> choose_threads(const CpuTopology& topology, std::optional<int64_t> flag,
                                    const char* omp_num_threads);

/// Present clock of the given CPUs (at most eight of them, evenly spread, are asked), in MHz: the mean of
/// scaling_cur_freq, else of /proc/cpuinfo; nothing where neither says.
std::optional<double> current_cpu_mhz(FileSystem& files, const std::vector<int>& cpus,
                                      const std::string& root = "/");

/// "0-3,8" -> 0 1 2 3 8; nothing when the text is not such a list.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace lockstep
