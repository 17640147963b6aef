// Sets the number of threads that the kernels use, for every command that computes.
#pragma once

#include <cstdint>

#include "base/cpu_topology.h"
#include "base/file_system.h"
#include "base/status.h"

namespace lockstep {

struct ThreadsInUse {
  CpuTopology topology;
  ThreadChoice choice;
};

/// `requested` threads; 0: OMP_NUM_THREADS, else what the machine offers this process.
Result<ThreadsInUse> use_threads(FileSystem& files, int64_t requested);

}  // namespace lockstep
