#include "train/threads.h"

#include <cstdlib>
#include <optional>

#include "kernels/threads.h"

namespace lockstep {

Result<ThreadsInUse> use_threads(FileSystem& files, int64_t requested) {
  ThreadsInUse threads;
  threads.topology = read_cpu_topology(files);
  const std::optional<int64_t> flag = requested == 0 ? std::nullopt : std::optional<int64_t>(requested);
  LOCKSTEP_ASSIGN(threads.choice, choose_threads(threads.topology, flag, std::getenv("OMP_NUM_THREADS")));
  kernels::set_thread_count(threads.choice.threads);
  return threads;
}

}  // namespace lockstep
